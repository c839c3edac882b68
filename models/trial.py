"""A model is tried before it is trusted: on made-up clusters within the ranges that it says it was trained on.

Weights that overflowed in training load like any others, and would only be found out by the pods that wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from agent.cluster import BoolArray, FloatArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, Encoding, FeatureArray
from agent.scorer import ScoringUnavailable
from models.manifest import FeatureRange, Manifest

DRAWN = 4  # clusters anywhere within the ranges, beside those at their ends
NODES = 8
TIMED_NODES = 100
TIMES = 3  # the quickest counts: the machine may be busy with something else


class Rater(Protocol):
    """A model, as far as it is tried here."""

    manifest: Manifest

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray: ...


def refuse_nonsense(model: Rater) -> None:
    """Raises where a score is not a number, or not one for each node."""
    encoding, candidates = _clusters(model.manifest, NODES)
    candidates[-1, 1:] = False  # one node to choose from is a cluster too
    try:
        model.rate(encoding, candidates)
    except ScoringUnavailable as why:
        raise InputError(f"{why}, within the very ranges of its manifest") from why


def answers_within(model: Rater, limit_s: float) -> bool:
    """Whether it can rate the nodes of a middling cluster in time."""
    encoding, candidates = _clusters(model.manifest, TIMED_NODES)
    one = Encoding(encoding.nodes[-1], encoding.pod[-1])
    return any(_took_s(model, one, candidates[-1]) <= limit_s for _ in range(TIMES))


def _took_s(model: Rater, encoding: Encoding, candidates: BoolArray) -> float:
    began_s = time.perf_counter()
    model.rate(encoding, candidates)
    return time.perf_counter() - began_s


def _clusters(manifest: Manifest, nodes: int) -> tuple[Encoding, BoolArray]:
    """At the four marks of every range, then drawn between the inner two."""
    rng = np.random.default_rng(0)
    of_nodes = _values(manifest.node_features, NODE_FEATURES, nodes, rng)
    of_pod = _values(manifest.pod_features, POD_FEATURES, 1, rng)[:, 0]
    return Encoding(of_nodes, of_pod), np.ones(of_nodes.shape[:2], dtype=np.bool_)


def _values(
    ranges: Mapping[str, FeatureRange], names: Mapping[str, str], rows: int, rng: np.random.Generator
) -> FeatureArray:
    """``(clusters, rows, features)``."""
    known = [ranges[name] for name in names]
    marks = np.array([[getattr(each, mark) for each in known] for mark in ("min", "low", "high", "max")])
    drawn = rng.uniform(marks[1], marks[2], (DRAWN, rows, len(known)))
    ends = np.repeat(marks[:, None, :], rows, axis=1)
    return np.concatenate([ends, drawn]).astype(np.float32)

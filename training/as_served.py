"""A policy as the sidecar serves it, for thousands of clusters at once: what a bar measures is what a cluster gets.

The rungs are those of ``agent.ladder``, row by row: the policy, unless too few metrics are fresh, its features leave
the range it was trained in, or its values are not finite; then the traffic heuristic, then requests. kube-scheduler
gets eleven levels of them. Candidate subsets, late and missing metrics are the environment's doing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray, IntArray
from agent.features import POD_COLUMN, Encoding, encode
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.least_allocated import LeastAllocated
from agent.ladder import Freshness
from agent.quantise import quantise
from agent.scorer import (
    METRIC_GROUPS,
    FeatureScorer,
    Scorer,
    ScoringUnavailable,
    missing_metrics,
    neutral_where_missing,
)
from envs.batch_env import BatchEnv
from training.play import best

logger = logging.getLogger(__name__)

GPU_REQUEST = POD_COLUMN["gpu_request"]

Rng = np.random.Generator
Distortion = Callable[[Encoding, BoolArray], Encoding]  # what an ablation does to the features


@runtime_checkable
class Guarded(FeatureScorer, Protocol):
    """A policy that knows the range it was trained in."""

    def out_of_range(self, encoding: Encoding, candidates: BoolArray) -> BoolArray:
        """Whether too many values leave the range, (...)."""
        ...


@dataclass(frozen=True, slots=True)
class ByGpus:
    """Two policies: one for pods that ask for GPUs, one for all others."""

    default: Guarded
    gpu: Guarded
    name: ClassVar[str] = "policy"
    needs: ClassVar[tuple[str, ...]] = METRIC_GROUPS

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        values = np.zeros(candidates.shape)
        for policy, rows in self._parts(encoding):
            values[rows] = policy.rate(Encoding(encoding.nodes[rows], encoding.pod[rows]), candidates[rows])
        return values

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return self.rate(encode(state, demand, candidates), candidates)

    def out_of_range(self, encoding: Encoding, candidates: BoolArray) -> BoolArray:
        outside = np.zeros(candidates.shape[:-1], dtype=np.bool_)
        for policy, rows in self._parts(encoding):
            part = Encoding(encoding.nodes[rows], encoding.pod[rows])
            outside[rows] = policy.out_of_range(part, candidates[rows])
        return outside

    def _parts(self, encoding: Encoding) -> list[tuple[Guarded, BoolArray]]:
        asks = np.asarray(encoding.pod[..., GPU_REQUEST] > 0)
        return [(policy, rows) for policy, rows in ((self.default, ~asks), (self.gpu, asks)) if rows.any()]


class AsServed:
    """Chooses nodes as the sidecar would, and counts how often the policy itself was the one that answered."""

    def __init__(
        self, policy: FeatureScorer, distortion: Distortion | None = None, freshness: Freshness | None = None
    ) -> None:
        self.policy, self.distortion, self.freshness = policy, distortion, freshness or Freshness()
        self.asked = self.answered = 0
        self._room: Encoding | None = None

    def choose(self, env: BatchEnv, rng: Rng) -> IntArray:
        """The node of the highest level, for every cluster that is not done; among equals one at random."""
        rows = np.flatnonzero(~env.done)
        candidates = env.candidates()[rows]
        levels = quantise(self._values(env, rows, candidates), candidates)
        actions = np.zeros(env.clusters, dtype=np.int64)
        actions[rows] = best(levels.astype(np.float64), candidates, rng)
        return actions

    def _values(self, env: BatchEnv, rows: IntArray, candidates: BoolArray) -> FloatArray:
        missing = missing_metrics(env.state(), self.policy.needs, self.freshness.stale_after_s)[rows]
        count = candidates.sum(axis=-1)
        fresh = (candidates & ~missing).sum(axis=-1)
        seeing = fresh >= np.maximum(1.0, self.freshness.min_fresh_share * count)
        values, in_range = self._rated(env, rows, candidates)
        finite = (np.isfinite(values) | missing | ~candidates).all(axis=-1)
        by_policy = seeing & in_range & finite
        asked = count > 1  # kube-scheduler asks nobody about a single feasible node
        self.asked += int(asked.sum())
        self.answered += int((asked & by_policy).sum())
        values = neutral_where_missing(values, candidates, missing)
        values = _instead(values, ~by_policy & seeing, ExpectedUtilisation(), env, rows, missing)
        return _instead(values, ~seeing, LeastAllocated(), env, rows, np.zeros_like(missing))

    def _rated(self, env: BatchEnv, rows: IntArray, candidates: BoolArray) -> tuple[FloatArray, BoolArray]:
        """The policy's values, and where it may answer."""
        encoding = self._encoding(env, rows)
        if self.distortion is not None:
            encoding = self.distortion(encoding, candidates)
        try:
            values = np.asarray(self.policy.rate(encoding, candidates), dtype=np.float64)
        except ScoringUnavailable as why:  # one bad row refuses the batch: counted against the policy, all of it
            logger.warning("%s skipped: %s; trying %s", self.policy.name, why, ExpectedUtilisation.name)
            return np.zeros(candidates.shape), np.zeros(len(rows), dtype=np.bool_)
        if isinstance(self.policy, Guarded):
            return values, ~self.policy.out_of_range(encoding, candidates)
        return values, np.ones(len(rows), dtype=np.bool_)

    def _encoding(self, env: BatchEnv, rows: IntArray) -> Encoding:
        if self._room is None or self._room.nodes.shape[:2] != (env.clusters, env.node_slots):
            self._room = env.new_encoding()
        encoding = env.encode(self._room)
        return encoding if len(rows) == env.clusters else Encoding(encoding.nodes[rows], encoding.pod[rows])


def _instead(
    values: FloatArray, here: BoolArray, scorer: Scorer, env: BatchEnv, rows: IntArray, missing: BoolArray
) -> FloatArray:
    """The values of a lower rung in the rows that need it."""
    if not here.any():
        return values
    candidates = env.candidates()
    lower = np.asarray(scorer.score(env.state(), env.demand(), candidates))[rows]
    return np.where(here[:, None], neutral_where_missing(lower, candidates[rows], missing), values)

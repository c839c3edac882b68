"""What every feature looked like in training: the ranges that a model's manifest records.

The least and the greatest value are exact. The percentiles come from a sample of rows, drawn so that each row seen has
the same chance whenever it came. Several worlds have a recorder each, and ``widest`` puts them together: what is common
in one of them is in range, however few its nodes are beside those of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.features import NODE_FEATURES, POD_FEATURES, Encoding, FeatureArray, encode
from agent.scorer import FeatureScorer
from models.manifest import FeatureRange

LOW_PERCENTILE, HIGH_PERCENTILE = 0.1, 99.9
ROWS_KEPT = 200_000


class FeatureRecorder:
    """Shown encodings, one cluster or a batch at a time; candidates count, other nodes do not."""

    def __init__(self, seed: int = 0, rows_kept: int = ROWS_KEPT) -> None:
        rng = np.random.default_rng(seed)
        self._nodes = _Columns(NODE_FEATURES, rng, rows_kept)
        self._pod = _Columns(POD_FEATURES, rng, rows_kept)

    def see(self, encoding: Encoding, candidates: BoolArray) -> None:
        self._nodes.see(encoding.nodes[candidates])
        self._pod.see(encoding.pod[candidates.any(axis=-1)].reshape(-1, len(POD_FEATURES)))

    @property
    def node_ranges(self) -> dict[str, FeatureRange]:
        return self._nodes.ranges()

    @property
    def pod_ranges(self) -> dict[str, FeatureRange]:
        return self._pod.ranges()


Ranges = dict[str, FeatureRange]


def widest(worlds: Sequence[Ranges]) -> Ranges:
    """From the least to the greatest over the worlds."""
    return {
        name: FeatureRange(
            min=min(ranges[name].min for ranges in worlds),
            low=min(ranges[name].low for ranges in worlds),
            high=max(ranges[name].high for ranges in worlds),
            max=max(ranges[name].max for ranges in worlds),
        )
        for name in worlds[0]
    }


class Recording:
    """A ``FeatureScorer`` that shows the recorder all it is asked: play with it, and what play meets is recorded."""

    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")

    def __init__(self, scorer: FeatureScorer, recorder: FeatureRecorder) -> None:
        self.name = scorer.name
        self._scorer = scorer
        self._recorder = recorder

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        self._recorder.see(encoding, candidates)
        return self._scorer.rate(encoding, candidates)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return self.rate(encode(state, demand, candidates), candidates)


class _Columns:
    def __init__(self, names: Iterable[str], rng: np.random.Generator, rows_kept: int) -> None:
        self._names = tuple(names)
        self._rng = rng
        self._rows_kept = rows_kept
        self._min = np.full(len(self._names), np.inf, dtype=np.float32)
        self._max = np.full(len(self._names), -np.inf, dtype=np.float32)
        self._rows = np.empty((0, len(self._names)), dtype=np.float32)
        self._lots = np.empty(0)  # one for each row kept; the rows with the smallest ever drawn stay

    def see(self, rows: FeatureArray) -> None:
        if not len(rows):
            return
        self._min = np.minimum(self._min, rows.min(axis=0))
        self._max = np.maximum(self._max, rows.max(axis=0))
        lots = self._rng.random(len(rows))
        if len(self._lots) >= self._rows_kept:
            hopeful = lots < self._lots.max()
            rows, lots = rows[hopeful], lots[hopeful]
        self._rows, self._lots = np.concatenate([self._rows, rows]), np.concatenate([self._lots, lots])
        if len(self._lots) > self._rows_kept:
            stay = np.argpartition(self._lots, self._rows_kept)[: self._rows_kept]
            self._rows, self._lots = self._rows[stay], self._lots[stay]

    def ranges(self) -> dict[str, FeatureRange]:
        if not len(self._rows):
            raise ValueError("no features were seen: show the recorder at least one cluster with a candidate")
        # values that were really there, so that a constant feature is inside its own range to the last bit
        low = np.percentile(self._rows, LOW_PERCENTILE, axis=0, method="lower")
        high = np.percentile(self._rows, HIGH_PERCENTILE, axis=0, method="higher")
        columns = zip(self._names, self._min, low, high, self._max, strict=True)
        return {
            name: FeatureRange(min=float(least), low=float(lower), high=float(upper), max=float(most))
            for name, least, lower, upper, most in columns
        }

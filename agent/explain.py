"""Why this node: what moved its score away from that of an average candidate.

For any scorer, learned or not: a feature's contribution is how much the node's score changes when that feature takes
the candidates' mean and everything else stays. Each node is changed alone, among its true peers, because many scorers
compare the candidates with each other. For a linear scorer the contributions add up exactly; for others the part that
only features together explain is shown as the remainder, not hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray, IntArray
from agent.scorer import Scorer

# What people call a feature, and the columns of ClusterState and Demand behind it. The zone is left out: the mean of
# two zones is not a zone.
FEATURES: dict[str, tuple[str, ...]] = {
    "cpu use": ("cpu_used_millicores", "cpu_std_millicores"),
    "memory use": ("memory_used_mib",),
    "network use": ("rx_mbps", "tx_mbps", "connections"),
    "age of metrics": ("cpu_age_s", "memory_age_s", "network_age_s"),
    "requests": ("cpu_requested_millicores", "memory_requested_mib", "pods_running"),
    "pending placements": (
        "pending_cpu_millicores",
        "pending_memory_mib",
        "pending_rx_mbps",
        "pending_tx_mbps",
        "pending_pods",
    ),
    "siblings": ("siblings_on_node", "siblings_in_zone", "sibling_rtt_ms"),
    "size": ("cpu_allocatable_millicores", "memory_allocatable_mib", "pods_allocatable"),
    "nic speed": ("nic_mbps",),
    "gpus": ("gpu_count", "gpu_free_milli"),
    "latency": ("user_latency_ms",),
    "price": ("price_usd_per_hour",),
    "power": ("power_idle_watts", "power_peak_watts"),
}

NAMED_IN_SENTENCE = 3
NEGLIGIBLE = 1e-9

_Columns = TypeVar("_Columns", ClusterState, Demand)


@dataclass(frozen=True, slots=True)
class Contribution:
    """How much higher the score is than it would be with this feature at the candidates' mean."""

    feature: str
    change: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """score = score_at_mean + the sum of the contributions + remainder; contributions sorted by size.

    A node whose score is NaN, because a metric of its own is missing, has no contributions.
    """

    node: int
    score: float
    score_at_mean: float
    contributions: tuple[Contribution, ...]
    remainder: float

    @property
    def missing(self) -> bool:
        return math.isnan(self.score)

    def sentence(self, name: str) -> str:
        """The same for people."""
        if self.missing:
            return (
                f"{name} has no score of its own, because a metric is missing: it is held in the middle of its peers."
            )
        above = self.score - self.score_at_mean
        if abs(above) <= NEGLIGIBLE and not self.contributions:
            return f"{name} scores {self.score:.3g}, like an average candidate."
        compared = f"{abs(above):.3g} {'above' if above >= 0 else 'below'}"
        return f"{name} scores {self.score:.3g}, {compared} an average candidate: {', '.join(self._parts())}."

    def _parts(self) -> list[str]:
        named, others = self.contributions[:NAMED_IN_SENTENCE], self.contributions[NAMED_IN_SENTENCE:]
        parts = [(part.feature, part.change) for part in named]
        parts.append(("other features", sum(part.change for part in others)))
        parts.append(("features acting together", self.remainder))
        return [f"{feature} {change:+.3g}" for feature, change in parts if abs(change) > NEGLIGIBLE]


def explain(
    scorer: Scorer, state: ClusterState, demand: Demand, candidates: BoolArray, nodes: Sequence[int]
) -> list[Explanation]:
    """Explain the scores of some nodes of one cluster; one call of the scorer per feature, whatever their number."""
    asked = np.asarray(nodes, dtype=np.int64)
    scores = scorer.score(state, demand, candidates)[asked]
    what_if = _WhatIf(scorer, state, demand, candidates, asked)
    changes = {feature: scores - what_if.at_mean(columns) for feature, columns in FEATURES.items()}
    at_mean = what_if.at_mean(tuple(column for columns in FEATURES.values() for column in columns))
    return [
        _explanation(int(node), float(scores[row]), float(at_mean[row]), {name: changes[name][row] for name in changes})
        for row, node in enumerate(asked)
    ]


def _explanation(node: int, score: float, score_at_mean: float, changes: dict[str, Any]) -> Explanation:
    if math.isnan(score):
        return Explanation(node, score, score_at_mean, (), 0.0)
    moved = [Contribution(feature, float(change)) for feature, change in changes.items() if abs(change) > NEGLIGIBLE]
    moved.sort(key=lambda part: -abs(part.change))
    remainder = score - score_at_mean - sum(float(change) for change in changes.values())
    return Explanation(node, score, score_at_mean, tuple(moved), remainder)


@dataclass(frozen=True, slots=True)
class _WhatIf:
    """The cluster once per asked node, as a batch: in row k only node k differs from the truth."""

    scorer: Scorer
    state: ClusterState
    demand: Demand
    candidates: BoolArray
    asked: IntArray

    def at_mean(self, columns: tuple[str, ...]) -> FloatArray:
        """Scores of the asked nodes when these columns of each take the candidates' mean."""
        rows = np.arange(len(self.asked))
        candidates = np.broadcast_to(self.candidates, (len(rows), *self.candidates.shape))
        scores = self.scorer.score(self._batch(self.state, columns), self._batch(self.demand, columns), candidates)
        return scores[rows, self.asked]

    def _batch(self, table: _Columns, changed: tuple[str, ...]) -> _Columns:
        batch: dict[str, Any] = {}
        for column in fields(table):
            values: FloatArray = getattr(table, column.name)
            rows = np.broadcast_to(values, (len(self.asked), *np.shape(values)))
            batch[column.name] = self._with_mean(values, rows) if column.name in changed else rows
        return replace(table, **batch)

    def _with_mean(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        usable = np.isfinite(values[self.candidates])
        count = usable.sum(axis=0)
        total = np.sum(values[self.candidates], axis=0, where=usable)
        changed = rows.copy()
        own = np.arange(len(self.asked)), self.asked
        changed[own] = np.where(count > 0, total / np.maximum(count, 1), changed[own])
        return changed

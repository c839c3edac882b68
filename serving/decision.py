"""What a decision is: the answer for one pod, with everything that explains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray, IntArray, Pod
from agent.feasibility import Feasibility
from agent.scorer import METRIC_GROUPS, Scores

Ages = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates in order: raw values with their source, levels 0 to 10, and the best of them."""

    scores: Scores
    levels: IntArray  # (nodes,)
    best: int | None  # index of a node; None without candidates


@dataclass(frozen=True, slots=True)
class Decision:
    pod: Pod
    names: tuple[str, ...]
    candidates: BoolArray  # (nodes,): asked for and feasible
    ranking: Ranking
    asked: BoolArray  # (nodes,)
    feasible: Feasibility | None  # None: the caller judged them
    state: ClusterState  # what was known of the nodes, assumed placements included
    demand: Demand
    model: str | None  # label of the model that answered; None if a heuristic did
    deadline_s: float  # how long it might have taken
    took_s: float = 0.0
    mode: str = "active"  # of the rollout
    applied: bool = True  # False: the caller got a neutral answer instead (shadow, or not drawn for the canary)

    @property
    def best(self) -> str | None:
        return None if self.ranking.best is None else self.names[self.ranking.best]

    @property
    def filtered(self) -> dict[str, list[str]]:
        """Nodes that were asked for and cannot take the pod, with all reasons."""
        if self.feasible is None:
            return {}
        asked = {self.names[place] for place in np.flatnonzero(self.asked & ~self.feasible.mask).tolist()}
        return {name: why for name, why in self.feasible.reasons.items() if name in asked}

    @property
    def ages_s(self) -> Ages:
        return median_ages(self.state, self.asked)

    def best_first(self, most: int | None = None) -> list[int]:
        """The candidates from best to worst, the chosen one before its equals."""
        nodes, values = np.flatnonzero(self.candidates), self.ranking.scores.values
        if most is not None and most < len(nodes):
            nodes = nodes[np.argpartition(-values[nodes], most)[:most]]
            if self.ranking.best is not None and self.ranking.best not in nodes:  # cut off among its equals
                nodes[-1] = self.ranking.best
        return sorted(nodes.tolist(), key=lambda node: (-values[node], node != self.ranking.best, node))


def median_ages(state: ClusterState, asked: BoolArray) -> Ages:
    """How old each metric group is on the middle one of these nodes; None where no node has it."""
    ages: Ages = {}
    for group in METRIC_GROUPS:
        age_s = getattr(state, f"{group}_age_s")[asked]
        known = age_s[np.isfinite(age_s)]
        ages[group] = _median(known) if len(known) else None
    return ages


def _median(values: FloatArray) -> float:
    """As ``np.median``, which takes longer to begin than to count."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    parted = np.partition(values, (low, high))
    return float(parted[low] + parted[high]) / 2.0

"""What a decision is: the answer for one pod, with everything that explains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, IntArray, Pod
from agent.scorer import Scores

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
    filtered: dict[str, list[str]]  # nodes that were asked for and cannot take the pod
    state: ClusterState  # what was known of the nodes, assumed placements included
    demand: Demand
    ages_s: Ages  # median over the asked nodes that have the metric
    model: str | None  # label of the model that answered; None if a heuristic did
    deadline_s: float  # how long it might have taken
    took_s: float = 0.0
    mode: str = "active"  # of the rollout
    applied: bool = True  # False: the caller got a neutral answer instead (shadow, or not drawn for the canary)

    @property
    def best(self) -> str | None:
        return None if self.ranking.best is None else self.names[self.ranking.best]

    def best_first(self, most: int | None = None) -> list[int]:
        """The candidates from best to worst, the chosen one before its equals."""
        nodes, values = np.flatnonzero(self.candidates), self.ranking.scores.values
        if most is not None and most < len(nodes):
            nodes = nodes[np.argpartition(-values[nodes], most)[:most]]
            if self.ranking.best is not None and self.ranking.best not in nodes:  # cut off among its equals
                nodes[-1] = self.ranking.best
        return sorted(nodes.tolist(), key=lambda node: (-values[node], node != self.ranking.best, node))

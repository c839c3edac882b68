"""Equal scores: the last rung of the ladder, which needs nothing and cannot be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray


@dataclass(frozen=True, slots=True)
class Neutral:
    """From Pilotfish. Formula: 0 for every node, so that the other scorers of kube-scheduler decide alone."""

    name: ClassVar[str] = "neutral"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return np.zeros(candidates.shape)

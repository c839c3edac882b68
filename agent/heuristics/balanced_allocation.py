"""Balance CPU against memory on each node, so that neither is left over without the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.shares import cpu_share_requested, memory_share_requested


@dataclass(frozen=True, slots=True)
class BalancedAllocation:
    """From kube-scheduler (to 1.35): ``NodeResourcesBalancedAllocation``.

    Formula: 100 x (1 - s), s the standard deviation of the requested shares of CPU and memory, this pod included and
    each share at most 1; of two shares that is abs(cpu - memory) / 2, so the range is 50 to 100. A pod that requests
    neither scores 0 everywhere: kube-scheduler skips it, for it would flock to the most balanced node (issue 129138).

    Differs: kube-scheduler truncates to integers; from 1.36 it scores the change of the balance (pull 135573).
    """

    name: ClassVar[str] = "balanced_allocation"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        score = cpu_share_requested(state, demand)
        score -= memory_share_requested(state, demand)
        np.abs(score, out=score)
        score *= -50.0
        score += 100.0
        requests_something = (demand.cpu_request_millicores > 0) | (demand.memory_request_mib > 0)
        score *= requests_something[..., None]
        return score

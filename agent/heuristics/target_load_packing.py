"""Pack by real CPU use up to a target, then spread: a packing that leaves room for peaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.heuristics.shares import share_of


@dataclass(frozen=True, slots=True)
class TargetLoadPacking:
    """From Trimaran (sigs.k8s.io/scheduler-plugins): ``TargetLoadPacking``.

    Formula: p = 100 x (used + pending + predicted) / allocatable, predicted = 1.5 x the pod's CPU request, or 1000m
    for a pod without one; with target t = 40 the score is

    * (100 - t) x p / t + t for p <= t
    * t x (100 - p) / (100 - t) for t < p <= 100
    * 0 for p > 100, and 0 without a CPU metric, as upstream: so new nodes are shunned until they are scraped

    Differs: upstream takes the pod's CPU limit for ``predicted`` if there is one, capacity instead of allocatable,
    its own cache of recent pods for ``pending``, and rounds to integers.
    """

    target_percent: float = 40.0
    requests_multiplier: float = 1.5
    default_request_millicores: float = 1000.0
    name: ClassVar[str] = "target_load_packing"
    needs: ClassVar[tuple[str, ...]] = ("cpu",)

    def __post_init__(self) -> None:
        if not 0 < self.target_percent < 100:
            raise InputError(f"target_percent {self.target_percent}: must be between 0 and 100")

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        target = self.target_percent
        used = state.cpu_used_millicores + state.pending_cpu_millicores
        used += self._predicted_millicores(demand)[..., None]
        percent = share_of(used, state.cpu_allocatable_millicores)
        percent *= 100.0
        rising = percent <= target
        falling = percent * (-target / (100.0 - target))
        falling += 100.0 * target / (100.0 - target)
        percent *= (100.0 - target) / target
        percent += target
        score = np.where(rising, percent, falling)
        return np.fmax(score, 0.0, out=score)  # fmax: NaN, a missing metric, becomes 0 too

    def _predicted_millicores(self, demand: Demand) -> FloatArray:
        request = demand.cpu_request_millicores
        return np.where(request > 0, request * self.requests_multiplier, self.default_request_millicores)

"""Score by a curve over the requested share: packing, spreading, or a target in between."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.heuristics.shares import cpu_share_requested, memory_share_requested

NOTHING = 1e-9  # a score that should be 0 but for rounding
PACK = ((0.0, 0.0), (100.0, 10.0))  # the example of the Kubernetes documentation


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatio:
    """From kube-scheduler: ``NodeResourcesFit`` with ``scoringStrategy.type: RequestedToCapacityRatio``.

    Formula: per resource f(requested x 100 / allocatable), this pod included, f linear between the points of
    ``shape`` (utilisation in percent, score 0 to 10) and flat outside, times 10; then the mean by weight over the
    resources whose score is above 0, and 0 if there is none.

    Differs: kube-scheduler truncates the percentage and f to integers.
    """

    shape: tuple[tuple[float, float], ...] = PACK
    cpu_weight: float = 1.0
    memory_weight: float = 1.0
    name: ClassVar[str] = "requested_to_capacity_ratio"
    needs: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        percents = [percent for percent, _ in self.shape]
        if not self.shape or any(after <= before for before, after in pairwise(percents)):
            raise InputError(f"shape {self.shape}: needs points (utilisation, score) with rising utilisation")
        if not all(0 <= percent <= 100 and 0 <= score <= 10 for percent, score in self.shape):
            raise InputError(f"shape {self.shape}: utilisation must be 0 to 100 and score 0 to 10")

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        cpu = self._shaped(cpu_share_requested(state, demand))
        memory = self._shaped(memory_share_requested(state, demand))
        weight = self.cpu_weight * (cpu > NOTHING) + self.memory_weight * (memory > NOTHING)
        cpu *= self.cpu_weight
        memory *= self.memory_weight
        cpu += memory
        return np.divide(cpu, weight, out=cpu, where=weight > 0)

    def _shaped(self, share: FloatArray) -> FloatArray:
        """f x 10 as the first score plus one ramp per segment: np.interp is several times slower on small arrays."""
        value = np.full(share.shape, 10.0 * self.shape[0][1])
        for (start, low), (end, high) in pairwise(self.shape):
            ramp = share - start / 100.0
            np.clip(ramp, 0.0, (end - start) / 100.0, out=ramp)
            ramp *= 1000.0 * (high - low) / (end - start)
            value += ramp
        return value

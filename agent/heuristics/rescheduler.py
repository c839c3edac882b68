"""Real usage instead of requests: the score of the rescheduler plugin, with its bonus for idle nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.shares import share_of

IDLE_BELOW_PERCENT = 30.0


@dataclass(frozen=True, slots=True)
class Rescheduler:
    """From the rescheduler plugin (scodemay/plugins-improve).

    Formula: (100 - cpu) x cpu_weight + (100 - memory) x memory_weight, + bonus if cpu < 30 and memory < 30, limited
    to 0 to 100. ``cpu`` and ``memory`` are percent of allocatable in use now, without this pod.

    Where a metric is missing or older than ``stale_after_s`` that node's requested / allocatable stands in for it.
    The plugin itself always uses requests, so pods that are bound but not yet running count nothing there.
    """

    cpu_weight: float = 0.6
    memory_weight: float = 0.4
    load_balance_bonus: float = 10.0
    stale_after_s: float = 180.0
    name: ClassVar[str] = "rescheduler"
    needs: ClassVar[tuple[str, ...]] = ()  # it has its own fallback

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        cpu = self._percent(
            state.cpu_used_millicores,
            state.cpu_age_s,
            state.cpu_requested_millicores,
            state.cpu_allocatable_millicores,
        )
        memory = self._percent(
            state.memory_used_mib, state.memory_age_s, state.memory_requested_mib, state.memory_allocatable_mib
        )
        bonus = (cpu < IDLE_BELOW_PERCENT) & (memory < IDLE_BELOW_PERCENT)
        cpu *= -self.cpu_weight
        memory *= -self.memory_weight
        cpu += memory
        cpu += 100.0 * (self.cpu_weight + self.memory_weight)
        cpu += self.load_balance_bonus * bonus
        return np.clip(cpu, 0.0, 100.0, out=cpu)

    def _percent(
        self, used: FloatArray, age_s: FloatArray, requested: FloatArray, allocatable: FloatArray
    ) -> FloatArray:
        measured = (age_s <= self.stale_after_s) & ~np.isnan(used)
        percent = share_of(np.where(measured, used, requested), allocatable)
        percent *= 100.0
        return percent

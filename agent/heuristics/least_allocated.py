"""Spread by requests: needs the watch alone, so it serves when every metric is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.shares import cpu_share_requested, memory_share_requested


@dataclass(frozen=True, slots=True)
class LeastAllocated:
    """From kube-scheduler: ``NodeResourcesFit`` with ``scoringStrategy.type: LeastAllocated``, its default.

    Formula: mean over CPU and memory, by weight, of (allocatable - requested) x 100 / allocatable, where requested
    includes this pod; 0 for a resource that is over-requested or absent.

    Differs: kube-scheduler truncates to integers, and counts containers without a request as 100m and 200 MiB.
    """

    cpu_weight: float = 1.0
    memory_weight: float = 1.0
    name: ClassVar[str] = "least_allocated"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        per_weight = 100.0 / (self.cpu_weight + self.memory_weight)
        cpu, memory = cpu_share_requested(state, demand), memory_share_requested(state, demand)
        cpu *= -self.cpu_weight * per_weight
        memory *= -self.memory_weight * per_weight
        cpu += memory
        cpu += 100.0
        return cpu

"""Pack by requests: fills nodes one after the other, so that the empty ones can be switched off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.shares import cpu_share_requested, memory_share_requested


@dataclass(frozen=True, slots=True)
class MostAllocated:
    """From kube-scheduler: ``NodeResourcesFit`` with ``scoringStrategy.type: MostAllocated``.

    Formula: mean over CPU and memory, by weight, of requested x 100 / allocatable, where requested includes this pod
    and is at most allocatable; 0 for a resource that the node does not have.

    Differs: kube-scheduler truncates to integers, and counts containers without a request as 100m and 200 MiB.
    """

    cpu_weight: float = 1.0
    memory_weight: float = 1.0
    name: ClassVar[str] = "most_allocated"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        per_weight = 100.0 / (self.cpu_weight + self.memory_weight)
        cpu, memory = cpu_share_requested(state, demand), memory_share_requested(state, demand)
        cpu[state.cpu_allocatable_millicores <= 0] = 0.0  # "full" would draw pods to a node that has nothing
        memory[state.memory_allocatable_mib <= 0] = 0.0
        cpu *= self.cpu_weight * per_weight
        memory *= self.memory_weight * per_weight
        cpu += memory
        return cpu

"""Our own fallback: how full a node will be with everything that is on its way to it.

Measured use is old by a scrape, and what was placed since is not in it. Scoring by it alone sends a whole burst to one
node (design.md, section 3). So the placements that metrics do not show yet and the pod itself are added first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.shares import nic_share, share_of

RESOURCES = 4  # receive, transmit, CPU, memory


@dataclass(frozen=True, slots=True)
class ExpectedUtilisation:
    """From Pilotfish: the traffic step of the ladder.

    Formula: u = (measured + pending + this pod's expected) / capacity for NIC receive, NIC transmit, CPU and memory;
    score = 100 x (1 - (0.7 x max u + 0.3 x mean u)). No u is limited to 1: between two overloaded nodes the less
    overloaded one must win, so scores go below 0.

    A node of unknown NIC speed takes the candidates' median u of the NIC. A node without one of the metrics scores
    NaN, and the ladder holds it neutral. An unknown demand counts as 0 on every node alike. Above the pod's soft
    latency limit a node loses ``latency_penalty`` points; half of it where the latency is unknown.
    """

    worst_weight: float = 0.7
    latency_penalty: float = 20.0
    name: ClassVar[str] = "expected_utilisation"
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        worst, total = np.full(candidates.shape, -np.inf), np.zeros(candidates.shape)
        for share in _shares_after(state, demand, candidates):
            np.maximum(worst, share, out=worst)
            total += share
        worst *= -100.0 * self.worst_weight
        total *= -100.0 * (1.0 - self.worst_weight) / RESOURCES
        worst += total
        worst += 100.0
        return self._less_late(worst, state, demand)

    def _less_late(self, score: FloatArray, state: ClusterState, demand: Demand) -> FloatArray:
        soft_ms = demand.latency_soft_ms[..., None]
        limited = ~np.isnan(soft_ms)
        if limited.any():
            score -= self.latency_penalty * (state.user_latency_ms > soft_ms)
            score -= 0.5 * self.latency_penalty * (limited & np.isnan(state.user_latency_ms))
        return score


def _shares_after(state: ClusterState, demand: Demand, candidates: BoolArray) -> Iterator[FloatArray]:
    """u of each resource, one after the other in the same memory: large batches spend their time on allocation."""
    use = np.empty(candidates.shape)
    _after(state.cpu_used_millicores, state.pending_cpu_millicores, demand.expected_cpu_millicores, use)
    yield share_of(use, state.cpu_allocatable_millicores)
    _after(state.memory_used_mib, state.pending_memory_mib, demand.expected_memory_mib, use)
    yield share_of(use, state.memory_allocatable_mib)
    _after(state.rx_mbps, state.pending_rx_mbps, demand.expected_rx_mbps, use)
    yield nic_share(use, state.nic_mbps, candidates)
    _after(state.tx_mbps, state.pending_tx_mbps, demand.expected_tx_mbps, use)
    yield nic_share(use, state.nic_mbps, candidates)


def _after(measured: FloatArray, pending: FloatArray, expected: FloatArray, out: FloatArray) -> None:
    """Use once the pending placements and this pod are there."""
    np.add(measured, pending, out=out)
    out += np.nan_to_num(expected)[..., None]

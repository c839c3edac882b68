"""What a real cluster costs, as far as scraped metrics and the watch can show it, in the terms of the one cost table.

Metrics show what was carried, never what was asked for. So loss and throttling are reckoned: a NIC or CPU that a pod
was placed on, and that is full afterwards, lacks what it carried before plus what the pod is expected to use, minus
its capacity; the lack stays until it is no longer full. All other terms of ``SEEN`` are read off the state. The rest
needs what no node exporter tells: docs/live_training.md names them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agent.cluster import ClusterState, Demand, FloatArray
from envs.dynamics import costs, usage

SEEN = ("network_loss", "cpu_throttling", "imbalance", "fragmentation", "pending_time", "energy", "money")
FULL = 0.95  # of the capacity: headers and the ends of a window take their share
CPU, RX, TX = range(3)


class Look(NamedTuple):
    """The cluster at one moment."""

    names: tuple[str, ...]
    state: ClusterState

    def node(self, name: str) -> int:
        return self.names.index(name)


class CostMeter:
    """Terms a second of the cluster; remembers what full nodes lack."""

    def __init__(self) -> None:
        self._lacking: dict[str, FloatArray] = {}  # node -> millicores, Mbit/s received and sent

    def placed(self, node: str, before: Look, after: Look, demand: Demand) -> None:
        """A pod with this demand came to this node after the one look, and the other shows what it did there."""
        capacity, carried = _capacity(after.state)[after.node(node)], _carried(after.state)[after.node(node)]
        added = np.array([demand.expected_cpu_millicores, demand.expected_rx_mbps, demand.expected_tx_mbps])
        wanted = _carried(before.state)[before.node(node)] + np.nan_to_num(added)
        beyond = np.nan_to_num(np.maximum(wanted - capacity, 0.0))
        known = self._lacking.get(node, np.zeros(3))
        self._lacking[node] = np.where(carried >= FULL * capacity, known + beyond, 0.0)

    def rates(self, look: Look) -> FloatArray:
        """Terms a second while the cluster is like this, (terms,); 0 for waiting and for those that are not seen."""
        terms, state = costs.no_costs(), look.state
        lacking = self._lacks(look)
        terms[costs.NETWORK_LOSS] = lacking[:, (RX, TX)].sum() / costs.MBIT_PER_GB
        terms[costs.THROTTLING] = lacking[:, CPU].sum() / 1000.0
        terms[costs.IMBALANCE] = _imbalance(state)
        terms[costs.FRAGMENTATION] = _stranded_cores(state)
        terms[costs.ENERGY] = _watts(state) / costs.JOULES_PER_KWH
        terms[costs.MONEY] = _price(state) / costs.SECONDS_PER_HOUR
        return terms

    def _lacks(self, look: Look) -> FloatArray:
        """(nodes, 3); what is no longer full lacks nothing."""
        known = np.array([self._lacking.get(name, np.zeros(3)) for name in look.names]).reshape(-1, 3)
        lacking = np.where(_carried(look.state) >= FULL * _capacity(look.state), known, 0.0)
        self._lacking = {name: row for name, row in zip(look.names, lacking, strict=True) if row.any()}
        return lacking


def _carried(state: ClusterState) -> FloatArray:
    """(nodes, 3), NaN where nobody measures it."""
    return np.stack([state.cpu_used_millicores, state.rx_mbps, state.tx_mbps], axis=1)


def _capacity(state: ClusterState) -> FloatArray:
    return np.stack([state.cpu_allocatable_millicores, state.nic_mbps, state.nic_mbps], axis=1)


def _imbalance(state: ClusterState) -> float:
    """Standard deviation of how busy the nodes are, by the fullest of the three; nodes without metrics are left out."""
    ratios = np.minimum(_carried(state) / _capacity(state), 1.0)
    known = ratios[np.isfinite(ratios).any(axis=1)]
    return float(np.std(np.nanmax(known, axis=1))) if len(known) else 0.0


def _stranded_cores(state: ClusterState) -> float:
    cpu_free = 1.0 - state.cpu_requested_millicores / state.cpu_allocatable_millicores
    memory_free = 1.0 - state.memory_requested_mib / state.memory_allocatable_mib
    return float(np.sum(np.abs(cpu_free - memory_free) * state.cpu_allocatable_millicores) / 1000.0)


def _watts(state: ClusterState) -> float:
    cpu_ratio = np.nan_to_num(state.cpu_used_millicores / state.cpu_allocatable_millicores)
    nodes = zip(state.power_idle_watts, state.power_peak_watts, cpu_ratio, state.pods_running, strict=True)
    return float(sum(usage.node_power_watts(*map(float, node)) for node in nodes))


def _price(state: ClusterState) -> float:
    nodes = zip(state.price_usd_per_hour, state.pods_running, strict=True)
    return float(sum(usage.active_price_usd_per_hour(*map(float, node)) for node in nodes))

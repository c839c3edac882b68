"""Ledger and metrics, joined by node name into the arrays that scorers read.

What changes rarely is made rarely: the node table and its columns when a node changes, the metrics' columns when
the source publishes, what the pods are seen to use likewise. A pod's change costs a few passes over the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, App, ClusterState, FloatArray, Node
from agent.demand import BYTES_PER_MIB
from agent.nodetable import NodeTable
from envs.live.arrivals import Arrivals
from envs.live.ledger import NodeSums
from envs.live.metrics import LiveMetrics

# A group is as old as the oldest of the columns without which it says nothing.
GROUPS = {"cpu": ("cpu_used_millicores",), "memory": ("memory_used_mib",), "network": ("rx_mbps", "tx_mbps")}
MEASURED = ("cpu_used_millicores", "cpu_std_millicores", "memory_used_mib", "rx_mbps", "tx_mbps", "connections")
DECLARED = ("nic_mbps", "user_latency_ms")
PENDING = ("cpu_millicores", "memory_mib", "rx_mbps", "tx_mbps", "pods")

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ZoneRtt:
    """Round trips in milliseconds; Kubernetes knows zones but not the distance between them."""

    within_ms: float
    between_ms: float

    def table(self, zones: int) -> FloatArray:
        """Every zone to every zone, ``(zones, zones)``."""
        return np.where(np.eye(zones, dtype=np.bool_), self.within_ms, self.between_ms)


def node_columns(table: NodeTable, rtt: ZoneRtt) -> Columns:
    """What the nodes are."""
    zones = {zone: place for place, zone in enumerate(sorted({node.zone for node in table}))}
    return {
        "cpu_allocatable_millicores": _numbers(table, "cpu_allocatable_millicores"),
        "memory_allocatable_mib": _numbers(table, "memory_allocatable_bytes") / BYTES_PER_MIB,
        "pods_allocatable": _numbers(table, "pods_allocatable"),
        "gpu_count": _numbers(table, "gpus"),
        "nic_mbps": _numbers(table, "nic_mbps"),
        "zone": np.array([zones[node.zone] for node in table], dtype=np.int64),
        "user_latency_ms": _numbers(table, "user_latency_ms"),
        "price_usd_per_hour": _numbers(table, "price_usd_per_hour"),
        "power_idle_watts": _numbers(table, "power_idle_watts"),
        "power_peak_watts": _numbers(table, "power_peak_watts"),
        "schedulable": ~(table.not_ready | table.unschedulable | table.maintenance),
        "zone_rtt_ms": rtt.table(max(len(zones), 1)),
    }


def request_columns(table: NodeTable, gpu_count: FloatArray, sums: Mapping[str, NodeSums]) -> Columns:
    """What the pods of each node request together."""
    nothing = NodeSums()
    of_node = [sums.get(name, nothing) for name in table.names]
    return {
        "cpu_requested_millicores": _numbers(of_node, "cpu_millicores"),
        "memory_requested_mib": _numbers(of_node, "memory_bytes") / BYTES_PER_MIB,
        "pods_running": _numbers(of_node, "pods"),
        "gpu_free_milli": _whole_gpus(gpu_count - _numbers(of_node, "gpus")),
    }


def metric_columns(
    table: NodeTable, metrics: LiveMetrics, declared: Columns, arrivals: Arrivals
) -> tuple[Columns, Columns]:
    """What was measured, and when each group was sampled: ``-inf`` where it never was.

    The speed of a NIC and the latency to users can be measured, too; what a label declares goes before.
    """
    read = {column: _readings(table, metrics, column, arrivals) for column in (*MEASURED, *DECLARED)}
    values = {column: value for column, (value, _) in read.items()}
    for column in DECLARED:
        values[column] = np.where(np.isnan(declared[column]), values[column], declared[column])
    groups = {group: np.min([read[column][1] for column in columns], axis=0) for group, columns in GROUPS.items()}
    return values, groups


def cluster_state(columns: Columns, ages_s: Columns) -> ClusterState:
    none = np.zeros(len(columns["schedulable"]))
    pending: Columns = {f"pending_{name}": none for name in PENDING}  # agent.assumed adds it
    return ClusterState(**columns, **pending, **{f"{group}_age_s": age for group, age in ages_s.items()})


class AppCounts(Mapping[App, FloatArray]):
    """Running pods of an app on each node, spread over the nodes only when a pod of that app is scored."""

    def __init__(self, apps: Mapping[App, Mapping[str, int]], index_of: Mapping[str, int]) -> None:
        self._apps = apps
        self._index_of = index_of

    def __getitem__(self, app: App) -> FloatArray:
        spread = np.zeros(len(self._index_of))
        for node, count in self._apps[app].items():
            place = self._index_of.get(node)
            if place is not None:
                spread[place] = count
        return spread

    def __iter__(self) -> Iterator[App]:
        return iter(self._apps)

    def __len__(self) -> int:
        return len(self._apps)


def _numbers(holders: Sequence[Node] | Sequence[NodeSums], name: str) -> FloatArray:
    """One figure of each as an array; None, which is unknown, becomes NaN."""
    return np.array([getattr(holder, name) for holder in holders], dtype=np.float64)


def _whole_gpus(free: FloatArray) -> FloatArray:
    """Devices that nobody has, ``(nodes, slots)``: which of a node's devices they are, Kubernetes does not tell."""
    return np.where(np.arange(GPUS_PER_NODE) < free[:, None], float(GPU_MILLI), 0.0)


def _readings(table: NodeTable, metrics: LiveMetrics, column: str, arrivals: Arrivals) -> tuple[FloatArray, FloatArray]:
    """Value and time of one column on each node."""
    found = metrics.columns.get(column, {})
    values, sampled = np.full(len(table), np.nan), np.full(len(table), -np.inf)
    for place, name in enumerate(table.names):
        reading = found.get(name)
        if reading is not None and isfinite(reading.value) and isfinite(reading.sampled_at_s):
            values[place], sampled[place] = reading.value, arrivals.sampled_at_s((column, name), reading)
    return values, sampled

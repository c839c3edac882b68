"""What is known of a cluster and of a pod, as parts of a recording: unknown is null there, not NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from agent.cluster import DEMAND_SOURCES, ClusterState, Demand, FloatArray
from envs.workloads.recording_records import SAMPLE_COLUMNS, NodeSpec, PodDemand, Sample

_SPEC_COLUMNS = ("cpu_allocatable_millicores", "memory_allocatable_mib", "pods_allocatable")
_OPTIONAL_COLUMNS = ("nic_mbps", "user_latency_ms", "price_usd_per_hour", "power_idle_watts", "power_peak_watts")


def known(value: FloatArray | float) -> float | None:
    return float(value) if np.isfinite(value) else None


def column(values: FloatArray, negative: bool = False) -> tuple[float | None, ...]:
    """Rounding may leave a rate a hair below 0, which is no amount."""
    return tuple(None if not np.isfinite(value) else float(value if negative else max(value, 0.0)) for value in values)


def pod_demand(demand: Demand, namespace: str, app: str) -> PodDemand:
    return PodDemand(
        namespace=namespace,
        app=app,
        cpu_request_millicores=float(demand.cpu_request_millicores),
        memory_request_mib=float(demand.memory_request_mib),
        gpus=int(demand.gpus),
        gpu_milli=int(demand.gpu_milli),
        expected_cpu_millicores=known(demand.expected_cpu_millicores),
        expected_memory_mib=known(demand.expected_memory_mib),
        expected_rx_mbps=known(demand.expected_rx_mbps),
        expected_tx_mbps=known(demand.expected_tx_mbps),
        demand_source=cast(Any, DEMAND_SOURCES[int(demand.demand_source)]),
        sibling_mbps=known(demand.sibling_mbps),
        latency_soft_ms=known(demand.latency_soft_ms),
        latency_hard_ms=known(demand.latency_hard_ms),
    )


def sample_of(at_s: float, state: ClusterState, names: Sequence[str]) -> Sample:
    """The metrics of the first nodes of the state, as many as have names."""
    columns: dict[str, Any] = {name: column(getattr(state, name)[: len(names)]) for name in SAMPLE_COLUMNS}
    return Sample(at_s=at_s, nodes=tuple(names), **columns)


def node_specs(state: ClusterState, names: Sequence[str], zones: Iterable[str]) -> list[NodeSpec]:
    return [_node_spec(state, index, name, zone) for index, (name, zone) in enumerate(zip(names, zones, strict=True))]


def _node_spec(state: ClusterState, index: int, name: str, zone: str) -> NodeSpec:
    figures: dict[str, Any] = {column: float(getattr(state, column)[index]) for column in _SPEC_COLUMNS}
    figures |= {column: known(getattr(state, column)[index]) for column in _OPTIONAL_COLUMNS}
    schedulable = bool(state.schedulable[index])
    return NodeSpec(name=name, zone=zone, gpus=int(state.gpu_count[index]), schedulable=schedulable, **figures)

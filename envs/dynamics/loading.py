"""What pods and background ask of the nodes during one tick."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agent.cluster import FloatArray
from envs.dynamics import usage
from envs.dynamics.cluster import Cluster
from envs.dynamics.contention import latency_violation
from envs.dynamics.knowledge import Placement
from envs.dynamics.traffic import cross_zone_share, remote_share, sibling_traffic_mbps


@dataclass(slots=True)
class Loads:
    """What is asked of every node during one tick, and what each running pod asks (in order of ``running``)."""

    cpu_millicores: FloatArray
    memory_mib: FloatArray
    rx_mbps: FloatArray
    tx_mbps: FloatArray
    pod_cpu_millicores: list[float] = field(default_factory=list)
    pod_memory_mib: list[float] = field(default_factory=list)
    pod_rx_mbps: list[float] = field(default_factory=list)
    pod_tx_mbps: list[float] = field(default_factory=list)
    cross_zone_mbps: float = 0.0
    violations: float = 0.0


def loads_of(cluster: Cluster) -> Loads:
    """Of the interval that begins now."""
    tape, step = cluster.tape, _load_step(cluster)
    loads = Loads(
        tape.background_cpu_ratio[step] * tape.node_cpu_millicores,
        tape.node_background_memory_mib.copy(),
        tape.background_rx_ratio[step] * tape.node_nic_mbps,
        tape.background_tx_ratio[step] * tape.node_nic_mbps,
    )
    app_totals = cluster.app_pods.sum(axis=1)
    zones = range(tape.zone_slots)
    zone_totals = np.stack([cluster.app_pods[:, tape.node_zone == zone].sum(axis=1) for zone in zones])
    for placement in cluster.running:
        app = int(tape.pod_app[placement.pod])
        load = float(tape.app_load[step, app])
        _add_pod(loads, cluster, placement, load, float(app_totals[app]), zone_totals[:, app])
    return loads


def _load_step(cluster: Cluster) -> int:
    tape = cluster.tape
    return min(int(cluster.clock_s / float(tape.load_step_s)), int(tape.app_load.shape[0]) - 1)


def _add_pod(
    loads: Loads, cluster: Cluster, placement: Placement, load: float, total: float, in_zone: FloatArray
) -> None:
    """``total`` and ``in_zone`` count the pods of its app, over the cluster and by zone."""
    tape, pod, node = cluster.tape, placement.pod, placement.node
    app, zone = int(tape.pod_app[pod]), int(tape.node_zone[node])
    cpu = usage.cpu_demand_millicores(
        float(tape.pod_cpu_request_millicores[pod]), float(tape.pod_cpu_use_ratio[pod]), load
    )
    memory = usage.memory_use_mib(float(tape.pod_memory_request_mib[pod]), float(tape.pod_memory_use_ratio[pod]))
    sibling = sibling_traffic_mbps(float(tape.app_sibling_mbps[app]), total, load)
    remote = sibling * remote_share(total, float(cluster.app_pods[app, node]))
    rx, tx = float(tape.pod_rx_mbps[pod]) * load, float(tape.pod_tx_mbps[pod]) * load
    loads.cpu_millicores[node] += cpu
    loads.memory_mib[node] += memory
    loads.rx_mbps[node] += rx + remote
    loads.tx_mbps[node] += tx + remote
    loads.cross_zone_mbps += sibling * cross_zone_share(total, float(in_zone[zone]))
    loads.violations += _violation(cluster, placement, total, in_zone)
    loads.pod_cpu_millicores.append(cpu)
    loads.pod_memory_mib.append(memory)
    loads.pod_rx_mbps.append(rx + sibling)
    loads.pod_tx_mbps.append(tx + sibling)


def _violation(cluster: Cluster, placement: Placement, total: float, in_zone: FloatArray) -> float:
    """Latency of a pod: to its users, plus the mean round trip to its siblings."""
    tape, pod, node = cluster.tape, placement.pod, placement.node
    soft_ms = float(tape.pod_latency_soft_ms[pod])
    if np.isnan(soft_ms):
        return 0.0
    zone = int(tape.node_zone[node])
    rtt_ms = 0.0
    for other in range(tape.zone_slots):
        rtt_ms += in_zone[other] * tape.zone_rtt_ms[zone, other]
    rtt_ms -= cluster.app_pods[tape.pod_app[pod], node] * tape.zone_rtt_ms[zone, zone]
    latency_ms = float(tape.node_user_latency_ms[node]) + rtt_ms / max(total - 1.0, 1.0)
    return latency_violation(latency_ms, soft_ms, float(tape.pod_latency_hard_ms[pod]))

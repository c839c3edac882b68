"""What a scrape shows of the truth: counters and gauges of nodes, and what pods are seen to use."""

from __future__ import annotations

import numpy as np

from agent.cluster import FloatArray
from envs.dynamics import usage
from envs.dynamics.cluster import Cluster
from envs.dynamics.contention import carried_ratio
from envs.dynamics.knowledge import CPU_RATIO, MEMORY_RATIO, OBSERVED, RX, TX, Placement, Sample
from envs.dynamics.loading import Loads


def sample(cluster: Cluster, loads: Loads, scrape: int, apps: FloatArray, whole: FloatArray) -> Sample:
    """The scrape of this number; ``apps`` and ``whole`` are what ``observe`` saw before pods ended."""
    tape = cluster.tape
    row = min(scrape, tape.scrape_missing.shape[0] - 1)
    rx_mbps, tx_mbps = np.minimum(loads.rx_mbps, tape.node_nic_mbps), np.minimum(loads.tx_mbps, tape.node_nic_mbps)
    return Sample(
        sampled_at_s=cluster.clock_s,
        present=~tape.scrape_missing[row],
        cpu_millicore_s=cluster.cpu_millicore_s.copy(),
        rx_mbit=cluster.rx_mbit.copy(),
        tx_mbit=cluster.tx_mbit.copy(),
        memory_mib=np.minimum(loads.memory_mib, tape.node_memory_mib),
        connections=usage.connections(rx_mbps + tx_mbps),
        apps=apps,
        cluster=whole,
    )


def observe(cluster: Cluster, loads: Loads) -> tuple[FloatArray, FloatArray]:
    """What pods are seen to use, by app (NaN where none is seen) and over the cluster."""
    tape = cluster.tape
    if not tape.pod_metrics:
        return np.full((tape.app_slots, OBSERVED), np.nan), _observe_nodes(cluster, loads)
    used = np.zeros((tape.app_slots + 1, OBSERVED))  # the last row is the whole cluster
    base = np.zeros((tape.app_slots + 1, OBSERVED))
    for index, placement in enumerate(cluster.running):
        seen, per = _observe_pod(cluster, loads, index, placement)
        for row in (int(tape.pod_app[placement.pod]), tape.app_slots):
            if row == tape.app_slots or tape.pod_labelled[placement.pod]:
                used[row] += seen
                base[row] += per
    means = _over(used, base)
    return means[:-1], means[-1]


def _observe_pod(cluster: Cluster, loads: Loads, index: int, placement: Placement) -> tuple[FloatArray, FloatArray]:
    """What one pod gets through, and what it is divided by: requests for CPU and memory, else one pod."""
    tape, pod, node = cluster.tape, placement.pod, placement.node
    nic_mbps = float(tape.node_nic_mbps[node])
    seen = np.zeros(OBSERVED)
    seen[RX] = loads.pod_rx_mbps[index] * carried_ratio(loads.rx_mbps[node], nic_mbps)
    seen[TX] = loads.pod_tx_mbps[index] * carried_ratio(loads.tx_mbps[node], nic_mbps)
    cpu_share = carried_ratio(loads.cpu_millicores[node], float(tape.node_cpu_millicores[node]))
    seen[CPU_RATIO] = loads.pod_cpu_millicores[index] * cpu_share
    seen[MEMORY_RATIO] = loads.pod_memory_mib[index]
    per = np.ones(OBSERVED)
    per[CPU_RATIO] = float(tape.pod_cpu_request_millicores[pod])
    per[MEMORY_RATIO] = float(tape.pod_memory_request_mib[pod])
    return seen, per


def _observe_nodes(cluster: Cluster, loads: Loads) -> FloatArray:
    """Without metrics of pods: the nodes' totals over what runs there, background included."""
    tape, pods = cluster.tape, cluster.pods.sum()
    used = np.zeros(OBSERVED)
    used[RX] = np.minimum(loads.rx_mbps, tape.node_nic_mbps).sum()
    used[TX] = np.minimum(loads.tx_mbps, tape.node_nic_mbps).sum()
    used[CPU_RATIO] = np.minimum(loads.cpu_millicores, tape.node_cpu_millicores).sum()
    used[MEMORY_RATIO] = np.minimum(loads.memory_mib, tape.node_memory_mib).sum()
    base = np.array([pods, pods, cluster.cpu_allocated_millicores.sum(), cluster.memory_allocated_mib.sum()])
    return _over(used, base)


def _over(used: FloatArray, base: FloatArray) -> FloatArray:
    """NaN where there is nothing to divide by."""
    return np.where(base > 0, used / np.where(base > 0, base, 1.0), np.nan)

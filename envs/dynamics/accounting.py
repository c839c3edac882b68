"""What a tick costs, term by term, and what the nodes' counters add up."""

from __future__ import annotations

import numpy as np

from agent.cluster import FloatArray
from envs.dynamics import costs, usage
from envs.dynamics.cluster import Cluster
from envs.dynamics.contention import carried, lost, stranded_cores
from envs.dynamics.loading import Loads


def account(cluster: Cluster, loads: Loads, terms: FloatArray) -> None:
    """Add the costs of a tick under these loads to ``terms`` (see costs.TERMS)."""
    tick_s = float(cluster.tape.tick_s)
    busy = [_account_node(cluster, loads, node, terms) for node in range(cluster.nodes)]
    terms[costs.IMBALANCE] += float(np.std(busy)) * tick_s
    terms[costs.CROSS_ZONE] += loads.cross_zone_mbps * tick_s / costs.MBIT_PER_GB
    terms[costs.LATENCY] += loads.violations * tick_s
    terms[costs.PENDING] += len(cluster.waiting) * tick_s


def _account_node(cluster: Cluster, loads: Loads, node: int, terms: FloatArray) -> float:
    """Returns how busy the node is, by the fullest of CPU, received and sent."""
    tape, tick_s = cluster.tape, float(cluster.tape.tick_s)
    cpu, nic = float(tape.node_cpu_millicores[node]), float(tape.node_nic_mbps[node])
    cpu_carried = carried(loads.cpu_millicores[node], cpu)
    rx_carried, tx_carried = carried(loads.rx_mbps[node], nic), carried(loads.tx_mbps[node], nic)
    cluster.cpu_millicore_s[node] += cpu_carried * tick_s
    cluster.rx_mbit[node] += rx_carried * tick_s
    cluster.tx_mbit[node] += tx_carried * tick_s
    lost_mbps = lost(loads.rx_mbps[node], nic) + lost(loads.tx_mbps[node], nic)
    terms[costs.NETWORK_LOSS] += lost_mbps * tick_s / costs.MBIT_PER_GB
    terms[costs.THROTTLING] += lost(loads.cpu_millicores[node], cpu) / 1000.0 * tick_s
    _account_ownership(cluster, node, cpu_carried / cpu, terms)
    return float(max(cpu_carried / cpu, rx_carried / nic, tx_carried / nic))


def _account_ownership(cluster: Cluster, node: int, cpu_ratio: float, terms: FloatArray) -> None:
    """What a node costs because it is there: capacity that fits nothing, energy, money."""
    tape, tick_s, pods = cluster.tape, float(cluster.tape.tick_s), cluster.pods[node]
    cpu = float(tape.node_cpu_millicores[node])
    cpu_free = 1.0 - cluster.cpu_allocated_millicores[node] / cpu
    memory_free = 1.0 - cluster.memory_allocated_mib[node] / float(tape.node_memory_mib[node])
    terms[costs.FRAGMENTATION] += stranded_cores(cpu_free, memory_free, cpu) * tick_s
    idle_watts, peak_watts = float(tape.node_power_idle_watts[node]), float(tape.node_power_peak_watts[node])
    watts = usage.node_power_watts(idle_watts, peak_watts, cpu_ratio, pods)
    terms[costs.ENERGY] += watts * tick_s / costs.JOULES_PER_KWH
    price = usage.active_price_usd_per_hour(float(tape.node_price_usd_per_hour[node]), pods)
    terms[costs.MONEY] += price * tick_s / costs.SECONDS_PER_HOUR

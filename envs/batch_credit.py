"""What each running pod costs where it is: the dollars that would not be spent without it (see batch_kernels).

A cluster's cost says little about one decision: hundreds of others are in it. The difference that a pod makes, summed
over its life, says how good its node was, and since all of it is a difference of the one cost, what lowers it lowers
the cost. Only what lies on the pod's own account is in it (ATTRIBUTED); waiting, failures, imbalance and fragmentation
have no owner and stay with the cluster. For training only: it reads the truth.
"""

from __future__ import annotations

import numpy as np

from envs.batch_arrays import COUNT, NODE, RUN, RUN_AT, TAPE_APP, TAPE_NODE
from envs.batch_latency import violation
from envs.batch_rules import carried, compiled, lost, node_power_watts, remote_share, sibling_traffic_mbps
from envs.batch_scraping import load_step
from envs.dynamics.costs import JOULES_PER_KWH, MBIT_PER_GB, SECONDS_PER_HOUR
from envs.rewards import WEIGHTS

ATTRIBUTED = ("network_loss", "cross_zone", "latency_violation", "cpu_throttling", "memory_kills", "energy", "money")

USD_PER_LOST_MBIT = WEIGHTS.network_loss / MBIT_PER_GB
USD_PER_CROSS_ZONE_MBIT = WEIGHTS.cross_zone / MBIT_PER_GB
USD_PER_VIOLATION_S = WEIGHTS.latency_violation
USD_PER_THROTTLED_CORE_S = WEIGHTS.cpu_throttling
USD_PER_KILL = WEIGHTS.memory_kills
USD_PER_JOULE = WEIGHTS.energy / JOULES_PER_KWH
USD_PER_PRICE_S = WEIGHTS.money / SECONDS_PER_HOUR


@compiled
def credit(L, T, c, t, tick_s):
    """Charge every running pod for this tick."""
    step = load_step(L, T, c, t)
    for slot in range(L.count[c, COUNT.running]):
        node, app = L.run_at[c, slot, RUN_AT.node], L.run_at[c, slot, RUN_AT.app]
        load = np.float64(T.app_load[t, step, app])
        usd_per_s = own_node(L, T, c, t, slot, node, load) + traffic(L, T, c, t, slot, node, app, load)
        total = np.float64(L.app_zone_pods[c, app, -1])
        usd_per_s += USD_PER_VIOLATION_S * violation(L, T, c, t, L.run_more[c, slot], node, app, total)
        L.pod_credit[c, L.running[c, slot]] += usd_per_s * tick_s + kill_usd(L, T, c, t, slot, node)


@compiled
def own_node(L, T, c, t, slot, node, load):
    """CPU, energy and price of its node, with the pod and without it, in dollars a second."""
    cpu, wanted = T.node[t, TAPE_NODE.cpu_millicores, node], L.node[c, NODE.load_cpu, node]
    without = wanted - L.run[c, slot, RUN.cpu] * load
    throttled_cores = (lost(wanted, cpu) - lost(without, cpu)) / 1000.0
    idle_watts, peak_watts = T.node[t, TAPE_NODE.power_idle_watts, node], T.node[t, TAPE_NODE.power_peak_watts, node]
    pods = L.node[c, NODE.pods, node]
    watts = node_power_watts(idle_watts, peak_watts, carried(wanted, cpu) / cpu, pods)
    watts -= node_power_watts(idle_watts, peak_watts, carried(without, cpu) / cpu, pods - 1.0)
    price = T.node[t, TAPE_NODE.price_usd_per_hour, node] if pods <= 1 else 0.0  # alone it keeps the node switched on
    return USD_PER_THROTTLED_CORE_S * throttled_cores + USD_PER_JOULE * watts + USD_PER_PRICE_S * price


@compiled
def traffic(L, T, c, t, slot, node, app, load):
    """Traffic lost on its own NIC and on its siblings', and sent or got across zones, in dollars a second."""
    total = np.float64(L.app_zone_pods[c, app, -1])
    pair = sibling_traffic_mbps(T.app[t, TAPE_APP.sibling_mbps, app], total, load) * remote_share(total, total - 1.0)
    remote = pair * (total - L.app_pods[c, app, node])
    lost_mbps = lost_without(
        L, T, c, t, node, L.run[c, slot, RUN.rx] * load + remote, L.run[c, slot, RUN.tx] * load + remote
    )
    if pair <= 0:
        return USD_PER_LOST_MBIT * lost_mbps
    for other in range(L.count[c, COUNT.nodes]):
        siblings = L.app_pods[c, app, other]
        if siblings > 0 and other != node:
            lost_mbps += lost_without(L, T, c, t, other, pair * siblings, pair * siblings)
    zone = int(T.node[t, TAPE_NODE.zone, node])
    cross_zone_mbps = 2.0 * pair * (total - L.app_zone_pods[c, app, zone])
    return USD_PER_LOST_MBIT * lost_mbps + USD_PER_CROSS_ZONE_MBIT * cross_zone_mbps


@compiled
def lost_without(L, T, c, t, node, rx_mbps, tx_mbps):
    """How much less a NIC would lose without these rates."""
    nic, rx, tx = T.node[t, TAPE_NODE.nic_mbps, node], L.node[c, NODE.load_rx, node], L.node[c, NODE.load_tx, node]
    return lost(rx, nic) - lost(rx - rx_mbps, nic) + lost(tx, nic) - lost(tx - tx_mbps, nic)


@compiled
def kill_usd(L, T, c, t, slot, node):
    """A node over its memory kills: the price of a kill for each pod without which it would not."""
    over_mib = L.node[c, NODE.load_memory, node] - T.node[t, TAPE_NODE.memory_mib, node]
    return USD_PER_KILL if 0 < over_mib <= L.run[c, slot, RUN.memory] else 0.0

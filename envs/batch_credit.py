"""What each running pod costs where it is, and what it would cost on every other node (see batch_kernels).

A cluster's cost says little about one decision: hundreds of others are in it. The difference that a pod makes, summed
over its life, says how good its node was; and as all of it is a difference of the one cost, what lowers it lowers the
cost. The simulator knows all loads, so it can say the same of the nodes that were not chosen, all else left as it was.
Only what lies on the pod's own account is in it (ATTRIBUTED); waiting, failures, imbalance and fragmentation have no
owner and stay with the cluster. For training only: it reads the truth.
"""

from __future__ import annotations

import numpy as np

from envs.batch_arrays import COUNT, NODE, RULE, RUN, RUN_AT, RUN_MORE, TAPE_APP, TAPE_NODE
from envs.batch_rules import (
    carried,
    compiled,
    latency_violation,
    lost,
    node_power_watts,
    remote_share,
    sibling_traffic_mbps,
)
from envs.batch_scraping import load_step
from envs.dynamics.costs import JOULES_PER_KWH, MBIT_PER_GB, SECONDS_PER_HOUR
from envs.rewards import WEIGHTS

ATTRIBUTED = ("network_loss", "cross_zone", "latency_violation", "cpu_throttling", "memory_kills", "energy", "money")
FADES_S = 300.0  # what a pod does so long after it was bound counts 1/e: nobody could know it then
EVERY_TICKS = 4  # loads move slowly, and every node for every pod is a lot

KILL_EVERY_S = 150.0  # a pod that does not fit into memory is killed about so often: it comes back elsewhere

USD_PER_LOST_MBIT = WEIGHTS.network_loss / MBIT_PER_GB
USD_PER_CROSS_ZONE_MBIT = WEIGHTS.cross_zone / MBIT_PER_GB
USD_PER_VIOLATION_S = WEIGHTS.latency_violation
USD_PER_THROTTLED_CORE_S = WEIGHTS.cpu_throttling
USD_PER_KILLING_S = WEIGHTS.memory_kills / KILL_EVERY_S
USD_PER_JOULE = WEIGHTS.energy / JOULES_PER_KWH
USD_PER_PRICE_S = WEIGHTS.money / SECONDS_PER_HOUR


@compiled
def credit(L, T, c, t, seconds):
    """Charge every running pod for so long, on each node."""
    step = load_step(L, T, c, t)
    limited = T.rule[t, RULE.latency_limited] > 0
    for slot in range(L.count[c, COUNT.running]):
        home, app = L.run_at[c, slot, RUN_AT.node], L.run_at[c, slot, RUN_AT.app]
        load = np.float64(T.app_load[t, step, app])
        total = np.float64(L.app_zone_pods[c, app, -1])
        pair = sibling_traffic_mbps(T.app[t, TAPE_APP.sibling_mbps, app], total, load)
        pair *= remote_share(total, total - 1.0)  # what it sends to one sibling
        elsewhere = lost_at_siblings(L, T, c, t, slot, home, app, load, total, pair) if pair > 0 else 0.0
        account = L.pod_credit[c, L.running[c, slot]]
        age_s = L.clock_s[c] - np.float64(L.run_more[c, slot, RUN_MORE.bound_at_s])
        weight = seconds * np.exp(-age_s / FADES_S)
        for node in range(L.count[c, COUNT.nodes]):
            usd_per_s = own_node(L, T, c, t, slot, node, home, load)
            usd_per_s += traffic(L, T, c, t, slot, node, home, app, load, total, pair, elsewhere)
            if limited:
                usd_per_s += USD_PER_VIOLATION_S * violation_at(L, T, c, t, slot, node, home, app, total)
            account[node] += usd_per_s * weight


@compiled
def own_node(L, T, c, t, slot, node, home, load):
    """CPU, memory, energy and price of a node, with the pod and without it, in dollars a second."""
    here = 1.0 if node == home else 0.0
    cpu, own_cpu = T.node[t, TAPE_NODE.cpu_millicores, node], L.run[c, slot, RUN.cpu] * load
    without = L.node[c, NODE.load_cpu, node] - here * own_cpu
    throttled_cores = (lost(without + own_cpu, cpu) - lost(without, cpu)) / 1000.0
    idle_watts, peak_watts = T.node[t, TAPE_NODE.power_idle_watts, node], T.node[t, TAPE_NODE.power_peak_watts, node]
    others = L.node[c, NODE.pods, node] - here
    watts = node_power_watts(idle_watts, peak_watts, carried(without + own_cpu, cpu) / cpu, others + 1.0)
    watts -= node_power_watts(idle_watts, peak_watts, carried(without, cpu) / cpu, others)
    price = T.node[t, TAPE_NODE.price_usd_per_hour, node] if others <= 0 else 0.0  # alone it keeps the node on
    memory = L.node[c, NODE.load_memory, node] - here * L.run[c, slot, RUN.memory]
    capacity = T.node[t, TAPE_NODE.memory_mib, node]
    kills = memory <= capacity < memory + L.run[c, slot, RUN.memory]
    usd_per_s = USD_PER_THROTTLED_CORE_S * throttled_cores + USD_PER_JOULE * watts + USD_PER_PRICE_S * price
    return usd_per_s + (USD_PER_KILLING_S if kills else 0.0)


@compiled
def traffic(L, T, c, t, slot, node, home, app, load, total, pair, elsewhere):
    """Traffic lost on its NIC and on its siblings', and sent or got across zones, in dollars a second."""
    here = 1.0 if node == home else 0.0
    remote = pair * (total - 1.0 - (L.app_pods[c, app, node] - here))
    rx_mbps, tx_mbps = L.run[c, slot, RUN.rx] * load + remote, L.run[c, slot, RUN.tx] * load + remote
    base = without_pod(L, T, c, t, slot, node, home, app, load, total, pair)
    lost_mbps = lost_more(L, T, c, t, node, base[0], base[1], rx_mbps, tx_mbps)
    if pair <= 0:
        return USD_PER_LOST_MBIT * lost_mbps
    siblings = L.app_pods[c, app, node] - here
    local = lost_more(L, T, c, t, node, base[0], base[1], pair * siblings, pair * siblings)  # not by the NIC any more
    zone, home_zone = int(T.node[t, TAPE_NODE.zone, node]), int(T.node[t, TAPE_NODE.zone, home])
    in_zone = L.app_zone_pods[c, app, zone] - (1.0 if zone == home_zone else 0.0)
    cross_zone_mbps = 2.0 * pair * (total - 1.0 - in_zone)
    return USD_PER_LOST_MBIT * (lost_mbps + elsewhere - local) + USD_PER_CROSS_ZONE_MBIT * cross_zone_mbps


@compiled
def without_pod(L, T, c, t, slot, node, home, app, load, total, pair):
    """Receive and transmit rates that a node would have without the pod."""
    rx, tx = L.node[c, NODE.load_rx, node], L.node[c, NODE.load_tx, node]
    if node != home:
        flow = pair * L.app_pods[c, app, node]
        return rx - flow, tx - flow
    remote = pair * (total - L.app_pods[c, app, home])
    return rx - L.run[c, slot, RUN.rx] * load - remote, tx - L.run[c, slot, RUN.tx] * load - remote


@compiled
def lost_at_siblings(L, T, c, t, slot, home, app, load, total, pair):
    """Mbps that all siblings' NICs lose to their traffic with the pod, as if none of it stayed on a node."""
    lost_mbps = 0.0
    for node in range(L.count[c, COUNT.nodes]):
        siblings = L.app_pods[c, app, node] - (1.0 if node == home else 0.0)
        if siblings > 0:
            base = without_pod(L, T, c, t, slot, node, home, app, load, total, pair)
            lost_mbps += lost_more(L, T, c, t, node, base[0], base[1], pair * siblings, pair * siblings)
    return lost_mbps


@compiled
def lost_more(L, T, c, t, node, rx, tx, rx_mbps, tx_mbps):
    """How much more a NIC loses with these rates on top."""
    nic = T.node[t, TAPE_NODE.nic_mbps, node]
    return lost(rx + rx_mbps, nic) - lost(rx, nic) + lost(tx + tx_mbps, nic) - lost(tx, nic)


@compiled
def violation_at(L, T, c, t, slot, node, home, app, total):
    """How far the pod would be above its latency limits on this node."""
    soft_ms = np.float64(L.run_more[c, slot, RUN_MORE.soft_ms])
    if soft_ms != soft_ms:
        return 0.0
    zone, home_zone = int(T.node[t, TAPE_NODE.zone, node]), int(T.node[t, TAPE_NODE.zone, home])
    rtt_ms = 0.0
    for other in range(T.zone_rtt_ms.shape[1]):
        siblings = L.app_zone_pods[c, app, other] - (1.0 if other == home_zone else 0.0)
        rtt_ms += siblings * T.zone_rtt_ms[t, zone, other]
    rtt_ms -= (L.app_pods[c, app, node] - (1.0 if node == home else 0.0)) * T.zone_rtt_ms[t, zone, zone]
    latency_ms = T.node[t, TAPE_NODE.user_latency_ms, node] + rtt_ms / max(total - 1.0, 1.0)
    return latency_violation(latency_ms, soft_ms, np.float64(L.run_more[c, slot, RUN_MORE.hard_ms]))

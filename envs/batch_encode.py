"""``agent.features.encode`` compiled, one cluster after the other: what the sidecar computes, fast enough to train on.

Read agent.features first: it holds the meaning, the constants and the small formulas, which are compiled from there.
A test keeps the two equal on every scenario.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from agent import features
from agent.cluster import GPU_MILLI, GPUS_PER_NODE, FloatArray
from agent.features import (
    AGE_SCALE_S,
    GPU_FEATURES,
    LATENCY_SCALE_MS,
    NODE_COLUMN,
    NODE_FEATURES,
    POD_FEATURES,
    RTT_SCALE_MS,
    STALE_AFTER_S,
    TYPICAL_PODS,
)
from agent.heuristics import fgd
from agent.heuristics.best_fit import LARGEST_CPU_MILLICORES
from envs.batch_arrays import COUNT, DEMAND, NODE, TAPE_NODE, rows
from envs.batch_rules import choose_gpus, compiled

F = rows("F", " ".join(NODE_FEATURES))
G = rows("G", " ".join(POD_FEATURES))

limited = njit(features.limited)
after = njit(features.after)
hot = njit(features.hot)
traffic = njit(features.traffic)
among_siblings = njit(features.among_siblings)
gpus_without_cpu = njit(features.gpus_without_cpu)
fragment_milli = njit(fgd.fragment_milli)

GPU_COLUMNS = tuple(NODE_COLUMN[name] for name in GPU_FEATURES)
TYPICAL_CPU, TYPICAL_GPUS = TYPICAL_PODS.cpu_millicores, TYPICAL_PODS.gpus
TYPICAL_MILLI, TYPICAL_SHARE = TYPICAL_PODS.gpu_milli, TYPICAL_PODS.share

# Room to reckon in, for one cluster: means over the candidates that stand in for what a node lacks, and logarithms that
# many nodes share (the same age, no sibling on the node, the same zone), which are most of the work.
NIC, CPU, MEMORY, RX, TX, AGE, AGE_FEATURE, ALL_REMOTE, ACROSS = range(9)


def room(zones: int) -> FloatArray:
    return np.zeros(ACROSS + zones)


@compiled
def nic_known(T, t, node):
    return T.node[t, TAPE_NODE.nic_known, node] > 0 and T.node[t, TAPE_NODE.nic_mbps, node] > 0


@compiled
def fill_means(L, T, c, t, means):
    """Candidates' means of NIC speed and of the measured ratios; the ratios need the first."""
    known, fresh = 0.0, 0.0
    means[:] = 0.0
    for node in range(L.count[c, COUNT.nodes]):
        if L.mask[c, node] and nic_known(T, t, node):
            means[NIC] += T.node[t, TAPE_NODE.nic_mbps, node]
            known += 1.0
    means[NIC] /= max(known, 1.0)
    for node in range(L.count[c, COUNT.nodes]):
        if L.mask[c, node] and L.node[c, NODE.age_s, node] <= STALE_AFTER_S:
            per_nic = inverse(T.node[t, TAPE_NODE.nic_mbps, node] if nic_known(T, t, node) else means[NIC])
            means[CPU] += L.node[c, NODE.known_cpu, node] / T.node[t, TAPE_NODE.cpu_millicores, node]
            means[MEMORY] += L.node[c, NODE.known_memory, node] / T.node[t, TAPE_NODE.memory_mib, node]
            means[RX] += L.node[c, NODE.known_rx, node] * per_nic
            means[TX] += L.node[c, NODE.known_tx, node] * per_nic
            fresh += 1.0
    for column in range(CPU, TX + 1):
        means[column] /= max(fresh, 1.0)


@compiled
def inverse(value):
    return 1.0 / value if value > 0 else 0.0


@compiled
def encode_use(L, T, c, t, node, means, per_cpu, per_memory, per_nic, row):
    demand, live = L.demand[c], L.node[c]
    fresh = live[NODE.age_s, node] <= STALE_AFTER_S
    cpu = live[NODE.known_cpu, node] * per_cpu if fresh else means[CPU]
    memory = live[NODE.known_memory, node] * per_memory if fresh else means[MEMORY]
    rx = live[NODE.known_rx, node] * per_nic if fresh else means[RX]
    tx = live[NODE.known_tx, node] * per_nic if fresh else means[TX]
    row[F.cpu_used_ratio] = limited(cpu)
    row[F.memory_used_ratio] = limited(memory)
    row[F.rx_ratio] = limited(rx)
    row[F.tx_ratio] = limited(tx)
    cpu = after(cpu, live[NODE.pending_cpu, node], demand[DEMAND.expected_cpu], per_cpu)
    memory = after(memory, live[NODE.pending_memory, node], demand[DEMAND.expected_memory], per_memory)
    rx = after(rx, live[NODE.pending_rx, node], demand[DEMAND.expected_rx], per_nic)
    tx = after(tx, live[NODE.pending_tx, node], demand[DEMAND.expected_tx], per_nic)
    network = max(rx, tx)
    row[F.cpu_expected_ratio] = cpu
    row[F.memory_expected_ratio] = memory
    row[F.rx_expected_ratio] = rx
    row[F.tx_expected_ratio] = tx
    of_each = max(demand[DEMAND.expected_rx], demand[DEMAND.expected_tx])
    row[F.app_ratio] = limited((live[NODE.siblings, node] + 1.0) * of_each * per_nic)
    row[F.cpu_hot] = hot(cpu)
    row[F.memory_hot] = hot(memory)
    row[F.network_hot] = hot(network)
    row[F.worst_expected_ratio] = max(cpu, memory, network)
    row[F.cpu_std_ratio] = limited(live[NODE.known_cpu_std, node] * per_cpu) if fresh else 0.0
    if live[NODE.age_s, node] != means[AGE]:
        means[AGE] = live[NODE.age_s, node]
        means[AGE_FEATURE] = np.log2(1.0 + min(means[AGE], STALE_AFTER_S) / AGE_SCALE_S) / 4.0
    row[F.network_age] = means[AGE_FEATURE]
    row[F.metric_missing] = 0.0 if fresh else 1.0
    row[F.pending_pods] = live[NODE.pending_pods, node] / 10.0
    return cpu, network


@compiled
def encode_requests(L, T, c, t, node, per_cpu, per_memory, row):
    demand, live = L.demand[c], L.node[c]
    cpu = (live[NODE.known_cpu_requested, node] + demand[DEMAND.cpu]) * per_cpu
    memory = (live[NODE.known_memory_requested, node] + demand[DEMAND.memory]) * per_memory
    row[F.cpu_requested_ratio] = cpu
    row[F.memory_requested_ratio] = memory
    row[F.requests_imbalance] = abs(cpu - memory)
    row[F.pods_ratio] = (live[NODE.known_pods, node] + 1.0) * inverse(T.node[t, TAPE_NODE.pods, node])
    row[F.empty] = 1.0 if live[NODE.known_pods, node] <= 0 else 0.0
    encode_gpus(L, T, c, t, node, row)
    return memory


@compiled
def encode_gpus(L, T, c, t, node, row):
    capacity = T.node[t, TAPE_NODE.gpus, node] * 1000.0
    if capacity <= 0:
        for column in GPU_COLUMNS:
            row[column] = 0.0
        return
    demand = L.demand[c]
    gpus, share = demand[DEMAND.gpus], demand[DEMAND.gpu_milli]
    chosen = max(choose_gpus(L.known_gpu_free_milli[c, node], gpus, share), 0)
    cpu_free = T.node[t, TAPE_NODE.cpu_millicores, node] - L.node[c, NODE.known_cpu_requested, node]
    cpu_left = cpu_free - demand[DEMAND.cpu]
    free, left, room = 0.0, 0.0, np.inf
    whole, whole_left = 0.0, 0.0
    for device in range(L.known_gpu_free_milli.shape[2]):
        this = max(L.known_gpu_free_milli[c, node, device], 0.0)  # two pods may be believed on one device
        rest = this - share * ((chosen >> device) & 1)
        free += this
        left += rest
        whole += this >= GPU_MILLI
        whole_left += rest >= GPU_MILLI
        if this >= share:
            room = min(room, this - share)
    row[F.gpu_requested_ratio] = (capacity - free + gpus * share) / capacity
    row[F.gpu_leftover_ratio] = room / 1000.0 if gpus > 0 and room < np.inf else 0.0
    row[F.gpu_size] = capacity / (1000.0 * GPUS_PER_NODE)
    row[F.gpu_left] = left / (GPU_MILLI * GPUS_PER_NODE)
    row[F.gpu_whole_left] = whole_left / GPUS_PER_NODE
    row[F.gpu_breaks_whole] = 1.0 if whole_left < whole and share < GPU_MILLI else 0.0
    row[F.gpu_node_unused] = 1.0 if whole * 1000.0 >= capacity else 0.0
    row[F.gpu_cpu_left] = cpu_left / LARGEST_CPU_MILLICORES
    row[F.gpu_without_cpu] = gpus_without_cpu(left, cpu_left) / GPUS_PER_NODE
    before = mean_fragment(L.known_gpu_free_milli[c, node], 0, 0.0, free, cpu_free)
    after = mean_fragment(L.known_gpu_free_milli[c, node], chosen, share, left, cpu_left)
    row[F.gpu_fragment_growth] = (after - before) / GPU_MILLI


@compiled
def mean_fragment(gpu_free_milli, chosen, share, free, cpu_free):
    """``agent.heuristics.fgd.mean_fragment_milli`` of one node with ``share`` taken of each chosen device."""
    total = 0.0
    for kind in range(TYPICAL_SHARE.shape[0]):
        fitting, unfit = 0, 0.0
        for device in range(gpu_free_milli.shape[0]):
            rest = max(gpu_free_milli[device], 0.0) - share * ((chosen >> device) & 1)
            if rest >= TYPICAL_MILLI[kind]:
                fitting += 1
            else:
                unfit += rest
        total += TYPICAL_SHARE[kind] * fragment_milli(
            free, unfit, fitting, cpu_free, TYPICAL_CPU[kind], TYPICAL_GPUS[kind]
        )
    return total


@compiled
def encode_siblings(L, T, c, t, node, talking, per_sibling, means, row):
    live = L.node[c]
    on_node = live[NODE.siblings, node] * per_sibling
    in_zone = live[NODE.siblings_in_zone, node] * per_sibling
    row[F.siblings_on_node_share] = on_node
    row[F.siblings_in_zone_share] = in_zone
    row[F.remote_traffic] = means[ALL_REMOTE] if on_node == 0 else traffic(talking * (1.0 - on_node))
    across = ACROSS + int(T.node[t, TAPE_NODE.zone, node])
    if means[across] < 0:
        means[across] = traffic(talking * (1.0 - in_zone))
    row[F.cross_zone_traffic] = means[across]
    row[F.sibling_rtt] = live[NODE.sibling_rtt_ms, node] / RTT_SCALE_MS


@compiled
def encode_spec(T, t, node, soft_ms, most_price, most_power, most_cpu, row):
    spec = T.node[t]
    latency_ms = spec[TAPE_NODE.user_latency_ms, node]
    row[F.user_latency] = latency_ms / LATENCY_SCALE_MS
    row[F.latency_excess] = max(latency_ms - soft_ms, 0.0) / LATENCY_SCALE_MS if soft_ms == soft_ms else 0.0
    idle, peak = spec[TAPE_NODE.power_idle_watts, node], spec[TAPE_NODE.power_peak_watts, node]
    row[F.price] = spec[TAPE_NODE.price_usd_per_hour, node] / most_price
    row[F.power_idle] = idle / most_power
    row[F.power_slope] = (peak - idle) / most_power
    row[F.size] = spec[TAPE_NODE.cpu_millicores, node] / most_cpu


@compiled
def encode_pod(L, c, candidates, mean_cpu, mean_memory, out):
    demand = L.demand[c]
    out[G.cpu_request] = demand[DEMAND.cpu] * inverse(mean_cpu)
    out[G.memory_request] = demand[DEMAND.memory] * inverse(mean_memory)
    out[G.gpu_request] = demand[DEMAND.gpus] * demand[DEMAND.gpu_milli] / 8000.0
    out[G.gpu_share] = demand[DEMAND.gpu_milli] / GPU_MILLI if demand[DEMAND.gpus] > 0 else 0.0
    out[G.expected_traffic] = traffic(demand[DEMAND.expected_rx] + demand[DEMAND.expected_tx])
    source = demand[DEMAND.source]
    out[G.demand_known] = 1.0 if source <= 1 else (0.5 if source <= 3 else 0.0)
    declared = demand[DEMAND.sibling_mbps]
    out[G.sibling_traffic] = traffic(declared) if declared == declared else 0.0
    out[G.siblings] = np.log1p(demand[DEMAND.siblings]) / 4.0
    out[G.latency_limited] = 1.0 if demand[DEMAND.soft_ms] == demand[DEMAND.soft_ms] else 0.0
    out[G.queue] = np.log1p(demand[DEMAND.queue]) / 4.0
    out[G.candidates] = np.log1p(candidates) / 8.0


@compiled
def encode_cluster(L, T, c, t, nodes, pod, means):
    demand, count = L.demand[c], L.count[c, COUNT.nodes]
    fill_means(L, T, c, t, means)
    candidates, most_price, most_power, most_cpu = 0.0, 1e-9, 1e-9, 1e-9
    sum_cpu, sum_memory = 0.0, 0.0
    for node in range(count):
        if L.mask[c, node]:
            candidates += 1.0
            most_price = max(most_price, T.node[t, TAPE_NODE.price_usd_per_hour, node])
            most_power = max(most_power, T.node[t, TAPE_NODE.power_peak_watts, node])
            most_cpu = max(most_cpu, T.node[t, TAPE_NODE.cpu_millicores, node])
            sum_cpu += T.node[t, TAPE_NODE.cpu_millicores, node]
            sum_memory += T.node[t, TAPE_NODE.memory_mib, node]
    each = max(candidates, 1.0)
    talking = 0.0
    if demand[DEMAND.siblings] > 0:
        talking = demand[DEMAND.sibling_mbps]
        if talking != talking:  # not declared
            talking = among_siblings(demand[DEMAND.expected_rx], demand[DEMAND.expected_tx])
    per_sibling = inverse(demand[DEMAND.siblings])
    means[AGE] = -1.0
    means[ALL_REMOTE] = traffic(talking)
    means[ACROSS : ACROSS + T.zone_rtt_ms.shape[1]] = -1.0
    expected_cpu, expected_network, requested_memory, empty, requested_gpu = 0.0, 0.0, 0.0, 0.0, 0.0
    for node in range(nodes.shape[0]):
        row = nodes[node]
        if node >= count or not L.mask[c, node]:
            row[:] = 0.0
            continue
        per_cpu = 1.0 / T.node[t, TAPE_NODE.cpu_millicores, node]
        per_memory = 1.0 / T.node[t, TAPE_NODE.memory_mib, node]
        known = nic_known(T, t, node)
        per_nic = inverse(T.node[t, TAPE_NODE.nic_mbps, node] if known else means[NIC])
        row[F.nic_unknown] = 0.0 if known else 1.0
        requested_memory += encode_requests(L, T, c, t, node, per_cpu, per_memory, row)
        cpu, network = encode_use(L, T, c, t, node, means, per_cpu, per_memory, per_nic, row)
        expected_cpu += cpu
        expected_network += network
        empty += row[F.empty]
        requested_gpu += row[F.gpu_requested_ratio]
        encode_siblings(L, T, c, t, node, talking, per_sibling, means, row)
        encode_spec(T, t, node, demand[DEMAND.soft_ms], most_price, most_power, most_cpu, row)
    encode_pod(L, c, candidates, sum_cpu / each, sum_memory / each, pod)
    pod[G.mean_cpu_expected] = expected_cpu / each
    pod[G.mean_network_expected] = expected_network / each
    pod[G.mean_memory_requested] = requested_memory / each
    pod[G.empty_share] = empty / each
    pod[G.mean_gpu_requested] = requested_gpu / each

"""``envs.dynamics.world`` compiled: the same rules, the same order, thousands of clusters.

Every function here has its namesake in World or Knowledge; read those first. ``L`` are the live arrays, ``T`` the
stack of tapes, ``c`` the cluster, ``t`` its tape. A property test keeps the two simulators equal step by step.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from agent import feasibility, gpu, pending
from agent.cluster import GPU_MILLI, GPUS_PER_NODE
from envs import batch_encode
from envs.batch_arrays import (
    COUNT,
    DEMAND,
    NODE,
    POD_STATE,
    RINGS,
    RULE,
    RUN,
    RUN_AT,
    RUN_MORE,
    TAPE_APP,
    TAPE_LOAD,
    TAPE_NODE,
    TAPE_POD,
    UNKNOWN,
    UNSEEN,
    UNSEEN_LIMIT,
)
from envs.batch_encode import encode_cluster
from envs.dynamics import contention, costs, sampling, scraping, traffic, usage
from envs.dynamics.knowledge import ANNOTATION, CLUSTER, CPU_RATIO, MEMORY_RATIO, NONE, OBSERVED, RX, SIBLINGS, TX
from envs.dynamics.world import LONG_AGO_S, QUEUE_LIMIT
from envs.kernel_cache import digest
from envs.workloads.tape import RING

# The rules, compiled from their one source.
choose_gpus = njit(gpu.choose_gpus)
take_gpus = njit(gpu.take_gpus)
fits = njit(feasibility.fits)
pending_weight = njit(pending.pending_weight)
carried = njit(contention.carried)
lost = njit(contention.lost)
carried_ratio = njit(contention.carried_ratio)
oom_badness_mib = njit(contention.oom_badness_mib)
latency_violation = njit(contention.latency_violation)
stranded_cores = njit(contention.stranded_cores)
candidates_wanted = njit(sampling.candidates_wanted)
first_node = njit(sampling.first_node)
latency_allows = njit(sampling.latency_allows)
counter_rate = njit(scraping.counter_rate)
in_window = njit(scraping.in_window)
smoothed = njit(scraping.smoothed)
remote_share = njit(traffic.remote_share)
sibling_traffic_mbps = njit(traffic.sibling_traffic_mbps)
cpu_demand_millicores = njit(usage.cpu_demand_millicores)
memory_use_mib = njit(usage.memory_use_mib)
connections = njit(usage.connections)
node_power_watts = njit(usage.node_power_watts)
active_price_usd_per_hour = njit(usage.active_price_usd_per_hour)

NETWORK_LOSS, CROSS_ZONE, LATENCY, THROTTLING = costs.NETWORK_LOSS, costs.CROSS_ZONE, costs.LATENCY, costs.THROTTLING
KILLS, IMBALANCE, FRAGMENTATION, PENDING = costs.KILLS, costs.IMBALANCE, costs.FRAGMENTATION, costs.PENDING
FAILURES, ENERGY, MONEY = costs.FAILURES, costs.ENERGY, costs.MONEY
MBIT_PER_GB, JOULES_PER_KWH, SECONDS_PER_HOUR = costs.MBIT_PER_GB, costs.JOULES_PER_KWH, costs.SECONDS_PER_HOUR
NO_FIT = gpu.NO_FIT
BEGIN = -2  # an action that starts the cluster anew
LOOK = -3  # an action that changes nothing

# Nothing here allocates, so nothing counts references (that took half of the time), and the wide tuples of arrays are
# not handed from call to call (that took half of the rest).
compiled = njit(error_model="numpy", _nrt=False, forceinline=True)


# --- decisions


@compiled
def accepts(L, T, c, t, node, pod):
    if not L.schedulable[c, node]:
        return False
    if not fits(
        T.node[t, TAPE_NODE.cpu_millicores, node] - L.node[c, NODE.cpu_allocated, node],
        T.node[t, TAPE_NODE.memory_mib, node] - L.node[c, NODE.memory_allocated, node],
        T.node[t, TAPE_NODE.pods, node] - L.node[c, NODE.pods, node],
        np.float64(T.pod[t, pod, TAPE_POD.cpu_request_millicores]),
        np.float64(T.pod[t, pod, TAPE_POD.memory_request_mib]),
    ):
        return False
    if not latency_allows(
        T.node[t, TAPE_NODE.user_latency_ms, node], np.float64(T.pod[t, pod, TAPE_POD.latency_hard_ms])
    ):
        return False
    gpus = int(T.pod[t, pod, TAPE_POD.gpus])
    return (
        gpus == 0
        or choose_gpus(L.gpu_free_milli[c, node], gpus, np.float64(T.pod[t, pod, TAPE_POD.gpu_milli])) != NO_FIT
    )


@compiled
def feasible(L, T, c, t, pod):
    nodes = L.count[c, COUNT.nodes]
    L.mask[c, :] = False
    wanted = candidates_wanted(nodes, int(T.rule[t, RULE.candidate_minimum]))
    node = first_node(np.float64(T.pod[t, pod, TAPE_POD.start]), nodes)
    found = 0
    for _ in range(nodes):
        if accepts(L, T, c, t, node, pod):
            L.mask[c, node] = True
            found += 1
            if found == wanted:
                break
        node += 1
        if node == nodes:
            node = 0
    return found


@compiled
def count_known(L, T, c, t, pod, sign):
    """Knowledge._count."""
    node = L.pod_state[c, pod, POD_STATE.known_node]
    if int(T.pod[t, pod, TAPE_POD.gpus]) > 0:
        gpu_milli = np.float64(T.pod[t, pod, TAPE_POD.gpu_milli])
        take_gpus(L.known_gpu_free_milli[c, node], L.pod_state[c, pod, POD_STATE.known_devices], sign * gpu_milli)
    L.node[c, NODE.known_cpu_requested, node] += sign * np.float64(T.pod[t, pod, TAPE_POD.cpu_request_millicores])
    L.node[c, NODE.known_memory_requested, node] += sign * np.float64(T.pod[t, pod, TAPE_POD.memory_request_mib])
    L.node[c, NODE.known_pods, node] += sign
    if T.pod[t, pod, TAPE_POD.labelled] > 0:
        L.known_app_pods[c, int(T.pod[t, pod, TAPE_POD.app]), node] += sign


@compiled
def assume(L, T, c, t, pod, node):
    gpus = int(T.pod[t, pod, TAPE_POD.gpus])
    chosen = choose_gpus(L.known_gpu_free_milli[c, node], gpus, np.float64(T.pod[t, pod, TAPE_POD.gpu_milli]))
    believe(L, T, c, t, pod, node, 0 if chosen == NO_FIT else chosen)


@compiled
def show(L, T, c, t, pod):
    forget(L, T, c, t, pod)
    believe(L, T, c, t, pod, L.pod_state[c, pod, POD_STATE.node], L.pod_state[c, pod, POD_STATE.devices])


@compiled
def forget(L, T, c, t, pod):
    if L.pod_state[c, pod, POD_STATE.known_node] >= 0:
        count_known(L, T, c, t, pod, -1)
        L.pod_state[c, pod, POD_STATE.known_node] = -1


@compiled
def believe(L, T, c, t, pod, node, devices):
    L.pod_state[c, pod, POD_STATE.known_node] = node
    L.pod_state[c, pod, POD_STATE.known_devices] = devices
    count_known(L, T, c, t, pod, 1)


@compiled
def allocate(L, T, c, t, pod, node, sign):
    L.count[c, COUNT.loads_of] = UNKNOWN
    app = int(T.pod[t, pod, TAPE_POD.app])
    L.node[c, NODE.cpu_allocated, node] += sign * np.float64(T.pod[t, pod, TAPE_POD.cpu_request_millicores])
    L.node[c, NODE.memory_allocated, node] += sign * np.float64(T.pod[t, pod, TAPE_POD.memory_request_mib])
    L.node[c, NODE.pods, node] += sign
    L.app_pods[c, app, node] += sign
    L.app_zone_pods[c, app, int(T.node[t, TAPE_NODE.zone, node])] += sign
    L.app_zone_pods[c, app, -1] += sign


@compiled
def place(L, T, c, t, pod, node, bound_at_s):
    if int(T.pod[t, pod, TAPE_POD.gpus]) > 0:
        gpu_milli = np.float64(T.pod[t, pod, TAPE_POD.gpu_milli])
        chosen = choose_gpus(L.gpu_free_milli[c, node], int(T.pod[t, pod, TAPE_POD.gpus]), gpu_milli)
        take_gpus(L.gpu_free_milli[c, node], chosen, gpu_milli)
        L.pod_state[c, pod, POD_STATE.devices] = chosen
    L.pod_state[c, pod, POD_STATE.node] = node
    allocate(L, T, c, t, pod, node, 1)
    slot = L.count[c, COUNT.running]
    L.run_ends_at_s[c, slot] = L.clock_s[c] + L.pod_left_s[c, pod]
    L.run_more[c, slot, RUN_MORE.bound_at_s] = bound_at_s
    run(L, T, c, t, pod, slot)
    L.count[c, COUNT.running] += 1


@compiled
def run(L, T, c, t, pod, slot):
    """What every tick needs of a running pod, side by side in memory."""
    L.running[c, slot] = pod
    L.run_at[c, slot, RUN_AT.node] = L.pod_state[c, pod, POD_STATE.node]
    L.run_at[c, slot, RUN_AT.app] = T.pod[t, pod, TAPE_POD.app]
    spec, use = T.pod[t, pod], L.run[c, slot]
    request, ratio = np.float64(spec[TAPE_POD.cpu_request_millicores]), np.float64(spec[TAPE_POD.cpu_use_ratio])
    use[RUN.cpu] = cpu_demand_millicores(request, ratio, 1.0)
    request, ratio = np.float64(spec[TAPE_POD.memory_request_mib]), np.float64(spec[TAPE_POD.memory_use_ratio])
    use[RUN.memory] = memory_use_mib(request, ratio)
    use[RUN.rx] = spec[TAPE_POD.rx_mbps]
    use[RUN.tx] = spec[TAPE_POD.tx_mbps]
    L.run_more[c, slot, RUN_MORE.soft_ms] = spec[TAPE_POD.latency_soft_ms]
    L.run_more[c, slot, RUN_MORE.hard_ms] = spec[TAPE_POD.latency_hard_ms]


@compiled
def keep(L, c, slot, kept):
    """Close the gap that pods leave which have gone."""
    if slot != kept:
        L.running[c, kept] = L.running[c, slot]
        L.run_ends_at_s[c, kept] = L.run_ends_at_s[c, slot]
        for column in range(L.run_at.shape[2]):
            L.run_at[c, kept, column] = L.run_at[c, slot, column]
        for column in range(L.run.shape[2]):
            L.run[c, kept, column] = L.run[c, slot, column]
        for column in range(L.run_more.shape[2]):
            L.run_more[c, kept, column] = L.run_more[c, slot, column]


@compiled
def release(L, T, c, t, pod):
    node = L.pod_state[c, pod, POD_STATE.node]
    allocate(L, T, c, t, pod, node, -1)
    if int(T.pod[t, pod, TAPE_POD.gpus]) > 0:
        gpu_milli = np.float64(T.pod[t, pod, TAPE_POD.gpu_milli])
        take_gpus(L.gpu_free_milli[c, node], L.pod_state[c, pod, POD_STATE.devices], -gpu_milli)
    forget(L, T, c, t, pod)
    L.pod_state[c, pod, POD_STATE.node] = -1
    for index in range(L.count[c, COUNT.unseen]):
        if L.unseen[c, UNSEEN.pod, index] == pod:  # gone before the watch showed it
            L.count[c, COUNT.unseen] -= 1
            for later in range(index, L.count[c, COUNT.unseen]):
                L.unseen[c, UNSEEN.pod, later] = L.unseen[c, UNSEEN.pod, later + 1]
                L.unseen[c, UNSEEN.until, later] = L.unseen[c, UNSEEN.until, later + 1]
            break


@compiled
def bound_to(L, T, c, t, pod, node):
    override = np.float64(T.pod[t, pod, TAPE_POD.override])
    if override < 0:
        return node
    others = 0
    for other in range(L.count[c, COUNT.nodes]):
        others += L.mask[c, other]
    skip = min(int(override * others), others - 1)
    for other in range(L.count[c, COUNT.nodes]):
        if L.mask[c, other]:
            if skip == 0:
                return other
            skip -= 1
    return node


@compiled
def decide(L, T, c, t, node, assumes):
    pod = L.waiting[c, L.count[c, COUNT.offered]]
    bound = bound_to(L, T, c, t, pod, node)
    for index in range(L.count[c, COUNT.offered], L.count[c, COUNT.waiting] - 1):
        L.waiting[c, index] = L.waiting[c, index + 1]
        L.waiting_since_s[c, index] = L.waiting_since_s[c, index + 1]
    L.count[c, COUNT.waiting] -= 1
    place(L, T, c, t, pod, bound, L.clock_s[c])
    slot = L.count[c, COUNT.running] - 1
    for column in range(OBSERVED):
        L.run_more[c, slot, RUN_MORE.expected_cpu + column] = L.demand[c, DEMAND.expected_cpu + column]
    if assumes:
        assume(L, T, c, t, pod, node)
    last = min(L.count[c, COUNT.unseen], UNSEEN_LIMIT - 1)
    L.unseen[c, UNSEEN.pod, last] = pod
    L.unseen[c, UNSEEN.until, last] = L.count[c, COUNT.decisions] + int(T.pod[t, pod, TAPE_POD.visible_after])
    L.count[c, COUNT.unseen] = last + 1
    L.count[c, COUNT.decisions] += 1
    reveal(L, T, c, t)


@compiled
def reveal(L, T, c, t):
    kept = 0
    for index in range(L.count[c, COUNT.unseen]):
        pod = L.unseen[c, UNSEEN.pod, index]
        if L.unseen[c, UNSEEN.until, index] < L.count[c, COUNT.decisions]:
            where, state = POD_STATE, L.pod_state[c, pod]
            same = state[where.known_node] == state[where.node]
            if not same or state[where.known_devices] != state[where.devices]:
                show(L, T, c, t, pod)
            continue
        L.unseen[c, UNSEEN.pod, kept] = pod
        L.unseen[c, UNSEEN.until, kept] = L.unseen[c, UNSEEN.until, index]
        kept += 1
    L.count[c, COUNT.unseen] = kept


@compiled
def until_decision(L, T, c, t):
    while not L.count[c, COUNT.done]:
        while L.count[c, COUNT.offered] < L.count[c, COUNT.waiting]:
            if feasible(L, T, c, t, L.waiting[c, L.count[c, COUNT.offered]]) > 0:
                return
            L.count[c, COUNT.offered] += 1
        advance(L, T, c, t)


# --- time


@compiled
def advance(L, T, c, t):
    loads(L, T, c, t)
    account(L, T, c, t)
    clock_s = (L.count[c, COUNT.ticks] + 1) * T.rule[t, RULE.tick_s]
    scrapes = clock_s >= L.count[c, COUNT.scraped] * T.rule[t, RULE.scrape_interval_s]
    if scrapes:
        observe(L, T, c, t)
    kill(L, T, c, t)
    L.count[c, COUNT.ticks] += 1
    L.clock_s[c] = clock_s
    end(L, T, c, t)
    maintain(L, T, c, t)
    arrive(L, T, c, t)
    give_up(L, T, c, t)
    if scrapes:
        sample(L, T, c, t)
    publish(L, T, c, t)
    L.count[c, COUNT.offered] = 0
    L.count[c, COUNT.done] = clock_s >= T.rule[t, RULE.horizon_s]


@compiled
def load_step(L, T, c, t):
    return min(int(L.clock_s[c] / T.rule[t, RULE.load_step_s]), T.app_load.shape[1] - 1)


@compiled
def loads(L, T, c, t):
    step = load_step(L, T, c, t)
    if L.count[c, COUNT.loads_of] == 1 + step:  # nobody came or went, and the tape says the same as before
        return
    L.count[c, COUNT.loads_of] = 1 + step
    cpu, memory = L.node[c, NODE.load_cpu], L.node[c, NODE.load_memory]
    rx, tx = L.node[c, NODE.load_rx], L.node[c, NODE.load_tx]
    for node in range(L.count[c, COUNT.nodes]):
        nic = T.node[t, TAPE_NODE.nic_mbps, node]
        cpu[node] = T.background[t, TAPE_LOAD.cpu_ratio, step, node] * T.node[t, TAPE_NODE.cpu_millicores, node]
        memory[node] = T.node[t, TAPE_NODE.background_memory_mib, node]
        rx[node] = T.background[t, TAPE_LOAD.rx_ratio, step, node] * nic
        tx[node] = T.background[t, TAPE_LOAD.tx_ratio, step, node] * nic
    each, apps = L.app_flow[c], T.app.shape[2]
    for app in range(apps):  # what a pod of the app sends to one of its siblings
        total = np.float64(L.app_zone_pods[c, app, -1])
        load = np.float64(T.app_load[t, step, app])
        sibling = sibling_traffic_mbps(T.app[t, TAPE_APP.sibling_mbps, app], total, load)
        each[app] = sibling * remote_share(total, total - 1.0)
    limited = T.rule[t, RULE.latency_limited] > 0
    cross_zone_mbps = 0.0
    violations = 0.0
    for slot in range(L.count[c, COUNT.running]):
        use, node, app = L.run[c, slot], L.run_at[c, slot, RUN_AT.node], L.run_at[c, slot, RUN_AT.app]
        load = np.float64(T.app_load[t, step, app])
        total = L.app_zone_pods[c, app, -1]
        cpu[node] += use[RUN.cpu] * load
        memory[node] += use[RUN.memory]
        remote = 0.0
        if each[app] > 0:
            zone = int(T.node[t, TAPE_NODE.zone, node])
            remote = each[app] * (total - L.app_pods[c, app, node])
            cross_zone_mbps += each[app] * (total - L.app_zone_pods[c, app, zone])
        rx[node] += use[RUN.rx] * load + remote
        tx[node] += use[RUN.tx] * load + remote
        if limited:
            violations += violation(L, T, c, t, L.run_more[c, slot], node, app, np.float64(total))
    L.between[c, 0] = cross_zone_mbps
    L.between[c, 1] = violations


@compiled
def violation(L, T, c, t, more, node, app, total):
    soft_ms = np.float64(more[RUN_MORE.soft_ms])
    if soft_ms != soft_ms:
        return 0.0
    zone = int(T.node[t, TAPE_NODE.zone, node])
    rtt_ms = 0.0
    for other in range(T.zone_rtt_ms.shape[1]):
        rtt_ms += L.app_zone_pods[c, app, other] * T.zone_rtt_ms[t, zone, other]
    rtt_ms -= L.app_pods[c, app, node] * T.zone_rtt_ms[t, zone, zone]
    latency_ms = T.node[t, TAPE_NODE.user_latency_ms, node] + rtt_ms / max(total - 1.0, 1.0)
    return latency_violation(latency_ms, soft_ms, np.float64(more[RUN_MORE.hard_ms]))


@compiled
def account(L, T, c, t):
    terms, tick_s, nodes = L.terms[c], T.rule[t, RULE.tick_s], L.count[c, COUNT.nodes]
    lost_gb, throttled, stranded, kwh, usd = 0.0, 0.0, 0.0, 0.0, 0.0
    busy_mean, busy_squares = 0.0, 0.0  # by Welford's rule: a difference of large sums would lose small spreads
    for node in range(nodes):
        cpu, nic = T.node[t, TAPE_NODE.cpu_millicores, node], T.node[t, TAPE_NODE.nic_mbps, node]
        cpu_carried = carried(L.node[c, NODE.load_cpu, node], cpu)
        rx_carried, tx_carried = (
            carried(L.node[c, NODE.load_rx, node], nic),
            carried(L.node[c, NODE.load_tx, node], nic),
        )
        L.node[c, NODE.cpu_counter, node] += cpu_carried * tick_s
        L.node[c, NODE.rx_counter, node] += rx_carried * tick_s
        L.node[c, NODE.tx_counter, node] += tx_carried * tick_s
        lost_mbps = lost(L.node[c, NODE.load_rx, node], nic) + lost(L.node[c, NODE.load_tx, node], nic)
        lost_gb += lost_mbps * tick_s / MBIT_PER_GB
        throttled += lost(L.node[c, NODE.load_cpu, node], cpu) / 1000.0 * tick_s
        cpu_free = 1.0 - L.node[c, NODE.cpu_allocated, node] / cpu
        memory_free = 1.0 - L.node[c, NODE.memory_allocated, node] / T.node[t, TAPE_NODE.memory_mib, node]
        stranded += stranded_cores(cpu_free, memory_free, cpu) * tick_s
        pods = L.node[c, NODE.pods, node]
        watts = node_power_watts(
            T.node[t, TAPE_NODE.power_idle_watts, node],
            T.node[t, TAPE_NODE.power_peak_watts, node],
            cpu_carried / cpu,
            pods,
        )
        kwh += watts * tick_s / JOULES_PER_KWH
        price = active_price_usd_per_hour(T.node[t, TAPE_NODE.price_usd_per_hour, node], pods)
        usd += price * tick_s / SECONDS_PER_HOUR
        busy = max(cpu_carried / cpu, rx_carried / nic, tx_carried / nic)
        above = busy - busy_mean
        busy_mean += above / (node + 1)
        busy_squares += above * (busy - busy_mean)
    terms[NETWORK_LOSS] += lost_gb
    terms[THROTTLING] += throttled
    terms[FRAGMENTATION] += stranded
    terms[ENERGY] += kwh
    terms[MONEY] += usd
    terms[IMBALANCE] += np.sqrt(busy_squares / nodes) * tick_s
    terms[CROSS_ZONE] += L.between[c, 0] * tick_s / MBIT_PER_GB
    terms[LATENCY] += L.between[c, 1] * tick_s
    terms[PENDING] += L.count[c, COUNT.waiting] * tick_s


@compiled
def kill(L, T, c, t):
    killed = False
    for node in range(L.count[c, COUNT.nodes]):
        used_mib = L.node[c, NODE.load_memory, node]
        while used_mib > T.node[t, TAPE_NODE.memory_mib, node]:
            slot = worst(L, T, c, t, node)
            if slot < 0:
                break
            used_mib -= L.run[c, slot, RUN.memory]
            L.terms[c, KILLS] += 1
            requeue(L, T, c, t, slot)
            killed = True
    if killed:
        drop_evicted(L, c)


@compiled
def worst(L, T, c, t, node):
    victim, badness = -1, -np.inf
    for slot in range(L.count[c, COUNT.running]):
        pod = L.running[c, slot]
        if L.pod_state[c, pod, POD_STATE.node] == node:
            this = oom_badness_mib(L.run[c, slot, RUN.memory], np.float64(T.pod[t, pod, TAPE_POD.memory_request_mib]))
            if this > badness:
                victim, badness = slot, this
    return victim


@compiled
def requeue(L, T, c, t, slot):
    pod = L.running[c, slot]
    L.pod_left_s[c, pod] = max(L.run_ends_at_s[c, slot] - L.clock_s[c], 0.0)
    release(L, T, c, t, pod)
    queue(L, c, pod)


@compiled
def queue(L, c, pod):
    if L.count[c, COUNT.waiting] >= QUEUE_LIMIT:
        L.terms[c, FAILURES] += 1
        return
    L.waiting[c, L.count[c, COUNT.waiting]] = pod
    L.waiting_since_s[c, L.count[c, COUNT.waiting]] = L.clock_s[c]
    L.count[c, COUNT.waiting] += 1


@compiled
def drop_evicted(L, c):
    kept = 0
    for slot in range(L.count[c, COUNT.running]):
        if L.pod_state[c, L.running[c, slot], POD_STATE.node] >= 0:
            keep(L, c, slot, kept)
            kept += 1
    L.count[c, COUNT.running] = kept


@compiled
def maintain(L, T, c, t):
    begins = False
    for node in range(L.count[c, COUNT.nodes]):
        begun = T.node[t, TAPE_NODE.maintenance_start_s, node] <= L.clock_s[c]
        under = begun and not T.node[t, TAPE_NODE.maintenance_end_s, node] <= L.clock_s[c]
        begins = begins or (under and L.schedulable[c, node])
        L.schedulable[c, node] = not under
    if not begins:
        return
    for slot in range(L.count[c, COUNT.running]):
        if not L.schedulable[c, L.run_at[c, slot, RUN_AT.node]]:
            requeue(L, T, c, t, slot)
    drop_evicted(L, c)


@compiled
def end(L, T, c, t):
    ending = False
    for slot in range(L.count[c, COUNT.running]):
        ending |= L.run_ends_at_s[c, slot] <= L.clock_s[c]
    if not ending:
        return
    kept = 0
    for slot in range(L.count[c, COUNT.running]):
        if L.run_ends_at_s[c, slot] <= L.clock_s[c]:
            release(L, T, c, t, L.running[c, slot])
        else:
            keep(L, c, slot, kept)
            kept += 1
    L.count[c, COUNT.running] = kept


@compiled
def arrive(L, T, c, t):
    pod = L.count[c, COUNT.arrived]
    while pod < T.pod.shape[1] and T.pod[t, pod, TAPE_POD.arrival_s] <= L.clock_s[c]:
        L.pod_left_s[c, pod] = T.pod[t, pod, TAPE_POD.duration_s]  # the tape may have been exchanged
        queue(L, c, pod)
        pod += 1
    L.count[c, COUNT.arrived] = pod


@compiled
def give_up(L, T, c, t):
    kept = 0
    for index in range(L.count[c, COUNT.waiting]):
        if L.clock_s[c] - L.waiting_since_s[c, index] <= T.rule[t, RULE.pending_timeout_s]:
            L.waiting[c, kept] = L.waiting[c, index]
            L.waiting_since_s[c, kept] = L.waiting_since_s[c, index]
            kept += 1
    L.terms[c, FAILURES] += L.count[c, COUNT.waiting] - kept
    L.count[c, COUNT.waiting] = kept


# --- scraping


@compiled
def observe(L, T, c, t):
    """World._observe, into the slot of the ring that the sample will take."""
    slot = L.count[c, COUNT.scraped] % RING
    apps = T.app.shape[2]
    L.ring_apps[c, slot] = np.nan
    used, base = L.used[c], L.base[c]
    used[:] = 0.0
    base[:] = 0.0
    if T.rule[t, RULE.pod_metrics] > 0:
        observe_pods(L, T, c, t, used, base)
    else:
        observe_nodes(L, T, c, t, used[apps], base[apps])
    for column in range(OBSERVED):
        for app in range(apps):
            if base[app, column] > 0:
                L.ring_apps[c, slot, app, column] = used[app, column] / base[app, column]
        seen = base[apps, column] > 0
        L.ring_apps[c, slot, apps, column] = used[apps, column] / base[apps, column] if seen else np.nan


@compiled
def observe_pods(L, T, c, t, used, base):
    step, everything = load_step(L, T, c, t), used.shape[0] - 1
    for slot in range(L.count[c, COUNT.running]):
        pod, use = L.running[c, slot], L.run[c, slot]
        node, app = L.run_at[c, slot, RUN_AT.node], np.int64(L.run_at[c, slot, RUN_AT.app])
        load, nic = np.float64(T.app_load[t, step, app]), T.node[t, TAPE_NODE.nic_mbps, node]
        total = np.float64(L.app_zone_pods[c, app, -1])
        sibling = sibling_traffic_mbps(T.app[t, TAPE_APP.sibling_mbps, app], total, load)
        rx = (use[RUN.rx] * load + sibling) * carried_ratio(L.node[c, NODE.load_rx, node], nic)
        tx = (use[RUN.tx] * load + sibling) * carried_ratio(L.node[c, NODE.load_tx, node], nic)
        cpu_share = carried_ratio(L.node[c, NODE.load_cpu, node], T.node[t, TAPE_NODE.cpu_millicores, node])
        cpu, memory = use[RUN.cpu] * load * cpu_share, use[RUN.memory]
        request = np.float64(T.pod[t, pod, TAPE_POD.cpu_request_millicores])
        for row in (app, everything):
            if row == everything or T.pod[t, pod, TAPE_POD.labelled] > 0:
                used[row, RX] += rx
                used[row, TX] += tx
                used[row, CPU_RATIO] += cpu
                used[row, MEMORY_RATIO] += memory
                base[row, RX] += 1.0
                base[row, TX] += 1.0
                base[row, CPU_RATIO] += request
                base[row, MEMORY_RATIO] += np.float64(T.pod[t, pod, TAPE_POD.memory_request_mib])


@compiled
def observe_nodes(L, T, c, t, used, base):
    for node in range(L.count[c, COUNT.nodes]):
        used[RX] += carried(L.node[c, NODE.load_rx, node], T.node[t, TAPE_NODE.nic_mbps, node])
        used[TX] += carried(L.node[c, NODE.load_tx, node], T.node[t, TAPE_NODE.nic_mbps, node])
        used[CPU_RATIO] += carried(L.node[c, NODE.load_cpu, node], T.node[t, TAPE_NODE.cpu_millicores, node])
        used[MEMORY_RATIO] += carried(L.node[c, NODE.load_memory, node], T.node[t, TAPE_NODE.memory_mib, node])
        base[RX] += L.node[c, NODE.pods, node]
        base[TX] += L.node[c, NODE.pods, node]
        base[CPU_RATIO] += L.node[c, NODE.cpu_allocated, node]
        base[MEMORY_RATIO] += L.node[c, NODE.memory_allocated, node]


@compiled
def sample(L, T, c, t):
    slot = L.count[c, COUNT.scraped] % RING
    row = min(L.count[c, COUNT.scraped], T.scrape_missing.shape[1] - 1)
    L.ring_at_s[c, slot] = L.clock_s[c]
    for node in range(L.count[c, COUNT.nodes]):
        nic = T.node[t, TAPE_NODE.nic_mbps, node]
        L.ring_present[c, slot, node] = not T.scrape_missing[t, row, node]
        L.ring[c, RINGS.cpu, slot, node] = L.node[c, NODE.cpu_counter, node]
        L.ring[c, RINGS.rx, slot, node] = L.node[c, NODE.rx_counter, node]
        L.ring[c, RINGS.tx, slot, node] = L.node[c, NODE.tx_counter, node]
        L.ring[c, RINGS.memory, slot, node] = carried(
            L.node[c, NODE.load_memory, node], T.node[t, TAPE_NODE.memory_mib, node]
        )
        traffic_mbps = carried(L.node[c, NODE.load_rx, node], nic) + carried(L.node[c, NODE.load_tx, node], nic)
        L.ring[c, RINGS.connections, slot, node] = connections(traffic_mbps)
    L.count[c, COUNT.scraped] += 1


@compiled
def publish(L, T, c, t):
    while L.count[c, COUNT.published] < L.count[c, COUNT.scraped]:
        slot = L.count[c, COUNT.published] % RING
        if L.ring_at_s[c, slot] + T.rule[t, RULE.scrape_delay_s] > L.clock_s[c]:
            return
        for node in range(L.count[c, COUNT.nodes]):
            publish_node(L, T, c, t, node)
        for app in range(T.app.shape[2] + 1):  # the last row is the cluster
            smooth(L.observed[c, app], L.ring_apps[c, slot, app])
        L.count[c, COUNT.published] += 1


@compiled
def smooth(known, observed):
    for column in range(OBSERVED):
        if observed[column] == observed[column]:
            known[column] = smoothed(known[column], np.float64(observed[column]))


@compiled
def publish_node(L, T, c, t, node):
    newest_number = L.count[c, COUNT.published]
    queried_at_s = L.ring_at_s[c, newest_number % RING]
    oldest_number = max(0, L.count[c, COUNT.scraped] - RING)
    first, last, samples = -1, -1, 0
    for number in range(oldest_number, newest_number + 1):
        slot = number % RING
        if L.ring_present[c, slot, node] and in_window(
            L.ring_at_s[c, slot], queried_at_s, T.rule[t, RULE.rate_window_s]
        ):
            if first < 0:
                first = slot
            last = slot
            samples += 1
    if samples < 2:
        return
    mean = rate_between(L, c, RINGS.cpu, last, first, node)
    L.node[c, NODE.known_cpu, node] = mean
    L.node[c, NODE.known_rx, node] = rate_between(L, c, RINGS.rx, last, first, node)
    L.node[c, NODE.known_tx, node] = rate_between(L, c, RINGS.tx, last, first, node)
    L.node[c, NODE.known_memory, node] = L.ring[c, RINGS.memory, last, node]
    L.node[c, NODE.known_connections, node] = L.ring[c, RINGS.connections, last, node]
    L.node[c, NODE.sampled_at_s, node] = L.ring_at_s[c, last]
    squares, before = 0.0, first
    for number in range(oldest_number, newest_number + 1):
        slot = number % RING
        if slot == first or not L.ring_present[c, slot, node]:
            continue
        if not in_window(L.ring_at_s[c, slot], queried_at_s, T.rule[t, RULE.rate_window_s]):
            continue
        squares += (rate_between(L, c, RINGS.cpu, slot, before, node) - mean) ** 2
        before = slot
    L.node[c, NODE.known_cpu_std, node] = np.sqrt(squares / (samples - 1))


@compiled
def rate_between(L, c, counter, newest, oldest, node):
    ring, at_s = L.ring[c, counter], L.ring_at_s[c]
    return counter_rate(ring[newest, node], ring[oldest, node], at_s[newest], at_s[oldest])


# --- what a scorer is given


@compiled
def describe(L, T, c, t, assumes):
    """Knowledge.state and Knowledge.demand, as far as they are not plain columns."""
    for node in range(L.count[c, COUNT.nodes]):
        L.node[c, NODE.age_s, node] = L.clock_s[c] - L.node[c, NODE.sampled_at_s, node]
    L.node[c, NODE.pending_cpu : NODE.pending_pods + 1] = 0.0
    if assumes:
        describe_pending(L, T, c, t)
    if L.count[c, COUNT.done]:
        describe_nothing(L, c)
    else:
        describe_demand(L, T, c, t, L.waiting[c, L.count[c, COUNT.offered]])


@compiled
def describe_pending(L, T, c, t):
    pending, window_s = L.node[c, NODE.pending_cpu : NODE.pending_pods + 1], T.rule[t, RULE.rate_window_s]
    oldest_s = L.clock_s[c] - (window_s + T.rule[t, RULE.scrape_delay_s] + 2 * T.rule[t, RULE.scrape_interval_s])
    for slot in range(L.count[c, COUNT.running] - 1, -1, -1):
        more = L.run_more[c, slot]
        bound_at_s = np.float64(more[RUN_MORE.bound_at_s])
        if bound_at_s < oldest_s:
            break
        node = L.pod_state[c, L.running[c, slot], POD_STATE.known_node]
        if node < 0:
            continue
        weight = pending_weight(bound_at_s, L.node[c, NODE.sampled_at_s, node], window_s)
        pending[0, node] += weight * more[RUN_MORE.expected_cpu]
        if weight >= 1.0:
            pending[1, node] += more[RUN_MORE.expected_memory]
        pending[2, node] += weight * more[RUN_MORE.expected_rx]
        pending[3, node] += weight * more[RUN_MORE.expected_tx]
        pending[4, node] += weight


@compiled
def expected(L, T, c, t, pod, column, otherwise):
    if T.pod[t, pod, TAPE_POD.labelled] > 0:
        observed = L.observed[c, int(T.pod[t, pod, TAPE_POD.app]), column]
        if observed == observed:
            return observed
    observed = L.observed[c, -1, column]
    return observed if observed == observed else otherwise


@compiled
def describe_demand(L, T, c, t, pod):
    demand, app, labelled = L.demand[c], int(T.pod[t, pod, TAPE_POD.app]), T.pod[t, pod, TAPE_POD.labelled] > 0
    demand[DEMAND.cpu] = T.pod[t, pod, TAPE_POD.cpu_request_millicores]
    demand[DEMAND.memory] = T.pod[t, pod, TAPE_POD.memory_request_mib]
    demand[DEMAND.gpus] = int(T.pod[t, pod, TAPE_POD.gpus])
    demand[DEMAND.gpu_milli] = T.pod[t, pod, TAPE_POD.gpu_milli]
    demand[DEMAND.expected_cpu] = demand[DEMAND.cpu] * expected(L, T, c, t, pod, CPU_RATIO, 1.0)
    demand[DEMAND.expected_memory] = demand[DEMAND.memory] * expected(L, T, c, t, pod, MEMORY_RATIO, 1.0)
    annotated = np.float64(T.pod[t, pod, TAPE_POD.annotated_mbps])
    if annotated == annotated:
        demand[DEMAND.source] = ANNOTATION
        demand[DEMAND.expected_rx] = annotated
        demand[DEMAND.expected_tx] = annotated
    else:
        seen = L.observed[c, -1, RX] == L.observed[c, -1, RX]
        demand[DEMAND.source] = CLUSTER if seen else NONE
        if labelled and L.observed[c, app, RX] == L.observed[c, app, RX]:
            demand[DEMAND.source] = SIBLINGS
        demand[DEMAND.expected_rx] = expected(L, T, c, t, pod, RX, 0.0)
        demand[DEMAND.expected_tx] = expected(L, T, c, t, pod, TX, 0.0)
    declared = labelled and T.app[t, TAPE_APP.sibling_declared, app] > 0
    demand[DEMAND.sibling_mbps] = T.app[t, TAPE_APP.sibling_mbps, app] if declared else np.nan
    demand[DEMAND.soft_ms] = T.pod[t, pod, TAPE_POD.latency_soft_ms]
    demand[DEMAND.hard_ms] = T.pod[t, pod, TAPE_POD.latency_hard_ms]
    describe_siblings(L, T, c, t, app, labelled)


@compiled
def describe_siblings(L, T, c, t, app, labelled):
    zones = T.zone_rtt_ms.shape[1]
    by_zone = L.by_zone[c]
    by_zone[:] = 0.0
    total = 0.0
    L.node[c, NODE.siblings] = 0.0
    if labelled:
        for node in range(L.count[c, COUNT.nodes]):
            pods = L.known_app_pods[c, app, node]
            L.node[c, NODE.siblings, node] = pods
            by_zone[int(T.node[t, TAPE_NODE.zone, node])] += pods
            total += pods
    L.demand[c, DEMAND.siblings] = total
    for node in range(L.count[c, COUNT.nodes]):
        zone = int(T.node[t, TAPE_NODE.zone, node])
        L.node[c, NODE.siblings_in_zone, node] = by_zone[zone]
        rtt_ms = 0.0
        if total > 0:
            for other in range(zones):
                rtt_ms += by_zone[other] * T.zone_rtt_ms[t, zone, other]
            rtt_ms = (rtt_ms - L.node[c, NODE.siblings, node] * T.zone_rtt_ms[t, zone, zone]) / total
        L.node[c, NODE.sibling_rtt_ms, node] = rtt_ms


@compiled
def describe_nothing(L, c):
    """After the horizon no pod waits: an empty demand, every schedulable node a candidate."""
    L.demand[c] = 0.0
    L.demand[c, DEMAND.source] = NONE
    L.demand[c, DEMAND.sibling_mbps] = np.nan
    L.demand[c, DEMAND.soft_ms] = np.nan
    L.demand[c, DEMAND.hard_ms] = np.nan
    L.node[c, NODE.siblings] = 0.0
    L.node[c, NODE.siblings_in_zone] = 0.0
    L.node[c, NODE.sibling_rtt_ms] = 0.0
    L.mask[c] = False
    for node in range(L.count[c, COUNT.nodes]):
        L.mask[c, node] = L.schedulable[c, node]


# --- entry points


@compiled
def begin(L, T, c, t):
    nodes = 0
    for node in range(T.node.shape[2]):
        nodes += T.node[t, TAPE_NODE.cpu_millicores, node] > 0
    L.count[c, COUNT.nodes] = nodes
    for node in range(nodes):
        L.schedulable[c, node] = True
        for device in range(min(int(T.node[t, TAPE_NODE.gpus, node]), GPUS_PER_NODE)):
            L.gpu_free_milli[c, node, device] = GPU_MILLI
            L.known_gpu_free_milli[c, node, device] = GPU_MILLI
    maintain(L, T, c, t)
    populate(L, T, c, t)


@compiled
def populate(L, T, c, t):
    nodes = L.count[c, COUNT.nodes]
    while L.count[c, COUNT.arrived] < T.pod.shape[1] and T.pod[t, L.count[c, COUNT.arrived], TAPE_POD.initial] > 0:
        pod = L.count[c, COUNT.arrived]
        start = first_node(np.float64(T.pod[t, pod, TAPE_POD.start]), nodes)
        for offset in range(nodes):
            node = (start + offset) % nodes
            if accepts(L, T, c, t, node, pod):
                L.pod_left_s[c, pod] = T.pod[t, pod, TAPE_POD.duration_s]
                place(L, T, c, t, pod, node, LONG_AGO_S)
                show(L, T, c, t, pod)
                break
        L.count[c, COUNT.arrived] += 1


@compiled
def run_cluster(L, T, c, node, assumes):
    t = L.count[c, COUNT.tape]
    if node == BEGIN:
        begin(L, T, c, t)
    elif 0 <= node < L.count[c, COUNT.nodes] and L.mask[c, node]:
        decide(L, T, c, t, node, assumes)
    else:  # never moved silently: counted, and the pod waits for the next tick
        L.count[c, COUNT.invalid] += 1
        L.count[c, COUNT.offered] += 1
    until_decision(L, T, c, t)
    if node == BEGIN:
        L.terms[c] = 0.0  # what happened before the first decision is nobody's doing
    describe(L, T, c, t, assumes)


def entry_point(sources):
    """The one function that is kept compiled on disk, with all it calls inside (see envs.kernel_cache)."""

    @njit(error_model="numpy", nogil=True, cache=True, _nrt=False)  # threads share the clusters out among them
    def run_clusters(L, T, rows, actions, assumes, nodes, pod, means):
        """Begin, act or just look, go on to the next decision, and encode it while the cluster is in the cache.

        ``nodes`` and ``pod`` take the features; with no room in them nothing is encoded.
        """
        _ = sources
        for index in range(rows.shape[0]):
            c, action = rows[index], actions[index]
            if action != LOOK:
                L.terms[c] = 0.0
                if not L.count[c, COUNT.done]:
                    run_cluster(L, T, c, action, assumes)
            if nodes.shape[0] > 0:
                encode_cluster(L, T, c, L.count[c, COUNT.tape], nodes[c], pod[c], means)

    return run_clusters


run_clusters = entry_point(digest({**vars(batch_encode), **globals()}))

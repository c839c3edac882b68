"""World's time, compiled: loads, costs, kills, maintenance, arrivals and ends (see batch_kernels)."""

from __future__ import annotations

import numpy as np

from envs.batch_arrays import (
    COUNT,
    NODE,
    POD_STATE,
    RULE,
    RUN,
    RUN_AT,
    TAPE_APP,
    TAPE_LOAD,
    TAPE_NODE,
    TAPE_POD,
)
from envs.batch_credit import EVERY_TICKS, credit
from envs.batch_latency import violation
from envs.batch_placing import keep, leave
from envs.batch_rules import (
    active_price_usd_per_hour,
    back_off_s,
    carried,
    compiled,
    lost,
    node_power_watts,
    oom_badness_mib,
    remote_share,
    sibling_traffic_mbps,
    stranded_cores,
)
from envs.batch_scraping import load_step, observe, publish, sample
from envs.dynamics.costs import (
    CROSS_ZONE,
    ENERGY,
    FAILURES,
    FRAGMENTATION,
    IMBALANCE,
    JOULES_PER_KWH,
    KILLS,
    LATENCY,
    MBIT_PER_GB,
    MONEY,
    NETWORK_LOSS,
    PENDING,
    SECONDS_PER_HOUR,
    THROTTLING,
)
from envs.dynamics.world import QUEUE_LIMIT


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
    if L.pod_credit.shape[1] > 0 and L.count[c, COUNT.ticks] % EVERY_TICKS == 0:
        credit(L, T, c, t, EVERY_TICKS * tick_s)


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
            pod = L.running[c, slot]
            L.pod_state[c, pod, POD_STATE.kills] += 1
            requeue(L, T, c, t, slot, back_off_s(L.pod_state[c, pod, POD_STATE.kills]))
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
def requeue(L, T, c, t, slot, away_s):
    pod = L.running[c, slot]
    L.pod_left_s[c, pod] = max(L.run_ends_at_s[c, slot] - L.clock_s[c], 0.0)
    leave(L, T, c, t, slot)
    queue(L, c, pod, away_s)


@compiled
def queue(L, c, pod, away_s):
    if L.count[c, COUNT.waiting] >= QUEUE_LIMIT:
        L.terms[c, FAILURES] += 1
        return
    L.waiting[c, L.count[c, COUNT.waiting]] = pod
    L.waiting_since_s[c, L.count[c, COUNT.waiting]] = L.clock_s[c] + away_s
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
            requeue(L, T, c, t, slot, 0.0)
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
            leave(L, T, c, t, slot)
        else:
            keep(L, c, slot, kept)
            kept += 1
    L.count[c, COUNT.running] = kept


@compiled
def arrive(L, T, c, t):
    pod = L.count[c, COUNT.arrived]
    while pod < T.pod.shape[1] and T.pod[t, pod, TAPE_POD.arrival_s] <= L.clock_s[c]:
        L.pod_left_s[c, pod] = T.pod[t, pod, TAPE_POD.duration_s]  # the tape may have been exchanged
        queue(L, c, pod, 0.0)
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

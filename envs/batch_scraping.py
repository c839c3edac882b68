"""World's and Knowledge's scraping, compiled: what is observed, sampled and published (see batch_kernels)."""

from __future__ import annotations

import numpy as np

from envs.batch_arrays import COUNT, NODE, RINGS, RULE, RUN, RUN_AT, TAPE_APP, TAPE_NODE, TAPE_POD
from envs.batch_rules import (
    carried,
    carried_ratio,
    compiled,
    connections,
    counter_rate,
    in_window,
    sibling_traffic_mbps,
    smoothed,
)
from envs.dynamics.knowledge import CPU_RATIO, MEMORY_RATIO, OBSERVED, RX, TX
from envs.workloads.tape import RING


@compiled
def load_step(L, T, c, t):
    return min(int(L.clock_s[c] / T.rule[t, RULE.load_step_s]), T.app_load.shape[1] - 1)


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

"""Knowledge's state and demand, compiled, as far as they are not plain columns (see batch_kernels)."""

from __future__ import annotations

import numpy as np

from envs.batch_arrays import (
    COUNT,
    DEMAND,
    LEFT,
    LEFT_S,
    NODE,
    POD_STATE,
    RULE,
    RUN_MORE,
    TAPE_APP,
    TAPE_NODE,
    TAPE_POD,
)
from envs.batch_rules import compiled, pending_weight
from envs.dynamics.knowledge import ANNOTATION, CLUSTER, CPU_RATIO, MEMORY_RATIO, NONE, RX, SIBLINGS, TX


@compiled
def describe(L, T, c, t, assumes):
    """Knowledge.state and Knowledge.demand, as far as they are not plain columns."""
    for node in range(L.count[c, COUNT.nodes]):
        L.node[c, NODE.age_s, node] = L.clock_s[c] - L.node[c, NODE.sampled_at_s, node]
    L.node[c, NODE.pending_cpu : NODE.pending_pods + 1] = 0.0
    if assumes:
        oldest_s = L.clock_s[c] - pending_horizon_s(T, t)
        add_placed(L, T, c, t, oldest_s)
        take_left(L, T, c, t, oldest_s)
    if L.count[c, COUNT.done]:
        describe_nothing(L, c)
    else:
        describe_demand(L, T, c, t, L.waiting[c, L.count[c, COUNT.offered]])
    L.demand[c, DEMAND.queue] = queue_length(L, c)


@compiled
def queue_length(L, c):
    """World.queue_length"""
    seen, decided = 0, -1 if L.count[c, COUNT.done] else L.count[c, COUNT.offered]
    for index in range(L.count[c, COUNT.waiting]):
        seen += index == decided or L.waiting_since_s[c, index] < L.clock_s[c]
    return seen


@compiled
def pending_horizon_s(T, t):
    rule = T.rule[t]
    return rule[RULE.rate_window_s] + rule[RULE.scrape_delay_s] + 2 * rule[RULE.scrape_interval_s]


@compiled
def add_placed(L, T, c, t, oldest_s):
    pending, window_s = L.node[c, NODE.pending_cpu : NODE.pending_pods + 1], T.rule[t, RULE.rate_window_s]
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
def take_left(L, T, c, t, oldest_s):
    forget_left(L, c, oldest_s)
    pending, window_s = L.node[c, NODE.pending_cpu : NODE.pending_pods + 1], T.rule[t, RULE.rate_window_s]
    for index in range(L.count[c, COUNT.left]):
        pod, node = L.left[c, index, LEFT.pod], L.left[c, index, LEFT.node]
        came = pending_weight(
            np.float64(L.left_s[c, index, LEFT_S.bound_at]), L.node[c, NODE.sampled_at_s, node], window_s
        )
        went = pending_weight(
            np.float64(L.left_s[c, index, LEFT_S.left_at]), L.node[c, NODE.sampled_at_s, node], window_s
        )
        shown = went - came
        if came < 1.0 and went >= 1.0:
            memory = np.float64(T.pod[t, pod, TAPE_POD.memory_request_mib])
            pending[1, node] -= memory * expected(L, T, c, t, pod, MEMORY_RATIO, 0.0)
        if shown > 0.0:
            cpu = np.float64(T.pod[t, pod, TAPE_POD.cpu_request_millicores])
            pending[0, node] -= shown * cpu * expected(L, T, c, t, pod, CPU_RATIO, 0.0)
            pending[2, node] -= shown * expected(L, T, c, t, pod, RX, 0.0)
            pending[3, node] -= shown * expected(L, T, c, t, pod, TX, 0.0)
    for node in range(L.count[c, COUNT.nodes]):
        not_below(pending[0], L.node[c, NODE.known_cpu], node)
        not_below(pending[1], L.node[c, NODE.known_memory], node)
        not_below(pending[2], L.node[c, NODE.known_rx], node)
        not_below(pending[3], L.node[c, NODE.known_tx], node)


@compiled
def not_below(pending, measured, node):
    """What was carried cannot become less than 0."""
    least = -measured[node] if measured[node] == measured[node] else 0.0
    pending[node] = max(pending[node], least)


@compiled
def forget_left(L, c, oldest_s):
    gone, count = 0, L.count[c, COUNT.left]
    while gone < count and L.left_s[c, gone, LEFT_S.left_at] < oldest_s:
        gone += 1
    if gone == 0:
        return
    for index in range(gone, count):
        for column in range(L.left.shape[2]):
            L.left[c, index - gone, column] = L.left[c, index, column]
        for column in range(L.left_s.shape[2]):
            L.left_s[c, index - gone, column] = L.left_s[c, index, column]
    L.count[c, COUNT.left] = count - gone


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

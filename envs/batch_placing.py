"""World's decisions, compiled: who accepts a pod, where it goes, what the sidecar believes (see batch_kernels)."""

from __future__ import annotations

import numpy as np

from agent.gpu import NO_FIT
from envs.batch_arrays import (
    COUNT,
    DEMAND,
    LEFT,
    LEFT_S,
    NODE,
    POD_STATE,
    RULE,
    RUN,
    RUN_AT,
    RUN_MORE,
    TAPE_NODE,
    TAPE_POD,
    UNKNOWN,
    UNSEEN,
    UNSEEN_LIMIT,
)
from envs.batch_rules import (
    candidates_wanted,
    choose_gpus,
    compiled,
    cpu_demand_millicores,
    first_node,
    fits,
    latency_allows,
    memory_use_mib,
    take_gpus,
)
from envs.dynamics.knowledge import OBSERVED


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
def to_place(L, T, c, t):
    """Whether the pod that is offered has not to stay away any more, and has a candidate."""
    offered = L.count[c, COUNT.offered]
    if L.waiting_since_s[c, offered] > L.clock_s[c]:
        return False
    return feasible(L, T, c, t, L.waiting[c, offered]) > 0


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
def leave(L, T, c, t, slot):
    """The pod goes: the sidecar remembers when it came and went as long as the metrics may show it."""
    pod = L.running[c, slot]
    node = L.pod_state[c, pod, POD_STATE.known_node]
    last = L.count[c, COUNT.left]
    if node >= 0 and last < L.left.shape[1]:
        L.left[c, last, LEFT.pod], L.left[c, last, LEFT.node] = pod, node
        L.left_s[c, last, LEFT_S.bound_at] = L.run_more[c, slot, RUN_MORE.bound_at_s]
        L.left_s[c, last, LEFT_S.left_at] = L.clock_s[c]
        L.count[c, COUNT.left] += 1
    release(L, T, c, t, pod)


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

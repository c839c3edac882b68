"""``envs.dynamics.world`` compiled: the same rules, the same order, thousands of clusters.

The parts are batch_placing, batch_ticking, batch_scraping, batch_describing and batch_encode; every function there
has its namesake in World, Knowledge or agent.features: read those first. ``L`` are the live arrays, ``T`` the stack of
tapes, ``c`` the cluster, ``t`` its tape. A property test keeps the two simulators equal step by step.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from agent.cluster import GPU_MILLI, GPUS_PER_NODE
from envs import (
    batch_credit,
    batch_describing,
    batch_encode,
    batch_latency,
    batch_placing,
    batch_rules,
    batch_scraping,
    batch_ticking,
)
from envs.batch_arrays import COUNT, TAPE_NODE, TAPE_POD
from envs.batch_describing import describe
from envs.batch_encode import encode_cluster
from envs.batch_placing import accepts, decide, place, show, to_place
from envs.batch_rules import compiled, first_node
from envs.batch_ticking import advance, maintain
from envs.dynamics.world import LONG_AGO_S
from envs.kernel_cache import digest

BEGIN = -2  # an action that starts the cluster anew
LOOK = -3  # an action that changes nothing


@compiled
def until_decision(L, T, c, t):
    while not L.count[c, COUNT.done]:
        while L.count[c, COUNT.offered] < L.count[c, COUNT.waiting]:
            if to_place(L, T, c, t):
                return
            L.count[c, COUNT.offered] += 1
        advance(L, T, c, t)


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


PARTS = (
    batch_credit,
    batch_describing,
    batch_encode,
    batch_latency,
    batch_placing,
    batch_rules,
    batch_scraping,
    batch_ticking,
)
run_clusters = entry_point(digest(globals(), *(vars(part) for part in PARTS)))

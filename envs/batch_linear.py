"""Whole episodes of linear scorers inside one compiled call: what tuning weights and rolling futures out need.

``play_linear`` does what ``training.play.play`` does with a LinearScorer: features, score, the best candidate, the
decision, on to the next one. A node whose metrics are missing is taken only if all are (the sidecar holds it at the
median, so it is never best there either), and equal nodes take turns.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from agent.cluster import FloatArray, IntArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES
from envs import batch_kernels
from envs.batch_arrays import COUNT
from envs.batch_describing import describe
from envs.batch_encode import F, encode_cluster, room
from envs.batch_env import BatchEnv
from envs.batch_placing import decide, to_place
from envs.batch_rules import compiled
from envs.batch_ticking import advance
from envs.kernel_cache import digest

BY_WEIGHTS = -1  # a first action that leaves also the first choice to the weights
CHUNK = 32  # clusters that a thread takes at most at a time: whole episodes, so a few are work enough
TURN = 40503  # equal nodes take turns: a multiplicative hash of the pod says who is first


@compiled
def rated(row, weights):
    total = 0.0
    for feature in range(row.shape[0]):
        total += weights[feature] * row[feature]
    return total


@compiled
def preferred(L, c, nodes, weights):
    """The best candidate; one without metrics only if there is no other."""
    count = L.count[c, COUNT.nodes]
    node = (L.waiting[c, L.count[c, COUNT.offered]] * TURN) % 65521 % count
    chosen, highest, blind = -1, -np.inf, -1
    for _ in range(count):
        if L.mask[c, node]:
            if nodes[node, F.metric_missing] > 0:
                blind = node
            else:
                value = rated(nodes[node], weights)
                if value > highest:
                    chosen, highest = node, value
        node += 1
        if node == count:
            node = 0
    return chosen if chosen >= 0 else blind


@compiled
def until_decision_before(L, T, c, t, until_s):
    """batch_kernels.until_decision, but no further than this; says whether a pod is there to be placed."""
    while not L.count[c, COUNT.done] and L.clock_s[c] < until_s:
        while L.count[c, COUNT.offered] < L.count[c, COUNT.waiting]:
            if to_place(L, T, c, t):
                return True
            L.count[c, COUNT.offered] += 1
        advance(L, T, c, t)
    return False


@compiled
def play_cluster(L, T, c, action, weights, until_s, assumes, nodes, pod, means):
    t = L.count[c, COUNT.tape]
    while until_decision_before(L, T, c, t, until_s):
        describe(L, T, c, t, assumes)
        node = action
        if node < 0 or node >= L.count[c, COUNT.nodes] or not L.mask[c, node]:
            encode_cluster(L, T, c, t, nodes, pod, means)
            node = preferred(L, c, nodes, weights)
        action = BY_WEIGHTS
        decide(L, T, c, t, node, assumes)


def entry_point(sources):
    """Kept compiled on disk, with all it calls inside (see envs.kernel_cache)."""

    @njit(error_model="numpy", nogil=True, cache=True, _nrt=False)
    def play_clusters(L, T, first, last, actions, weights, which, until_s, assumes, nodes, pod, means):
        _ = sources
        for c in range(first, last):
            L.terms[c] = 0.0
            play_cluster(L, T, c, actions[c], weights[which[c]], until_s[c], assumes, nodes, pod, means)

    return play_clusters


play_clusters = entry_point(digest(globals(), vars(batch_kernels), *(vars(part) for part in batch_kernels.PARTS)))


def play_linear(
    env: BatchEnv,
    weights: FloatArray,
    which: IntArray | None = None,
    until_s: FloatArray | float = np.inf,
    actions: IntArray | None = None,
) -> FloatArray:
    """Play every cluster to its end, or until its clock reaches ``until_s``; the costs, (clusters, terms).

    ``weights`` is (policies, node features), ``which[c]`` the row that cluster ``c`` follows, ``actions[c]`` its first
    choice if it is a candidate. A cluster that was stopped may stand between two decisions: play it on, do not step it.
    """
    table = np.array(np.atleast_2d(weights), dtype=np.float64, order="C")
    rows = _per_cluster(env, 0 if which is None else which, np.int64, "which")
    if table.shape[1] != len(NODE_FEATURES):
        raise InputError(f"{table.shape[1]} weights: a linear scorer has one for each of {len(NODE_FEATURES)} features")
    if np.any((rows < 0) | (rows >= len(table))):
        raise InputError(f"which names a row outside the {len(table)} vectors of weights")
    begins = _per_cluster(env, BY_WEIGHTS if actions is None else actions, np.int64, "actions")
    ends_s = _per_cluster(env, until_s, np.float64, "until_s")
    zones = env.tapes.zone_rtt_ms.shape[1]
    size = max(min(CHUNK, env.clusters // (4 * env.threads)), 1)

    def part(first: int) -> None:
        nodes = np.zeros((env.node_slots, len(NODE_FEATURES)), dtype=np.float32)
        pod = np.zeros(len(POD_FEATURES), dtype=np.float32)
        last = min(first + size, env.clusters)
        play_clusters(
            env.live, env.tapes, first, last, begins, table, rows, ends_s, env.assume, nodes, pod, room(zones)
        )

    with ThreadPoolExecutor(env.threads) as pool:
        list(pool.map(part, range(0, env.clusters, size)))
    return env.live.terms


def _per_cluster(env: BatchEnv, values: FloatArray | IntArray | float, dtype: type, name: str) -> NDArray[Any]:
    if np.ndim(values) and np.shape(values) != (env.clusters,):
        raise InputError(f"{name} has the shape {np.shape(values)}: give one for each of {env.clusters} clusters")
    filled: NDArray[Any] = np.empty(
        env.clusters, dtype=dtype
    )  # never a view that is read-only: numba would compile for it anew
    filled[:] = values
    return filled

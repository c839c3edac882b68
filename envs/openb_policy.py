"""The packing world of the published GPU experiments, played by a policy over features.

The lists have requests only, so a policy sees the cluster as it would without any metrics: usage and traffic are this
pod's requests at most, prices, power, latencies and siblings are unknown, and a node takes up to 110 pods in
``pods_ratio`` (no limit is enforced, as in the published runs). The columns come from the same compiled code that
``envs.batch_encode`` runs on the simulated clusters; a test compares them with ``agent.features.encode``.

A policy whose score of a node depends on that node and the pod's requests alone is fast here: scores are kept for every
kind of pod and node, only nodes that took a pod since then are scored again, and of equal nodes without a pod only the
first is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from agent.cluster import (
    DEMAND_SOURCES,
    GPU_MILLI,
    GPUS_PER_NODE,
    BoolArray,
    ClusterState,
    Demand,
    FloatArray,
    IntArray,
)
from agent.features import POD_COLUMN, POD_FEATURES, FeatureArray
from envs import batch_encode, batch_rules, packing
from envs.batch_arrays import DEMAND, NODE, TAPE_NODE
from envs.batch_encode import F, encode_requests, encode_siblings, encode_spec, encode_use, room
from envs.batch_rules import choose_gpus, take_gpus
from envs.kernel_cache import digest
from envs.packing import UNPLACED, PackingNodes, PodKinds, World, empty_world, fits

PODS_PER_NODE = 110.0
NO_WEIGHT = ("size",)  # relative to the candidates of the moment: a kept score could not follow it
STATIC_POD_FEATURES = ("gpu_request", "gpu_share")  # of the pod alone: all that a kept score may depend on
UNCLIPPED = np.array([[-np.inf], [np.inf]]) * np.ones(len(F))

Rate = Callable[[FeatureArray, FeatureArray], FloatArray]  # rows of nodes, and of one pod, to scores


class Live(NamedTuple):
    """The arrays of ``envs.batch_arrays.Live`` that the encoder reads, for one cluster."""

    node: FloatArray  # (1, NODE, nodes)
    demand: FloatArray  # (1, DEMAND)
    known_gpu_free_milli: FloatArray  # (1, nodes, GPUs): the packing world's own


class Spec(NamedTuple):
    """The arrays of ``envs.batch_arrays.Tapes`` that the encoder reads, for one cluster."""

    node: FloatArray  # (1, TAPE_NODE, nodes)
    zone_rtt_ms: FloatArray  # (1, 1, 1)


def views(nodes: PackingNodes, world: World) -> tuple[Live, Spec]:
    """An empty world as the encoder reads it."""
    count = len(nodes.gpus)
    live = Live(np.zeros((1, len(NODE), count)), np.zeros((1, len(DEMAND))), world.gpu_free[None])
    live.node[0, NODE.age_s] = np.inf
    live.demand[0, [DEMAND.sibling_mbps, DEMAND.soft_ms, DEMAND.hard_ms]] = np.nan
    live.demand[0, DEMAND.source] = DEMAND_SOURCES.index("none")
    spec = Spec(np.zeros((1, len(TAPE_NODE), count)), np.zeros((1, 1, 1)))
    spec.node[0, TAPE_NODE.cpu_millicores] = nodes.cpu_millicores
    spec.node[0, TAPE_NODE.memory_mib] = nodes.memory_mib
    spec.node[0, TAPE_NODE.pods] = PODS_PER_NODE
    spec.node[0, TAPE_NODE.gpus] = nodes.gpus
    return live, spec


@njit(error_model="numpy")
def ask(world: World, live: Live, kind: int) -> None:
    """Without any source a pod is expected to use its requests and no network."""
    demand = live.demand[0]
    demand[DEMAND.cpu] = demand[DEMAND.expected_cpu] = world.cpu[kind]
    demand[DEMAND.memory] = demand[DEMAND.expected_memory] = world.memory[kind]
    demand[DEMAND.gpus], demand[DEMAND.gpu_milli] = world.gpus[kind], world.gpu_milli[kind]


@njit(error_model="numpy")
def encode_node(live: Live, spec: Spec, node: int, means: FloatArray, row: FeatureArray) -> None:
    """One row; ``size`` is as if this were the largest candidate."""
    cpu = spec.node[0, TAPE_NODE.cpu_millicores, node]
    per_cpu, per_memory = 1.0 / cpu, 1.0 / spec.node[0, TAPE_NODE.memory_mib, node]
    row[F.nic_unknown] = 1.0
    encode_requests(live, spec, 0, 0, node, per_cpu, per_memory, row)
    encode_use(live, spec, 0, 0, node, means, per_cpu, per_memory, 0.0, row)
    encode_siblings(live, spec, 0, 0, node, 0.0, 0.0, means, row)
    encode_spec(spec, 0, node, np.nan, 1e-9, 1e-9, cpu, row)


@njit(error_model="numpy")
def place(world: World, live: Live, kind: int, node: int) -> None:
    gpu_free, gpu_milli = world.gpu_free[node], world.gpu_milli[kind]
    take_gpus(gpu_free, choose_gpus(gpu_free, world.gpus[kind], gpu_milli), gpu_milli)
    world.cpu_free[node] -= world.cpu[kind]
    world.memory_free[node] -= world.memory[kind]
    live.node[0, NODE.known_cpu_requested, node] += world.cpu[kind]
    live.node[0, NODE.known_memory_requested, node] += world.memory[kind]
    live.node[0, NODE.known_pods, node] += 1.0


@njit(error_model="numpy")
def score_of(world, live, spec, kind, node, weights, clip, columns, means, row):
    if not fits(world, kind, node):
        return -np.inf
    encode_node(live, spec, node, means, row)
    total, if_empty = 0.0, 0.0
    for column in columns:
        value = min(max(row[column], clip[0, column]), clip[1, column])
        total += weights[0, kind, column] * value
        if_empty += weights[1, kind, column] * value
    return np.floor(total + row[F.empty] * if_empty)


@njit(error_model="numpy")
def first_untouched(untouched, shape):
    """The first node of each shape that has no pod yet; -1 if there is none."""
    first = np.full(shape.max() + 1, -1)
    for node in range(shape.shape[0] - 1, -1, -1):
        if untouched[node]:
            first[shape[node]] = node
    return first


# Kept compiled on disk, with all they call inside (see envs.kernel_cache).
_SOURCES = digest(globals(), vars(batch_encode), vars(batch_rules), vars(packing))


def _packing(sources):
    @njit(error_model="numpy", cache=True)
    def pack_by_weights(world, live, spec, shape, arrivals, weights, clip, columns, means):
        _ = sources
        nodes = world.model.shape[0]
        scores = np.full((world.cpu.shape[0], nodes), -np.inf)
        scored = np.full(scores.shape, -1)  # how many pods were placed when the score was taken
        changed = np.zeros(nodes, dtype=np.int64)  # how many when the node took its last pod
        row = np.zeros(len(F), dtype=np.float32)
        chosen = np.full_like(arrivals, UNPLACED)
        untouched = np.ones(nodes, dtype=np.bool_)
        first = first_untouched(untouched, shape)
        placed = 0
        for i in range(arrivals.shape[0]):
            kind = arrivals[i]
            ask(world, live, kind)
            highest = -np.inf
            for node in range(nodes):
                if untouched[node] and first[shape[node]] != node:
                    continue  # equal to one before it, which would be taken
                if scored[kind, node] < changed[node]:
                    scored[kind, node] = changed[node]
                    scores[kind, node] = score_of(world, live, spec, kind, node, weights, clip, columns, means, row)
                if scores[kind, node] > highest:
                    highest, chosen[i] = scores[kind, node], node
            if chosen[i] != UNPLACED:
                place(world, live, kind, chosen[i])
                placed += 1
                changed[chosen[i]] = placed
                if untouched[chosen[i]]:
                    untouched[chosen[i]] = False
                    first = first_untouched(untouched, shape)
        return chosen

    return pack_by_weights


def _refreshing(sources):
    @njit(error_model="numpy", cache=True)
    def refresh(world, live, spec, kind, scores, stale, means, rows, at):
        """Rows of the nodes whose score of this kind is stale and that fit it; how many, and which in ``at``."""
        _ = sources
        ask(world, live, kind)
        count = 0
        for node in range(stale.shape[0]):
            if stale[node]:
                scores[node] = -np.inf
                if fits(world, kind, node):
                    encode_node(live, spec, node, means, rows[count])
                    at[count] = node
                    count += 1
        return count

    return refresh


pack_by_weights = _packing(_SOURCES)
refresh = _refreshing(_SOURCES)


def pack_weighted(
    nodes: PackingNodes, kinds: PodKinds, arrivals: IntArray, weights: FloatArray, clip: FloatArray = UNCLIPPED
) -> IntArray:
    """The node of each arriving pod: the highest sum of weight x feature, rounded down; of equal nodes the first.

    ``weights`` is (2, kinds, node features): those of every node, and what is added to them on an empty one.
    ``clip`` is (2, node features): the least and the greatest value that a feature counts with.
    """
    world = empty_world(nodes, kinds)
    live, spec = views(nodes, world)
    columns = np.flatnonzero((weights != 0).any(axis=(0, 1)))
    sizes = np.stack([nodes.cpu_millicores, nodes.memory_mib, nodes.gpus, nodes.model.astype(np.float64)])
    shape = np.unique(sizes, axis=1, return_inverse=True)[1].ravel()
    chosen: IntArray = pack_by_weights(world, live, spec, shape, arrivals, weights, clip, columns, room(1))
    return chosen


def pack_rated(nodes: PackingNodes, kinds: PodKinds, arrivals: IntArray, rate: Rate) -> IntArray:
    """The same for any scorer that asks no more than ``NO_WEIGHT`` and ``STATIC_POD_FEATURES`` allow."""
    world = empty_world(nodes, kinds)
    live, spec = views(nodes, world)
    count, pods = len(nodes.gpus), static_pods(kinds)
    scores = np.full((len(kinds.gpus), count), -np.inf)
    stale = np.ones(scores.shape, dtype=np.bool_)
    rows, at = np.zeros((count, len(F)), dtype=np.float32), np.zeros(count, dtype=np.int64)
    chosen, means = np.full_like(arrivals, UNPLACED), room(1)
    for arrival, kind in enumerate(arrivals.tolist()):
        fresh = refresh(world, live, spec, kind, scores[kind], stale[kind], means, rows, at)
        if fresh:
            scores[kind, at[:fresh]] = rate(rows[:fresh], pods[kind])
        stale[kind] = False
        node = int(np.argmax(scores[kind]))
        if scores[kind, node] > -np.inf:
            chosen[arrival] = node
            place(world, live, kind, node)
            stale[:, node] = True
    return chosen


def static_pods(kinds: PodKinds) -> FeatureArray:
    """The pod's features that no other node or pod changes, (kinds, pod features); the others are 0."""
    pods = np.zeros((len(kinds.gpus), len(POD_FEATURES)), dtype=np.float32)
    pods[:, POD_COLUMN["gpu_request"]] = kinds.gpu_request_milli / (GPU_MILLI * GPUS_PER_NODE)
    pods[:, POD_COLUMN["gpu_share"]] = np.where(kinds.gpus > 0, kinds.gpu_milli / GPU_MILLI, 0.0)
    return pods


def as_seen(nodes: PackingNodes, world: World, live: Live, kind: int) -> tuple[ClusterState, Demand, BoolArray]:
    """The world as the sidecar would describe it to a scorer, and the nodes that fit this kind of pod."""
    count = len(nodes.gpus)
    unknown, nothing = np.full(count, np.nan), np.zeros(count)
    known = live.node[0]
    state = ClusterState(
        cpu_allocatable_millicores=nodes.cpu_millicores,
        memory_allocatable_mib=nodes.memory_mib,
        pods_allocatable=np.full(count, PODS_PER_NODE),
        gpu_count=nodes.gpus,
        zone=np.zeros(count, dtype=np.int64),
        schedulable=np.ones(count, dtype=np.bool_),
        cpu_requested_millicores=known[NODE.known_cpu_requested].copy(),
        memory_requested_mib=known[NODE.known_memory_requested].copy(),
        pods_running=known[NODE.known_pods].copy(),
        gpu_free_milli=world.gpu_free.copy(),
        zone_rtt_ms=np.zeros((1, 1)),
        **dict.fromkeys(("nic_mbps", "user_latency_ms", "price_usd_per_hour"), unknown),
        **dict.fromkeys(("power_idle_watts", "power_peak_watts"), unknown),
        **dict.fromkeys(("cpu_used_millicores", "cpu_std_millicores", "memory_used_mib"), unknown),
        **dict.fromkeys(("rx_mbps", "tx_mbps", "connections"), unknown),
        **dict.fromkeys(("cpu_age_s", "memory_age_s", "network_age_s"), np.full(count, np.inf)),
        **dict.fromkeys(("pending_cpu_millicores", "pending_memory_mib", "pending_pods"), nothing),
        **dict.fromkeys(("pending_rx_mbps", "pending_tx_mbps"), nothing),
    )
    demand = Demand(
        cpu_request_millicores=world.cpu[kind],
        memory_request_mib=world.memory[kind],
        gpus=world.gpus[kind],
        gpu_milli=world.gpu_milli[kind],
        expected_cpu_millicores=world.cpu[kind],
        expected_memory_mib=world.memory[kind],
        demand_source=np.asarray(DEMAND_SOURCES.index("none")),
        queue_length=np.asarray(1.0),
        **dict.fromkeys(("expected_rx_mbps", "expected_tx_mbps", "siblings"), np.asarray(0.0)),
        **dict.fromkeys(("sibling_mbps", "latency_soft_ms", "latency_hard_ms"), np.asarray(np.nan)),
        **dict.fromkeys(("siblings_on_node", "siblings_in_zone", "sibling_rtt_ms"), nothing),
    )
    fitting = np.array([fits(world, kind, node) for node in range(count)], dtype=np.bool_)
    return state, demand, fitting

"""Static packing of GPU pods, fast: pods arrive one by one, take a place or fail, and never leave.

This is the world of the published FGD experiments: requests only, no usage, traffic or time. The formulas are those
of ``agent``, compiled; a test holds the two together.

It is fast because little changes from pod to pod: the scores of every kind of pod on every node are kept, and when
the next pod of a kind arrives only the nodes that took a pod since then are scored again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, BoolArray, FloatArray, IntArray
from agent.errors import InputError
from agent.gpu import choose_gpus, take_gpus
from agent.heuristics.best_fit import best_fit_score
from agent.heuristics.dot_product import dot_product_score
from agent.heuristics.fgd import TypicalPods, fgd_score, fragment_milli

UNPLACED = -1
FIRST_FIT, RANDOM, BEST_FIT, DOT_PRODUCT, FGD = range(5)
POLICIES = {
    "first_fit": FIRST_FIT, "random": RANDOM, "best_fit": BEST_FIT, "dot_product": DOT_PRODUCT, "fgd": FGD
}  # fmt: skip

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    """Not cached on disk: numba would not notice a change of a formula that lives in another file."""
    return cast(_Function, numba.njit(function))


_choose_gpus = _compiled(choose_gpus)
_take_gpus = _compiled(take_gpus)
_best_fit_score = _compiled(best_fit_score)
_dot_product_score = _compiled(dot_product_score)
_fgd_score = _compiled(fgd_score)
_fragment_milli = _compiled(fragment_milli)


@dataclass(frozen=True, slots=True)
class PackingNodes:
    """Empty nodes, ``(nodes,)`` each, in the order in which equals are preferred."""

    cpu_millicores: FloatArray
    memory_mib: FloatArray
    gpus: FloatArray
    model: IntArray  # of the node's GPUs, an index

    def take(self, order: IntArray) -> PackingNodes:
        return PackingNodes(self.cpu_millicores[order], self.memory_mib[order], self.gpus[order], self.model[order])


@dataclass(frozen=True, slots=True)
class PodKinds:
    """The distinct requests of a workload, ``(kinds,)`` each, and which of them are typical."""

    cpu_millicores: FloatArray
    memory_mib: FloatArray
    gpus: FloatArray
    gpu_milli: FloatArray
    allowed: BoolArray  # (kinds, models)
    typical: TypicalPods

    @property
    def gpu_request_milli(self) -> FloatArray:
        return self.gpus * self.gpu_milli


class World(NamedTuple):
    """Everything the compiled code reads and changes: a tuple of arrays, because numba takes no dataclass."""

    cpu_free: FloatArray  # (nodes,)
    memory_free: FloatArray
    gpu_free: FloatArray  # (nodes, GPUS_PER_NODE)
    fragment: FloatArray
    model: IntArray
    cpu: FloatArray  # (kinds,)
    memory: FloatArray
    gpus: FloatArray
    gpu_milli: FloatArray
    allowed: BoolArray
    typical_cpu: FloatArray  # (typical kinds,)
    typical_gpus: FloatArray
    typical_milli: FloatArray
    typical_share: FloatArray
    typical_allowed: BoolArray


def pack(
    nodes: PackingNodes, kinds: PodKinds, arrivals: IntArray, policy: str, random: np.random.Generator
) -> IntArray:
    """The node of each arriving pod, ``UNPLACED`` where none fits. Of equal nodes the first is taken."""
    if policy not in POLICIES:
        raise InputError(f"unknown packing policy {policy!r}: choose one of {', '.join(POLICIES)}")
    return _pack(empty_world(nodes, kinds), arrivals, POLICIES[policy], random)


def empty_world(nodes: PackingNodes, kinds: PodKinds) -> World:
    typical = kinds.typical
    gpu_free = np.where(np.arange(GPUS_PER_NODE) < nodes.gpus[:, None], float(GPU_MILLI), 0.0)
    world = World(
        nodes.cpu_millicores.copy(), nodes.memory_mib.copy(), gpu_free, np.zeros(len(gpu_free)), nodes.model,
        kinds.cpu_millicores, kinds.memory_mib, kinds.gpus, kinds.gpu_milli, kinds.allowed,
        typical.cpu_millicores, typical.gpus, typical.gpu_milli, typical.share, kinds.allowed[typical.source],
    )  # fmt: skip
    for node in range(len(gpu_free)):
        world.fragment[node] = fragment_of(world, node, world.cpu_free[node])
    return world


@_compiled
def fits(world: World, kind: int, node: int) -> bool:
    """Memory counts here, though no policy scores it."""
    if world.cpu[kind] > world.cpu_free[node] or world.memory[kind] > world.memory_free[node]:
        return False
    if world.gpus[kind] == 0:
        return True
    allowed = world.allowed[kind, world.model[node]]
    return bool(allowed and _choose_gpus(world.gpu_free[node], world.gpus[kind], world.gpu_milli[kind]) > 0)


@_compiled
def fragment_of(world: World, node: int, cpu_free: float) -> float:
    """Free GPU of the node that is useless to the mean typical pod, if ``cpu_free`` is left."""
    gpu_free, model = world.gpu_free[node], world.model[node]
    free_milli = gpu_free.sum()
    fragment = 0.0
    for kind in range(world.typical_share.shape[0]):
        fitting, unfit_milli = 0, 0.0
        for slot in range(gpu_free.shape[0]):
            if gpu_free[slot] >= world.typical_milli[kind]:
                fitting += 1
            else:
                unfit_milli += gpu_free[slot]
        if not world.typical_allowed[kind, model]:
            unfit_milli = free_milli
        pod_cpu, pod_gpus = world.typical_cpu[kind], world.typical_gpus[kind]
        useless = _fragment_milli(free_milli, unfit_milli, fitting, cpu_free, pod_cpu, pod_gpus)
        fragment += world.typical_share[kind] * useless
    return fragment


@_compiled
def fgd_score_of(world: World, kind: int, node: int, devices: int) -> float:
    """Score if the pod took these devices: they are taken, looked at, and given back."""
    gpu_free, gpu_milli = world.gpu_free[node], world.gpu_milli[kind]
    _take_gpus(gpu_free, devices, gpu_milli)
    after = fragment_of(world, node, world.cpu_free[node] - world.cpu[kind])
    _take_gpus(gpu_free, devices, -gpu_milli)
    return float(_fgd_score(world.fragment[node], after))


@_compiled
def fgd_choice(world: World, kind: int, node: int) -> tuple[float, int]:
    """The best score that the node offers, and the devices that give it."""
    gpu_free, gpu_milli = world.gpu_free[node], world.gpu_milli[kind]
    if world.gpus[kind] != 1:
        devices = _choose_gpus(gpu_free, world.gpus[kind], gpu_milli)
        return fgd_score_of(world, kind, node, devices), devices
    best, chosen = -np.inf, 0
    for slot in range(gpu_free.shape[0]):
        if gpu_free[slot] >= gpu_milli and gpu_free[slot] not in gpu_free[:slot]:  # equal devices score the same
            score = fgd_score_of(world, kind, node, 1 << slot)
            if score > best:
                best, chosen = score, 1 << slot
    return best, chosen


@_compiled
def score_of(world: World, kind: int, node: int, policy: int) -> float:
    """-inf where the pod does not fit; 0 elsewhere for the policies that compare nothing."""
    if not fits(world, kind, node):
        return -np.inf
    gpu_free, gpu_request = world.gpu_free[node].sum(), world.gpus[kind] * world.gpu_milli[kind]
    if policy == BEST_FIT:
        return float(_best_fit_score(world.cpu_free[node] - world.cpu[kind], gpu_free - gpu_request))
    if policy == DOT_PRODUCT:
        return float(_dot_product_score(world.cpu_free[node], gpu_free, world.cpu[kind], gpu_request))
    if policy == FGD:
        return fgd_choice(world, kind, node)[0]
    return 0.0


@_compiled
def _devices(world: World, kind: int, node: int, policy: int, random: np.random.Generator) -> int:
    """Which GPUs are taken is a part of the policy: FGD its own, random any, the others the best fit."""
    gpu_free, gpu_milli = world.gpu_free[node], world.gpu_milli[kind]
    if policy == FGD:
        return fgd_choice(world, kind, node)[1]
    if policy == RANDOM and world.gpus[kind] == 1:
        fitting = np.flatnonzero(gpu_free >= gpu_milli)
        return 1 << int(fitting[int(random.random() * fitting.shape[0])])
    return _choose_gpus(gpu_free, world.gpus[kind], gpu_milli)


@_compiled
def _place(world: World, kind: int, node: int, policy: int, random: np.random.Generator) -> None:
    _take_gpus(world.gpu_free[node], _devices(world, kind, node, policy, random), world.gpu_milli[kind])
    world.cpu_free[node] -= world.cpu[kind]
    world.memory_free[node] -= world.memory[kind]
    if policy == FGD:
        world.fragment[node] = fragment_of(world, node, world.cpu_free[node])


@_compiled
def _pick(scores: FloatArray, policy: int, random: np.random.Generator) -> int:
    """The first of the best; any that fits for the random policy."""
    if policy == RANDOM:
        fitting = np.flatnonzero(scores > -np.inf)
        return fitting[int(random.random() * fitting.shape[0])] if fitting.shape[0] else UNPLACED
    node = int(np.argmax(scores))
    return node if scores[node] > -np.inf else UNPLACED


@_compiled
def _pack(world: World, arrivals: IntArray, policy: int, random: np.random.Generator) -> IntArray:
    nodes = world.model.shape[0]
    scores = np.empty((world.cpu.shape[0], nodes))
    scored = np.full(scores.shape, -1)  # how many pods were placed when the score was taken
    changed = np.zeros(nodes, dtype=np.int64)  # how many when the node took its last pod
    chosen = np.empty_like(arrivals)
    placed = 0
    for i in range(arrivals.shape[0]):
        kind = arrivals[i]
        for node in range(nodes):
            if scored[kind, node] < changed[node]:
                scores[kind, node] = score_of(world, kind, node, policy)
                scored[kind, node] = changed[node]
        chosen[i] = _pick(scores[kind], policy, random)
        if chosen[i] != UNPLACED:
            _place(world, kind, chosen[i], policy, random)
            placed += 1
            changed[chosen[i]] = placed
    return chosen

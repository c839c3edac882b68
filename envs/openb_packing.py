"""The published FGD experiments (ATC '23) as a packing problem: which pods arrive, and what is read at the end.

A list is shuffled; then pods of it are drawn at random and appended until the GPU requests reach 130 % of the
capacity of the nodes (a longer list is thinned at random). Nodes are shuffled too, because of equal nodes the first
is taken. Nothing leaves. The result is the GPU left unallocated when the requests that arrived, placed or not, equal
the capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from agent.cluster import GPU_MILLI, FloatArray, IntArray
from agent.errors import InputError
from agent.heuristics.fgd import typical_pods
from envs.packing import UNPLACED, PackingNodes, PodKinds, pack
from envs.workloads.openb import OpenbNodes, OpenbPods, accepts

LOAD = 1.3  # GPU requests over capacity
READ_AT_PERCENT = 100.0
READ_WITHIN_PERCENT = 0.5  # the published value is the mean over arrivals that round to the percentage


@dataclass(frozen=True, slots=True)
class PackingProblem:
    nodes: PackingNodes
    kinds: PodKinds
    kind_of_pod: IntArray  # (pods of the list,)

    @property
    def capacity_milli(self) -> float:
        return float(self.nodes.gpus.sum() * GPU_MILLI)


class PublishedRun(NamedTuple):
    nodes: PackingNodes  # in their order
    arrivals: IntArray  # kinds of pods, until the result is read
    random: np.random.Generator  # luck of the policy


def packing_problem(nodes: OpenbNodes, pods: OpenbPods) -> PackingProblem:
    models, model_of_node = np.unique(nodes.model, return_inverse=True)
    accepted, group = np.unique(pods.gpu_models, return_inverse=True)
    requests = (pods.cpu_request_millicores, pods.memory_request_mib, pods.gpus, pods.gpu_milli)
    keys = np.stack((*requests, group), axis=-1)
    distinct, kind_of_pod, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    cpu, memory, gpus, gpu_milli, group_of_kind = (np.ascontiguousarray(column) for column in distinct.T)
    accepted_of_kind = accepted[group_of_kind.astype(np.int64)]
    allowed = np.array([[accepts(listed, model) for model in models] for listed in accepted_of_kind], dtype=np.bool_)
    typical = typical_pods(cpu, gpus, gpu_milli, count.astype(np.float64), group_of_kind.astype(np.int64))
    kinds = PodKinds(cpu, memory, gpus, gpu_milli, allowed, typical)
    packing_nodes = PackingNodes(nodes.cpu_millicores, nodes.memory_mib, nodes.gpus, model_of_node.astype(np.int64))
    return PackingProblem(packing_nodes, kinds, kind_of_pod.ravel())


def published_arrivals(problem: PackingProblem, random: np.random.Generator, load: float = LOAD) -> IntArray:
    """Kinds of pods in order of arrival."""
    wanted_milli = load * problem.capacity_milli
    shuffled = random.permutation(problem.kind_of_pod)
    request_milli = problem.kinds.gpu_request_milli
    missing_milli = wanted_milli - request_milli[shuffled].sum()
    if missing_milli < 0:
        return _thinned(shuffled, request_milli, wanted_milli, random)
    mean_milli = request_milli[shuffled].mean()
    if mean_milli == 0:
        raise InputError("no pod of the list asks for a GPU: there is nothing to pack")
    drawn = [shuffled]
    while missing_milli > 0:
        more = random.choice(problem.kind_of_pod, size=1 + int(missing_milli / mean_milli))
        drawn.append(more)
        missing_milli -= request_milli[more].sum()
    arrivals = np.concatenate(drawn)
    return arrivals[: 1 + int(np.searchsorted(np.cumsum(request_milli[arrivals]), wanted_milli))]


def _thinned(kinds: IntArray, request_milli: FloatArray, wanted_milli: float, random: np.random.Generator) -> IntArray:
    """Pods leave the list at random, the others keep their order, until the rest asks for no more than wanted."""
    leaving = random.permutation(len(kinds))
    rest_milli = request_milli[kinds].sum() - np.cumsum(request_milli[kinds[leaving]])
    staying = np.ones(len(kinds), dtype=np.bool_)
    staying[leaving[: 1 + int(np.argmax(rest_milli <= wanted_milli))]] = False
    return kinds[staying]


def unallocated_percent(problem: PackingProblem, policy: str, seed: int) -> float:
    """One published run. The same seed gives every policy the same arrivals and the same order of nodes."""
    nodes, arrivals, for_policy = published_run(problem, seed)
    return read_percent(problem, arrivals, pack(nodes, problem.kinds, arrivals, policy, for_policy))


def published_run(problem: PackingProblem, seed: int) -> PublishedRun:
    for_arrivals, for_nodes, for_policy = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    arrivals = published_arrivals(problem, for_arrivals)
    arrived_milli = np.cumsum(problem.kinds.gpu_request_milli[arrivals])
    last = np.searchsorted(arrived_milli, (READ_AT_PERCENT + READ_WITHIN_PERCENT) / 100.0 * problem.capacity_milli)
    arrivals = arrivals[: int(last) + 1]  # what comes later is not read
    nodes = problem.nodes.take(for_nodes.permutation(len(problem.nodes.gpus)))
    return PublishedRun(nodes, arrivals, for_policy)


def read_percent(problem: PackingProblem, arrivals: IntArray, chosen: IntArray) -> float:
    """GPU unallocated when the requests that arrived equal the capacity."""
    request_milli = problem.kinds.gpu_request_milli[arrivals]
    arrived_percent = 100.0 * np.cumsum(request_milli) / problem.capacity_milli
    allocated_percent = 100.0 * np.cumsum(request_milli * (chosen != UNPLACED)) / problem.capacity_milli
    distance = np.abs(arrived_percent - READ_AT_PERCENT)
    read = distance <= max(READ_WITHIN_PERCENT, distance.min())  # one pod may be more than a percent of a small cluster
    return float(100.0 - allocated_percent[read].mean())

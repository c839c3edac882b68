"""Fragmentation gradient descent: place a GPU pod where it makes the least free GPU useless to the others.

A free GPU is a fragment to a pod that cannot use it: its device has too little room, its node has too little CPU
or too few such devices, or the pod asks for no GPU. The fragment of a node is the mean over the pods that are
typical of the workload. Memory is not counted, as in the original.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, BoolArray, ClusterState, Demand, FloatArray, IntArray
from agent.gpu import choose_gpus_per_node
from agent.heuristics.best_fit import SCORE_LEVELS

TYPICAL_COVERAGE = 0.95  # published: the commonest requests that make up this share of the pods


@dataclass(frozen=True, slots=True)
class TypicalPods:
    """What the pods of a workload ask for, ``(kinds,)`` each; shares sum to 1."""

    cpu_millicores: FloatArray
    gpus: FloatArray
    gpu_milli: FloatArray
    share: FloatArray
    source: IntArray  # which of the requests counted it stands for: the way back to what is not kept here


def typical_pods(
    cpu_millicores: FloatArray,
    gpus: FloatArray,
    gpu_milli: FloatArray,
    pods: FloatArray,
    group: IntArray,
    coverage: float = TYPICAL_COVERAGE,
) -> TypicalPods:
    """The commonest requests, until they cover enough of the ``pods``; ``(requests,)`` each.

    ``group`` keeps requests apart that differ in something else, such as the GPU models they accept.
    """
    keys = np.stack((cpu_millicores, gpu_milli, gpus, group), axis=-1)
    _, first, member = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    count = np.bincount(member.ravel(), weights=pods)
    commonest = np.argsort(count, kind="stable")[::-1]
    covered = np.cumsum(count[commonest])
    kept = commonest[: int(np.searchsorted(covered, coverage * count.sum())) + 1]
    source = first[kept]
    share = count[kept] / count[kept].sum()
    return TypicalPods(cpu_millicores[source], gpus[source], gpu_milli[source], share, source)


def openb_mix() -> TypicalPods:
    """The commonest requests of a real GPU cluster, for where nobody counted the pods of the own one.

    From the default list of Alibaba's cluster-trace-gpu-v2023 (openb): 76 % of its pods, rounded to percents.
    """
    rows = np.array(
        [  # millicores, GPUs, milli of each, percent
            (3_152, 1, 810, 13), (11_300, 1, 1_000, 11), (11_400, 1, 1_000, 7), (3_152, 1, 1_000, 6),
            (11_908, 1, 470, 5), (12_500, 0, 0, 4), (8_000, 1, 470, 4), (12_000, 1, 1_000, 4),
            (32_000, 0, 0, 4), (18_708, 1, 1_000, 3), (11_908, 1, 650, 3), (4_000, 1, 320, 3),
            (9_810, 1, 1_000, 2), (8_000, 0, 0, 2), (8_000, 1, 1_000, 2), (4_000, 1, 1_000, 2),
        ],
        dtype=np.float64,
    )  # fmt: skip
    cpu_millicores, gpus, gpu_milli, pods = rows.T
    return typical_pods(cpu_millicores, gpus, gpu_milli, pods, np.zeros(len(rows), dtype=np.int64), coverage=1.0)


def fragment_milli(
    free_milli: Any, unfit_milli: Any, fitting: Any, cpu_free_millicores: Any, pod_cpu_millicores: Any, pod_gpus: Any
) -> Any:
    """Free GPU of a node that is useless to one typical pod; of numbers or arrays, and numba compiles it.

    ``fitting`` devices have room for what the pod asks of each, ``unfit_milli`` is free on the others.
    """
    usable = (pod_gpus > 0) & (fitting >= pod_gpus) & (cpu_free_millicores >= pod_cpu_millicores)
    return free_milli - usable * (free_milli - unfit_milli)


def mean_fragment_milli(
    typical: TypicalPods,
    cpu_free_millicores: FloatArray,
    gpu_free_milli: FloatArray,
    allowed: BoolArray | None = None,
) -> FloatArray:
    """Mean over the typical pods of the free GPU that each cannot use, ``(..., nodes)``."""
    free_milli = gpu_free_milli.sum(axis=-1)
    total: FloatArray = np.zeros_like(free_milli)
    for kind, pod_milli in enumerate(typical.gpu_milli):
        fits = gpu_free_milli >= pod_milli
        unfit_milli = free_milli - (gpu_free_milli * fits).sum(axis=-1)
        if allowed is not None:
            unfit_milli = np.where(allowed[kind], unfit_milli, free_milli)
        pod_cpu, pod_gpus = typical.cpu_millicores[kind], typical.gpus[kind]
        useless = fragment_milli(free_milli, unfit_milli, fits.sum(-1), cpu_free_millicores, pod_cpu, pod_gpus)
        total += typical.share[kind] * useless
    return total


def fgd_score(fragment_before_milli: Any, fragment_after_milli: Any) -> Any:
    """Score of a placement that changes the fragment of its node so; of numbers or arrays, and numba compiles it."""
    growth = (fragment_after_milli - fragment_before_milli) / GPU_MILLI
    return np.floor(SCORE_LEVELS / (1.0 + np.exp(growth)))


@dataclass(frozen=True, slots=True)
class Fgd:
    """From "Beware of Fragmentation" (Weng et al., ATC '23).

    Formula: 100 x sigmoid(fragment before - fragment after, in GPUs), rounded down. A pod that takes one GPU is
    tried on every device; one that takes several takes the free ones. The steps of 1 % matter: they make nodes equal
    that differ by little, and the first of the equals is filled before the next (docs/gpu.md).

    ``allowed``, ``(kinds, nodes)``: where each typical pod may run, for a fixed list of nodes; None: everywhere.
    """

    typical: TypicalPods = field(default_factory=openb_mix)
    allowed: BoolArray | None = None
    name: ClassVar[str] = "fgd"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        cpu_free_millicores = state.cpu_allocatable_millicores - state.cpu_requested_millicores
        before = self._fragment(cpu_free_millicores, state.gpu_free_milli)
        after = self._least_fragment_after(cpu_free_millicores, state.gpu_free_milli, demand)
        scores: FloatArray = fgd_score(before, after)
        return scores

    def _least_fragment_after(
        self, cpu_free_millicores: FloatArray, gpu_free_milli: FloatArray, demand: Demand
    ) -> FloatArray:
        cpu_left = cpu_free_millicores - demand.cpu_request_millicores[..., None]
        asked_milli = demand.gpu_milli[..., None, None]
        chosen = choose_gpus_per_node(gpu_free_milli, demand.gpus, demand.gpu_milli)
        after: FloatArray = self._fragment(cpu_left, gpu_free_milli - chosen * asked_milli)
        wants_one = demand.gpus == 1
        if not wants_one.any():
            return after
        each_alone = np.eye(GPUS_PER_NODE)[:, None, :] * asked_milli[..., None]  # (..., slots, 1, slots)
        on_each = self._fragment(cpu_left[..., None, :], gpu_free_milli[..., None, :, :] - each_alone)
        fits = np.swapaxes(gpu_free_milli >= asked_milli, -1, -2) & wants_one[..., None, None]  # (..., slots, nodes)
        least: FloatArray = np.minimum(after, np.where(fits, on_each, np.inf).min(axis=-2))
        return least

    def _fragment(self, cpu_free_millicores: FloatArray, gpu_free_milli: FloatArray) -> FloatArray:
        return mean_fragment_milli(self.typical, cpu_free_millicores, gpu_free_milli, self.allowed)

"""Dot product of request and free resources: a packing rule for several resources at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.best_fit import LARGEST_CPU_MILLICORES, LARGEST_GPU_MILLI, SCORE_LEVELS


def dot_product_score(
    cpu_free_millicores: Any, gpu_free_milli: Any, cpu_request_millicores: Any, gpu_request_milli: Any
) -> Any:
    """Score of a node with this much free; of numbers or arrays, and numba compiles it."""
    cpu = cpu_free_millicores / LARGEST_CPU_MILLICORES * (cpu_request_millicores / LARGEST_CPU_MILLICORES)
    gpu = gpu_free_milli / LARGEST_GPU_MILLI * (gpu_request_milli / LARGEST_GPU_MILLI)
    return np.floor((1.0 - 0.5 * (cpu + gpu)) * SCORE_LEVELS)


@dataclass(frozen=True, slots=True)
class DotProduct:
    """From Tetris (Grandl et al., SIGCOMM '14), as the simulator of "Beware of Fragmentation" (ATC '23) has it.

    Formula: 100 x (1 - mean over CPU and GPU of free x requested, both as a share of 128 cores and 8 GPUs), rounded
    down. All GPUs of a node count as one number.

    Differs from Tetris, as the ATC '23 baseline does: there the *largest* product wins, which spreads; here the
    smallest, which packs.
    """

    name: ClassVar[str] = "dot_product"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        scores: FloatArray = dot_product_score(
            state.cpu_allocatable_millicores - state.cpu_requested_millicores,
            state.gpu_free_milli.sum(axis=-1),
            demand.cpu_request_millicores[..., None],
            (demand.gpus * demand.gpu_milli)[..., None],
        )
        return scores

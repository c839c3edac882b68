"""Best fit for GPU clusters: fill what is nearly full, so that whole nodes stay free for large pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray

LARGEST_CPU_MILLICORES = 128_000.0  # the largest node of the published cluster: what both resources are measured by
LARGEST_GPU_MILLI = 8_000.0
SCORE_LEVELS = 100.0


def best_fit_score(cpu_left_millicores: Any, gpu_left_milli: Any) -> Any:
    """Score of a node with this much left after the pod; of numbers or arrays, and numba compiles it."""
    left = 0.5 * cpu_left_millicores / LARGEST_CPU_MILLICORES + 0.5 * gpu_left_milli / LARGEST_GPU_MILLI
    return np.floor((1.0 - left) * SCORE_LEVELS)


@dataclass(frozen=True, slots=True)
class BestFit:
    """From the simulator of "Beware of Fragmentation" (Weng et al., ATC '23), where it is a baseline.

    Formula: 100 x (1 - mean of CPU left / 128 cores and GPU left / 8 GPUs), rounded down: nodes of one level are
    equal, and the first of them is meant. All GPUs of a node count as one number.

    Differs: the original then stretches the scores to 0..100, which changes no order.
    """

    name: ClassVar[str] = "best_fit"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        cpu_free_millicores = state.cpu_allocatable_millicores - state.cpu_requested_millicores
        scores: FloatArray = best_fit_score(
            cpu_free_millicores - demand.cpu_request_millicores[..., None],
            state.gpu_free_milli.sum(axis=-1) - (demand.gpus * demand.gpu_milli)[..., None],
        )
        return scores

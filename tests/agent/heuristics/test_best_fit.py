from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.best_fit import BestFit
from agent.heuristics.dot_product import DotProduct

GPU_POD = {"cpu_request_millicores": 8_000.0, "gpus": 1.0, "gpu_milli": 500.0}
NODES = {
    "nodes": 3,
    "cpu_allocatable_millicores": [128_000, 72_000, 40_000],
    "cpu_requested_millicores": [0, 0, 0],
    "gpu_free_milli": [[1000] * 8, [500, 1000] + [0] * 6, [500] + [0] * 7],
}


def test_best_fit_scores_what_is_left_against_the_largest_node(score) -> None:
    # left: 120 of 128 cores and 7.5 of 8 GPUs; 64 and 1; 32 and 0
    expected = [100 * (1 - (0.9375 + 0.9375) / 2), 100 * (1 - (0.5 + 0.125) / 2), 100 * (1 - 0.25 / 2)]
    np.testing.assert_array_equal(score(BestFit(), NODES, GPU_POD), np.floor(expected))


def test_best_fit_counts_what_is_requested_already(score) -> None:
    busy = NODES | {"cpu_requested_millicores": [0, 64_000, 0]}
    assert score(BestFit(), busy, GPU_POD)[1] == np.floor(100 * (1 - (0 + 0.125) / 2))


def test_dot_product_prefers_the_node_with_the_least_of_what_the_pod_wants(score) -> None:
    # CPU 1/16 of the largest node times free shares 1, 0.5625, 0.3125; GPU 1/16 times 1, 0.1875, 0.0625
    products = np.array([1 + 1, 0.5625 + 0.1875, 0.3125 + 0.0625]) / 16
    np.testing.assert_array_equal(score(DotProduct(), NODES, GPU_POD), np.floor(100 * (1 - products / 2)))


def test_dot_product_of_a_pod_without_gpus_looks_at_the_cpu_alone(score) -> None:
    cpu_pod = {"cpu_request_millicores": 64_000.0, "gpus": 0.0, "gpu_milli": 1000.0}
    assert score(DotProduct(), NODES, cpu_pod).tolist() == [75, 85, 92]


@pytest.mark.parametrize("scorer", [BestFit(), DotProduct()])
def test_nodes_that_differ_by_less_than_a_level_are_equal(score, scorer) -> None:
    alike = {"nodes": 2, "cpu_allocatable_millicores": [70_000, 70_010], "gpu_free_milli": [[1000] * 8] * 2}
    first, second = score(scorer, alike, GPU_POD)
    assert first == second

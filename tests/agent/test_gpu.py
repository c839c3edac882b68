from __future__ import annotations

import numpy as np
import pytest

from agent.cluster import FloatArray
from agent.gpu import NO_FIT, choose_gpus, choose_gpus_per_node, count_fitting_gpus, take_gpus


def free(*milli: float) -> FloatArray:
    return np.array(milli + (0.0,) * (8 - len(milli)))


@pytest.mark.parametrize(
    ("gpu_free_milli", "gpus", "gpu_milli", "chosen"),
    [
        (free(1000, 500, 300), 1, 300, 0b100),  # the fullest that still fits
        (free(1000, 500, 300), 1, 301, 0b010),
        (free(1000, 500, 500), 1, 500, 0b010),  # the lowest index among equals
        (free(400, 1000, 1000, 1000), 2, 1000, 0b0110),  # whole GPUs take free ones
        (free(1000, 400, 700), 2, 300, 0b110),  # each device at most once
        (free(1000), 2, 500, NO_FIT),
        (free(999), 1, 1000, NO_FIT),
        (free(), 1, 100, NO_FIT),
        (free(1000), 0, 1000, 0),  # asks for none
    ],
)
def test_choice_is_the_tightest_fit(gpu_free_milli: FloatArray, gpus: int, gpu_milli: int, chosen: int) -> None:
    before = gpu_free_milli.copy()
    assert choose_gpus(gpu_free_milli, gpus, gpu_milli) == chosen
    np.testing.assert_array_equal(gpu_free_milli, before)


def test_taking_then_giving_back_restores_the_node() -> None:
    gpu_free_milli = free(1000, 600, 1000)
    chosen = choose_gpus(gpu_free_milli, 2, 600)
    take_gpus(gpu_free_milli, chosen, 600)
    np.testing.assert_array_equal(gpu_free_milli, free(400, 0, 1000))
    take_gpus(gpu_free_milli, chosen, -600)
    np.testing.assert_array_equal(gpu_free_milli, free(1000, 600, 1000))


def test_fitting_devices_are_counted_once_each() -> None:
    assert count_fitting_gpus(free(1000, 500, 499), 500) == 2


def test_compiled_choice_equals_plain_choice() -> None:
    numba = pytest.importorskip("numba")
    compiled = numba.njit(choose_gpus)
    random = np.random.default_rng(0)
    for _ in range(500):
        gpu_free_milli = random.choice([0.0, 250.0, 500.0, 1000.0], 8)
        gpus, gpu_milli = float(random.integers(0, 5)), float(random.choice([100.0, 500.0, 1000.0]))
        assert compiled(gpu_free_milli, gpus, gpu_milli) == choose_gpus(gpu_free_milli, gpus, gpu_milli)


def test_choice_per_node_equals_the_choice_of_each_node() -> None:
    random = np.random.default_rng(1)
    gpu_free_milli = random.choice([0.0, 250.0, 500.0, 1000.0], (4, 50, 8))
    gpus, gpu_milli = np.array([0.0, 1.0, 2.0, 5.0]), np.array([1000.0, 250.0, 1000.0, 500.0])
    masks = choose_gpus_per_node(gpu_free_milli, gpus, gpu_milli)
    for cluster, nodes in enumerate(gpu_free_milli):
        for node, free_milli in enumerate(nodes):
            bits = max(choose_gpus(free_milli, gpus[cluster], gpu_milli[cluster]), 0)
            assert masks[cluster, node].tolist() == [bool(bits >> slot & 1) for slot in range(8)]

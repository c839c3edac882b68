from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.fgd import Fgd, TypicalPods, fragment_milli, openb_mix, typical_pods


def mix(*rows: tuple[float, float, float, float]) -> TypicalPods:
    """Rows of millicores, GPUs, milli of each, share."""
    cpu, gpus, milli, share = np.array(rows, dtype=np.float64).T
    return TypicalPods(cpu, gpus, milli, share, np.arange(len(rows)))


HALVES_AND_WHOLES = mix((4_000, 1, 500, 0.5), (4_000, 1, 1_000, 0.5))


def nodes(*gpu_free_milli: list[float], cpu: float = 64_000) -> dict[str, object]:
    free = [row + [0] * (8 - len(row)) for row in gpu_free_milli]
    return {"nodes": len(free), "cpu_allocatable_millicores": [cpu] * len(free), "gpu_free_milli": free}


def pod(gpus: float, gpu_milli: float, cpu: float = 4_000) -> dict[str, float]:
    return {"cpu_request_millicores": cpu, "gpus": gpus, "gpu_milli": gpu_milli}


@pytest.mark.parametrize(
    ("fitting", "cpu_free", "pod_gpus", "useless_milli"),
    [
        (2, 8_000, 2, 300),  # it can run: what is free on the devices that are too full
        (1, 8_000, 2, 2_300),  # too few devices: everything
        (2, 7_999, 2, 2_300),  # too little CPU
        (2, 8_000, 0, 2_300),  # a pod without GPUs uses none of them
    ],
)
def test_fragment_is_the_free_gpu_that_a_pod_cannot_use(fitting, cpu_free, pod_gpus, useless_milli) -> None:
    assert fragment_milli(2_300.0, 300.0, fitting, cpu_free, 8_000.0, pod_gpus) == useless_milli


def test_half_a_gpu_goes_where_half_a_gpu_is_left(score) -> None:
    # the broken GPU: of no use to wholes, fragment 250 before and 0 after; the whole one: 0 before and 250 after
    shrinks, grows = score(Fgd(HALVES_AND_WHOLES), nodes([500], [1000]), pod(1, 500))
    assert shrinks == np.floor(100 / (1 + np.exp(-0.25)))
    assert grows == np.floor(100 / (1 + np.exp(0.25)))


def test_best_device_of_the_node_is_meant(score) -> None:
    alone, beside_a_whole_one = score(Fgd(HALVES_AND_WHOLES), nodes([500], [1000, 500]), pod(1, 500))
    assert alone == beside_a_whole_one


def test_least_fragment_may_be_on_another_device_than_the_fullest(score) -> None:
    # 300 and 400 are typical: taking 300 of the 500 leaves 200 for nobody, taking 300 of the 700 leaves a 400
    typical = mix((0, 1, 300, 0.5), (0, 1, 400, 0.5))
    (scored,) = score(Fgd(typical), nodes([500, 700]), pod(1, 300, cpu=0))
    assert scored == np.floor(100 / (1 + np.exp(0)))


def test_pods_of_several_gpus_take_free_ones(score) -> None:
    # three free GPUs are of no use to pairs once one of them is left alone: 0 before, 1000 after
    pairs = mix((0, 2, 1_000, 1.0))
    three, two = score(Fgd(pairs), nodes([1000] * 3, [1000] * 2), pod(2, 1_000, cpu=0))
    assert three == np.floor(100 / (1 + np.exp(1)))
    assert two == 50


def test_cpu_taken_from_free_gpus_makes_them_fragments(score) -> None:
    cpu_pod = pod(0, 1_000, cpu=62_000)
    with_gpus, without = score(Fgd(HALVES_AND_WHOLES), nodes([1000] * 2, []), cpu_pod)
    assert with_gpus == np.floor(100 / (1 + np.exp(2)))
    assert without == 50


def test_gpus_of_a_model_that_a_typical_pod_does_not_accept_are_fragments_to_it(score) -> None:
    refused = Fgd(mix((0, 1, 1_000, 1.0)), allowed=np.array([[True, False]]))
    accepted, not_accepted = score(refused, nodes([1000], [1000]), pod(1, 1_000, cpu=0))
    assert accepted == 50
    assert not_accepted == np.floor(100 / (1 + np.exp(-1)))


def test_typical_pods_are_the_commonest_up_to_the_coverage() -> None:
    cpu, gpus = np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4)
    found = typical_pods(cpu, gpus, gpus * 500, np.array([10.0, 60.0, 28.0, 2.0]), np.zeros(4, dtype=np.int64), 0.9)
    assert found.cpu_millicores.tolist() == [2, 3, 1]
    np.testing.assert_allclose(found.share, np.array([60, 28, 10]) / 98)


def test_typical_pods_stop_as_soon_as_they_cover_enough() -> None:
    cpu, pods = np.array([1.0, 2.0]), np.array([90.0, 10.0])
    found = typical_pods(cpu, np.ones(2), np.ones(2), pods, np.zeros(2, dtype=np.int64), coverage=0.9)
    assert found.cpu_millicores.tolist() == [1]


def test_equal_requests_are_counted_together_unless_their_group_differs() -> None:
    cpu, pods = np.full(3, 1.0), np.array([1.0, 2.0, 4.0])
    found = typical_pods(cpu, np.ones(3), np.ones(3), pods, np.array([0, 0, 1]), coverage=1.0)
    assert found.share.tolist() == [4 / 7, 3 / 7]
    assert found.source.tolist() == [2, 0]


def test_default_mix_is_a_distribution() -> None:
    assert openb_mix().share.sum() == pytest.approx(1.0)
    assert len(openb_mix().share) == 16

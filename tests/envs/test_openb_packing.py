from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.openb_packing import PackingProblem, packing_problem, published_arrivals, unallocated_percent
from envs.workloads.openb import OpenbNodes, OpenbPods, read_openb_nodes, read_openb_pods


def nodes(count: int, gpus: float = 4.0, cpu: float = 64_000.0) -> OpenbNodes:
    models = np.array(["T4", "G2"])[np.arange(count) % 2]
    names = tuple(f"node-{i}" for i in range(count))
    return OpenbNodes(names, np.full(count, cpu), np.full(count, 262_144.0), np.full(count, gpus), models)


def pods(*rows: tuple[float, float, float, str]) -> OpenbPods:
    """Rows of millicores, GPUs, milli of each, accepted models."""
    cpu, gpus, milli = np.array([row[:3] for row in rows], dtype=np.float64).T
    unknown, names = np.full(len(rows), np.nan), tuple(f"pod-{i}" for i in range(len(rows)))
    models, qos = np.array([row[3] for row in rows]), np.full(len(rows), "")
    return OpenbPods(names, cpu, np.full(len(rows), 512.0), gpus, milli, models, qos, unknown, unknown, unknown)


MIXED = pods(
    (4_000, 1, 500, ""), (8_000, 1, 1_000, "T4"), (4_000, 1, 500, ""), (2_000, 0, 0, ""), (2_000, 2, 1_000, "")
)


def requested_milli(problem: PackingProblem, arrivals: np.ndarray) -> float:
    return float(problem.kinds.gpu_request_milli[arrivals].sum())


def test_equal_requests_become_one_kind() -> None:
    problem = packing_problem(nodes(3), MIXED)
    assert len(problem.kinds.gpus) == 4
    assert problem.kind_of_pod[0] == problem.kind_of_pod[2]
    np.testing.assert_array_equal(problem.kinds.gpu_request_milli[problem.kind_of_pod], MIXED.gpu_request_milli)
    whole = problem.kind_of_pod[1]
    assert problem.kinds.allowed[whole, problem.nodes.model].tolist() == [True, False, True]
    assert problem.kinds.typical.share.sum() == pytest.approx(1.0)


def test_arrivals_are_the_shuffled_list_and_then_draws_up_to_the_load() -> None:
    problem = packing_problem(nodes(20), pods(*((1_000 + i, 1, 500, "") for i in range(50))))
    arrivals = published_arrivals(problem, np.random.default_rng(0))
    assert sorted(arrivals[:50]) == sorted(problem.kind_of_pod)
    assert arrivals[:50].tolist() != problem.kind_of_pod.tolist()
    wanted_milli = 1.3 * problem.capacity_milli
    assert requested_milli(problem, arrivals) >= wanted_milli > requested_milli(problem, arrivals[:-1])
    assert len(set(arrivals[50:100])) < 50  # drawn with replacement


def test_list_that_asks_for_more_than_the_load_is_thinned_at_random() -> None:
    listed = pods(*[(1_000, 1, 1_000, "")] * 50, *[(2_000, 1, 1_000, "")] * 50)
    problem = packing_problem(nodes(10), listed)  # 100 GPUs asked of 40
    arrivals = published_arrivals(problem, np.random.default_rng(0))
    assert len(arrivals) == 52
    assert 10 < np.count_nonzero(arrivals == 0) < 42


def test_list_without_gpu_pods_is_refused() -> None:
    problem = packing_problem(nodes(1), pods((1_000, 0, 0, "")))
    with pytest.raises(InputError, match="no pod of the list asks for a GPU"):
        published_arrivals(problem, np.random.default_rng(0))


def test_pods_that_always_fit_leave_nothing_and_pods_that_never_fit_leave_everything() -> None:
    small, large = pods((1_000, 1, 1_000, "")), pods((65_000, 1, 1_000, ""))
    assert unallocated_percent(packing_problem(nodes(25), small), "best_fit", seed=0) == pytest.approx(0.0)
    assert unallocated_percent(packing_problem(nodes(25), large), "best_fit", seed=0) == pytest.approx(100.0)


def test_value_is_read_when_arrivals_equal_the_capacity() -> None:
    # every pod takes 3 of the 4 GPUs of a node: 33 of 100 nodes' worth have arrived too many, 25 % stay free
    thirds = packing_problem(nodes(100), pods((1_000, 3, 1_000, "")))
    assert unallocated_percent(thirds, "fgd", seed=0) == pytest.approx(25.0)


def test_a_seed_repeats_and_another_differs() -> None:
    problem = packing_problem(nodes(40), MIXED)
    first, again, other = (unallocated_percent(problem, "random", seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.slow
def test_published_means_are_met_on_the_default_list(traces: Path) -> None:
    folder = traces / "openb"
    problem = packing_problem(
        read_openb_nodes(folder / "openb_node_list_gpu_node.csv"),
        read_openb_pods(folder / "openb_pod_list_default.csv.gz"),
    )
    published = {"random": 13.697, "dot_product": 9.378, "best_fit": 7.138, "fgd": 4.773}
    ours = {policy: np.mean([unallocated_percent(problem, policy, seed) for seed in range(3)]) for policy in published}
    assert ours == pytest.approx(published, abs=1.0)

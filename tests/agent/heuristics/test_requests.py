"""The scorers of kube-scheduler that read requests: goldens worked out by hand from its formulas."""

from __future__ import annotations

import pytest

from agent.errors import InputError
from agent.heuristics.balanced_allocation import BalancedAllocation
from agent.heuristics.least_allocated import LeastAllocated
from agent.heuristics.most_allocated import MostAllocated
from agent.heuristics.requested_to_capacity_ratio import RequestedToCapacityRatio

# With the pod: 2000/4000 and 2000/8000; 4000/4000 and 9000/8000; 1000/4000 and 1000/8000.
STATE = {"cpu_requested_millicores": [1000, 3000, 0], "memory_requested_mib": [1000, 8000, 0]}
POD = {"cpu_request_millicores": 1000, "memory_request_mib": 1000}


@pytest.mark.parametrize(
    ("scorer", "expected"),
    [
        (LeastAllocated(), [62.5, 0.0, 81.25]),
        (LeastAllocated(cpu_weight=3), [56.25, 0.0, 78.125]),  # (3 x 50 + 75) / 4
        (MostAllocated(), [37.5, 100.0, 18.75]),
        (MostAllocated(cpu_weight=3), [43.75, 100.0, 21.875]),
        (BalancedAllocation(), [87.5, 100.0, 93.75]),  # 100 x (1 - |0.5 - 0.25| / 2)
        (RequestedToCapacityRatio(), [37.5, 100.0, 18.75]),
        (RequestedToCapacityRatio(((0, 10), (100, 0))), [62.5, 0.0, 81.25]),
        # 50 % -> 10, 25 % -> 5; 100 % -> 5 twice; 25 % -> 5, 12.5 % -> 2.5
        (RequestedToCapacityRatio(((0, 0), (50, 10), (100, 5))), [75.0, 50.0, 37.5]),
        (RequestedToCapacityRatio(((20, 2), (60, 6))), [37.5, 60.0, 22.5]),  # flat outside: 12.5 % -> 2
    ],
    ids=repr,
)
def test_formula_includes_the_pod(score, scorer, expected) -> None:
    assert score(scorer, STATE, POD) == pytest.approx(expected)


def test_least_and_most_give_nothing_for_a_resource_that_is_absent(score) -> None:
    absent = {"cpu_allocatable_millicores": [0, 4000, 4000]}
    assert score(LeastAllocated(), absent) == pytest.approx([50, 100, 100])
    assert score(MostAllocated(), absent) == pytest.approx([0, 0, 0])


def test_balanced_allocation_does_not_move_pods_without_requests(score) -> None:
    assert score(BalancedAllocation(), STATE) == pytest.approx([0, 0, 0])


def test_capacity_ratio_leaves_out_resources_that_score_zero(score) -> None:
    only_cpu = score(RequestedToCapacityRatio(), demand={"cpu_request_millicores": 1000})
    assert only_cpu == pytest.approx([25, 25, 25])
    assert score(RequestedToCapacityRatio()) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((), "rising"),
        (((50, 0), (50, 10)), "rising"),
        (((0, 0), (101, 10)), "0 to 100"),
        (((0, 0), (100, 11)), "0 to 10"),
    ],
)
def test_bad_shape_is_refused(shape, says) -> None:
    with pytest.raises(InputError, match=says):
        RequestedToCapacityRatio(shape)

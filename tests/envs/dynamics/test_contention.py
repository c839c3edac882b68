"""What happens above capacity, worked out by hand."""

from __future__ import annotations

import math

import pytest

from envs.dynamics import contention


@pytest.mark.parametrize(("offered", "carried", "lost"), [(0, 0, 0), (700, 700, 0), (1000, 1000, 0), (1250, 1000, 250)])
def test_offered_is_carried_up_to_capacity_and_the_rest_is_lost(offered, carried, lost):
    assert contention.carried(offered, 1000) == carried
    assert contention.lost(offered, 1000) == lost
    assert contention.carried(offered, 1000) + contention.lost(offered, 1000) == offered


def test_all_pods_of_a_node_get_the_same_share_of_what_they_offer():
    assert contention.carried_ratio(800.0, 1000.0) == 1.0
    assert contention.carried_ratio(1000.0, 1000.0) == 1.0
    shares = [offered * contention.carried_ratio(1250.0, 1000.0) for offered in (250.0, 1000.0)]
    assert shares == [200.0, 800.0]
    assert sum(shares) == contention.carried(1250.0, 1000.0)


def test_nothing_offered_to_no_capacity_is_carried_in_full():
    assert contention.carried_ratio(0.0, 0.0) == 1.0


def test_memory_victim_is_the_pod_furthest_above_its_request_not_the_largest():
    large_within_request = contention.oom_badness_mib(3000.0, 4000.0)
    small_above_request = contention.oom_badness_mib(300.0, 200.0)
    assert small_above_request > large_within_request


@pytest.mark.parametrize(
    ("latency_ms", "violation"), [(0, 0), (20, 0), (20.1, 0.5), (50, 0.5), (50.1, 1), (math.inf, 1)]
)
def test_latency_violation_is_half_between_the_limits_and_one_beyond(latency_ms, violation):
    assert contention.latency_violation(latency_ms, 20.0, 50.0) == violation


def test_latency_without_limits_is_never_violated():
    assert contention.latency_violation(1e9, math.nan, math.nan) == 0.0
    assert contention.latency_violation(30.0, 20.0, math.nan) == 0.5


def test_stranded_cores_are_what_the_scarcer_resource_leaves_unusable():
    # 16 cores: half of the CPU is free, a quarter of the memory; CPU worth a quarter of the node cannot be used
    assert contention.stranded_cores(0.5, 0.25, 16000.0) == 4.0
    assert contention.stranded_cores(0.25, 0.5, 16000.0) == 4.0
    assert contention.stranded_cores(0.5, 0.5, 16000.0) == 0.0

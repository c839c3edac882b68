from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.thesis_policies import LatencyAwareMostPods, LeastConnections, LeastPods, MostPods

NAN = np.nan
PODS = {"pods_running": [5, 7, 0]}
LIMITS = {"latency_soft_ms": 35, "latency_hard_ms": 100}


def test_ma_prefers_the_fullest_and_la_the_emptiest_node(score) -> None:
    assert score(MostPods(), PODS) == pytest.approx([5, 7, 0])
    assert score(LeastPods(), PODS) == pytest.approx([-5, -7, 0])


def test_lc_prefers_the_fewest_connections(score) -> None:
    assert score(LeastConnections(), {"connections": [12, 3, NAN]}) == pytest.approx([-12, -3, NAN], nan_ok=True)


def test_p0_is_its_reward_after_the_placement(score) -> None:
    # 13 pods. On node 0 its sixth pod makes two used nodes: 1/3 + 13/2/50. Elsewhere one: 2/3 + 13/50. Latency: 1.
    assert score(LatencyAwareMostPods(), PODS) == pytest.approx([1.463333, 1.926667, 1.926667], abs=1e-5)


def test_p0_prefers_the_fuller_of_two_equal_nodes(score) -> None:
    assert score(LatencyAwareMostPods(), {"pods_running": [2, 3, 1]}).argmax() == 1


def test_p0_without_used_nodes_has_no_filling_term(score) -> None:
    assert score(LatencyAwareMostPods()) == pytest.approx([2, 2, 2])


@pytest.mark.parametrize(
    ("limits", "rewards"),
    [
        (LIMITS, [1, 0.5, 0, 0.5]),
        ({"latency_soft_ms": 35}, [1, 0.5, 0.5, 0.5]),
        ({"latency_hard_ms": 100}, [1, 1, 0, 0.5]),
        ({}, [1, 1, 1, 1]),
    ],
)
def test_p0_rewards_nodes_within_the_latency_limits(score, limits, rewards) -> None:
    state = {"nodes": 4, "user_latency_ms": [35, 36, 101, NAN]}
    assert score(LatencyAwareMostPods(), state, limits) - 1 == pytest.approx(rewards)


def test_p0_counts_candidates_alone(score) -> None:
    # 2 candidates, 1 used, 8 pods: 1/2 + 8/50 + 1.
    values = score(LatencyAwareMostPods(), PODS, candidates=[False, True, True])
    assert values[1:] == pytest.approx([1.66, 1.66], abs=1e-5)

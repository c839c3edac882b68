"""Returns by hand: what was paid, when, and how the group did."""

from __future__ import annotations

import numpy as np
import pytest

from training.advantages import beyond_group, occurrence, scaled, time_discounted, worth_learning

HORIZON_S = 300.0


def test_advantages_without_critic_are_returns_discounted_by_time() -> None:
    rewards = np.array([[-1.0], [-2.0], [-4.0]])
    elapsed_s = np.array([[30.0], [60.0], [10.0]])
    nothing = np.zeros((3, 1))
    found = time_discounted(rewards, nothing, np.zeros(1), elapsed_s, np.ones((3, 1), bool), HORIZON_S, np.inf)
    last = -4.0
    second = -2.0 + np.exp(-60 / HORIZON_S) * last
    first = -1.0 + np.exp(-30 / HORIZON_S) * second
    np.testing.assert_allclose(found[:, 0], [first, second, last])


def test_an_episode_cut_off_by_the_horizon_goes_on_in_the_critic() -> None:
    rewards, values, elapsed_s = np.array([[-1.0]]), np.array([[-3.0]]), np.array([[60.0]])
    found = time_discounted(rewards, values, np.array([-5.0]), elapsed_s, np.ones((1, 1), bool), HORIZON_S, 300.0)
    assert found[0, 0] == pytest.approx(-1.0 + np.exp(-60 / HORIZON_S) * -5.0 + 3.0)


def test_a_short_trace_trusts_the_critic_and_a_long_one_what_was_seen() -> None:
    rewards, values = np.array([[-1.0], [-9.0]]), np.array([[-2.0], [-3.0]])
    elapsed_s, active = np.full((2, 1), 30.0), np.ones((2, 1), bool)
    keep = np.exp(-30 / HORIZON_S)
    short = time_discounted(rewards, values, np.zeros(1), elapsed_s, active, HORIZON_S, 1e-3)
    long = time_discounted(rewards, values, np.zeros(1), elapsed_s, active, HORIZON_S, np.inf)
    assert short[0, 0] == pytest.approx(-1.0 + keep * -3.0 + 2.0)
    assert long[0, 0] == pytest.approx(-1.0 + keep * -9.0 + 2.0)


def test_steps_after_a_cluster_is_done_count_for_nothing() -> None:
    rewards = np.array([[-1.0, -1.0], [-2.0, -777.0]])
    active = np.array([[True, True], [True, False]])
    elapsed_s = np.full((2, 2), 30.0)
    found = time_discounted(rewards, np.zeros((2, 2)), np.zeros(2), elapsed_s, active, HORIZON_S, np.inf)
    np.testing.assert_allclose(found, [[-1.0 - 2.0 * np.exp(-0.1), -1.0], [-2.0, 0.0]])


def test_beyond_group_takes_off_the_mean_of_the_others() -> None:
    found = beyond_group(np.array([1.0, 3.0, 8.0, 5.0]), np.array([7, 7, 7, 9]))
    np.testing.assert_allclose(found, [1.0 - 5.5, 3.0 - 4.5, 8.0 - 2.0, 0.0])


def test_occurrence_counts_earlier_ones() -> None:
    np.testing.assert_array_equal(occurrence(np.array([4, 2, 4, 4, 2])), [0, 0, 1, 2, 1])


def test_scaled_has_spread_one_and_limits_outliers() -> None:
    values = np.r_[np.ones(99), 1000.0]
    assert np.sqrt(np.mean(scaled(values, np.inf) ** 2)) == pytest.approx(1.0)
    assert scaled(values, 3.0).max() == 3.0
    np.testing.assert_array_equal(scaled(np.zeros(3), 3.0), np.zeros(3))


def test_decisions_that_mattered_are_all_kept_and_some_of_the_others() -> None:
    advantages = np.r_[np.full(100, 0.5), np.full(10_000, 0.01)]
    rows = worth_learning(advantages, 0.1, 0.2, np.random.default_rng(0))
    assert set(range(100)) <= set(rows.tolist())
    assert len(rows) - 100 == pytest.approx(2000, rel=0.1)

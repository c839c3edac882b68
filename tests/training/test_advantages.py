"""Returns by hand: what was paid, when, and how the group did."""

from __future__ import annotations

import numpy as np
import pytest

from training.advantages import (
    beyond_group,
    occurrence,
    spread_of,
    time_discounted,
    without_favour,
    worth_learning,
)

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


def test_spread_is_that_of_a_node_drawn_by_its_probability() -> None:
    advantages, probability = np.array([[3.0, 0.0], [0.0, -1.0]]), np.array([[0.5, 0.5], [0.0, 1.0]])
    assert spread_of(advantages, probability, np.zeros(2)) == pytest.approx(np.sqrt((4.5 + 1.0) / 2))
    assert spread_of(np.zeros((2, 2)), probability, np.array([2.0, 0.0])) == pytest.approx(np.sqrt(2.0))


def test_only_decisions_with_something_at_stake_are_learned_from() -> None:
    advantages = np.array([[1.0, -1.0], [0.01, -0.01], [9.0, 0.0], [0.0, 0.0]])
    probability = np.array([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])
    rows = worth_learning(advantages, np.array([0.0, 0.0, 0.0, 0.7]), probability, 0.1)
    np.testing.assert_array_equal(rows, [0, 3])  # nobody would take the dear node of the third


def test_favour_of_the_chosen_node_is_what_the_group_shows() -> None:
    """Each pays 1 less where it went, because others made room for it; in truth the two nodes are equal."""
    own = np.array([[4.0, 5.0], [5.0, 4.0]])
    probability, key = np.full((2, 2), 0.5), np.array([7, 7])
    fair = without_favour(own, probability, np.array([0, 1]), np.array([True, True]), key)
    np.testing.assert_allclose(fair, [[5.0, 5.0], [5.0, 5.0]])


def test_members_that_went_to_the_same_node_say_nothing_about_favour() -> None:
    own = np.array([[4.0, 5.0], [5.0, 4.0], [4.0, 5.0], [4.0, 5.0], [4.0, 5.0]])
    bound, key = np.array([0, 1, 0, 0, 0]), np.array([7, 7, 8, 8, 8])
    fair = without_favour(own, np.full((5, 2), 0.5), bound, np.ones(5, dtype=np.bool_), key)
    np.testing.assert_allclose(fair, np.full((5, 2), 5.0))


def test_a_real_difference_between_nodes_is_no_favour() -> None:
    own = np.array([[2.0, 6.0], [2.0, 6.0]])
    fair = without_favour(own, np.full((2, 2), 0.5), np.array([0, 1]), np.array([True, True]), np.array([3, 3]))
    np.testing.assert_allclose(fair, own)

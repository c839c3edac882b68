"""Rollouts: which nodes are tried, when another is taken, and that looking ahead helps."""

from __future__ import annotations

import numpy as np
import pytest

from agent.features import NODE_FEATURES
from agent.linear import LinearScorer, weights_from
from envs.batch_arrays import NODE
from envs.batch_env import BatchEnv
from envs.workloads.scenario import LogNormal, Scenario, load_scenario
from training.play import play
from training.rollouts import Search, clearly_cheapest, options_of, rollouts, still_ahead
from training.worlds import make_worlds

NAN = np.nan
EPISODES = 24  # with six, one wild episode decides
SEARCH = Search(candidates=4, ahead_s=60.0, futures=2)
PACKING = weights_from({"memory_requested_ratio": 1.0, "cpu_requested_ratio": 0.5})


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Small and short, with chatty pods, so that where a pod goes costs money within a minute."""
    full = load_scenario("microservices")
    soon = {"interval_s": [5.0], "window_s": [10.0], "delay_s": [0.0], "blind": 0.0}
    scraping = full.scraping.model_copy(update=soon)
    count = full.nodes.count.model_copy(update={"low": 6.0, "high": 6.0})
    nodes = full.nodes.model_copy(update={"count": count})
    arrivals = full.arrivals.model_copy(update={"duration_s": LogNormal(median=60, sigma=0.5)})
    changes = {"scraping": scraping, "nodes": nodes, "arrivals": arrivals, "horizon_s": 100.0}
    return full.model_copy(update=changes)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("clairvoyant", "share"), [(True, 0.95), (False, 0.98)])
def test_looking_ahead_beats_the_rule_it_rolls_out(scenario: Scenario, clairvoyant: bool, share: float) -> None:
    tape = make_worlds(scenario, 3, EPISODES)
    alone = play(LinearScorer(PACKING), tape, 3).cost_per_hour
    ahead = rollouts(scenario, 3, range(EPISODES), PACKING, SEARCH, clairvoyant).cost_per_hour
    assert ahead.mean() < share * alone.mean()


@pytest.mark.timeout(600)
def test_looking_ahead_leaves_the_true_future_as_it_is(scenario: Scenario) -> None:
    """Whoever decides, the same pods come: the rollouts play in copies."""
    tape = make_worlds(scenario, 3, 2)
    one = rollouts(scenario, 3, range(2), PACKING, SEARCH, clairvoyant=False)
    again = rollouts(scenario, 3, range(2), PACKING, SEARCH, clairvoyant=False)
    np.testing.assert_array_equal(one.terms, again.terms)
    assert one.decisions.tolist() == play(LinearScorer(PACKING), tape).decisions.tolist()


@pytest.mark.timeout(600)
def test_options_are_different_nodes_with_the_rule_s_own_choice_first(scenario: Scenario) -> None:
    env, rng = BatchEnv(make_worlds(scenario, 3, 4)), np.random.default_rng(0)
    values = np.where(env.candidates(), env.encode().nodes @ PACKING, -np.inf)
    seen = set()
    for _ in range(30):
        options, valid = options_of(env, PACKING, 4, rng)
        assert options[:, :2].tolist() == np.argsort(-values, axis=1)[:, :2].tolist()
        assert all(len(set(row)) == 4 for row in options.tolist())
        np.testing.assert_array_equal(valid, np.take_along_axis(env.candidates(), options, axis=1))
        seen |= set(options[0, 2:].tolist())
    rest = set(np.flatnonzero(env.candidates()[0]).tolist()) - set(options[0, :2].tolist())
    assert seen == rest  # the other places go to all of them in turn
    assert len(rest) > 2


@pytest.mark.timeout(600)
def test_nodes_outside_the_mask_are_no_options(scenario: Scenario) -> None:
    env, rng = BatchEnv(make_worlds(scenario, 3, 1)), np.random.default_rng(0)
    env.live.mask[0] = [True, False, False, True, False, False]
    options, valid = options_of(env, np.zeros(len(NODE_FEATURES)), 6, rng)
    assert set(options[0, valid[0]].tolist()) == {0, 3}
    assert valid[0].tolist() == [True, True, False, False, False, False]


@pytest.mark.timeout(600)
def test_a_node_without_metrics_is_an_option_only_if_all_are_without(scenario: Scenario) -> None:
    """As the sidecar holds it at the median of the others."""
    env, rng = BatchEnv(make_worlds(scenario, 3, 2)), np.random.default_rng(0)
    env.live.mask[:, :] = True
    env.live.node[0, NODE.age_s, [1, 4]] = np.inf
    env.live.node[1, NODE.age_s] = np.inf
    options, valid = options_of(env, PACKING, 6, rng)
    assert set(options[0, valid[0]].tolist()) == {0, 2, 3, 5}
    assert valid[1].all()


def test_an_option_that_falls_behind_is_dropped_and_the_first_plays_on_only_against_others() -> None:
    cost = np.array(
        [
            [[5.0, 5.0], [4.0, 5.5], [NAN, NAN]],  # ahead in the mean
            [[5.0, 5.0], [4.0, 6.5], [6.0, NAN]],  # behind in the mean, or dropped before
        ]
    )
    assert still_ahead(cost).tolist() == [[True, True, False], [False, False, False]]


def test_another_node_is_taken_only_if_it_is_cheaper_by_more_than_the_noise() -> None:
    base = [10.0, 10.0, 10.0, 10.0]
    cost = np.array(
        [
            [base, [9.0, 9.1, 8.9, 9.0], [8.0, 8.0, 8.0, 8.1]],  # both clearly, the last more
            [base, [4.0, 14.0, 9.0, 12.0], [11.0, NAN, NAN, NAN]],  # cheaper in the mean, but who knows
            [base, [9.0, 9.1, 8.9, 9.0], [2.0, 13.0, NAN, NAN]],  # the last dropped out
        ]
    )
    assert clearly_cheapest(cost).tolist() == [2, 0, 1]


def test_with_one_future_the_cheapest_is_taken() -> None:
    assert clearly_cheapest(np.array([[[3.0], [2.0], [NAN]], [[2.0], [3.0], [4.0]]])).tolist() == [1, 0]


def test_without_any_rollout_the_rule_decides() -> None:
    assert clearly_cheapest(np.full((2, 3, 4), NAN)).tolist() == [0, 0]

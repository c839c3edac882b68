"""Rollouts: what they may change of a cluster, and that looking ahead helps."""

import numpy as np
import pytest

from agent.heuristics.registry import scorer_by_name
from envs.batch_arrays import COUNT, TAPE_POD
from envs.batch_env import BatchEnv
from envs.workloads.scenario import LogNormal, Scenario, load_scenario
from training.futures import Futures, remaining_s
from training.headroom import Search, measure, rollouts
from training.play import play
from training.worlds import make_worlds

SEARCH = Search(candidates=4, ahead_s=60.0, futures=2)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Small and short, with chatty pods, so that where a pod goes costs money within a minute."""
    full = load_scenario("microservices")
    scraping = full.scraping.model_copy(update={"interval_s": [5.0], "window_s": [10.0], "delay_s": [0.0]})
    count = full.nodes.count.model_copy(update={"low": 6.0, "high": 6.0})
    nodes = full.nodes.model_copy(update={"count": count})
    arrivals = full.arrivals.model_copy(update={"duration_s": LogNormal(median=60, sigma=0.5)})
    changes = {"scraping": scraping, "nodes": nodes, "arrivals": arrivals, "horizon_s": 100.0}
    return full.model_copy(update=changes)


@pytest.mark.timeout(600)
def test_looking_at_the_true_future_beats_the_rule_it_rolls_out(scenario: Scenario) -> None:
    tape, base = make_worlds(scenario, 3, 6), scorer_by_name("random")
    alone = play(base, tape, 3).cost_per_hour
    ahead = rollouts(scenario, tape, base, 3, SEARCH, clairvoyant=True).cost_per_hour
    assert ahead.mean() < 0.95 * alone.mean()


@pytest.mark.timeout(600)
def test_headroom_names_the_world_and_both_bounds(scenario: Scenario) -> None:
    row = measure(scenario, episodes=2, seed=1, search=Search(candidates=2, ahead_s=20.0, futures=1))
    assert row["scenario_digest"] == scenario.digest()
    assert {"clairvoyant", "attainable", "baselines", "best_baseline"} <= set(row)


@pytest.mark.timeout(600)
def test_an_imagined_future_keeps_the_past_and_changes_what_comes(scenario: Scenario) -> None:
    env = BatchEnv(make_worlds(scenario, 5, 1))
    arrived, clock_s = int(env.live.count[0, COUNT.arrived]), float(env.clock_s[0])
    futures = Futures(scenario, 5, 1, 2)
    imagined = futures.blank(env.tapes)
    futures.write(imagined, env.tapes, 0, clock_s, arrived)
    truth = env.tapes.pod[0]
    for row in imagined.pod:
        assert np.array_equal(row[:arrived], truth[:arrived], equal_nan=True)
        assert not np.array_equal(row[arrived:], truth[arrived:], equal_nan=True)
        coming = row[arrived:, TAPE_POD.arrival_s]
        assert (coming > clock_s).all()
        assert (np.diff(coming[np.isfinite(coming)]) >= 0).all()
    assert not np.array_equal(imagined.pod[0], imagined.pod[1], equal_nan=True)


@pytest.mark.timeout(600)
def test_imagined_loads_begin_where_the_true_ones_are(scenario: Scenario) -> None:
    env = BatchEnv(make_worlds(scenario, 5, 1))
    futures = Futures(scenario, 5, 1, 1)
    imagined, clock_s = futures.blank(env.tapes), float(env.clock_s[0])
    futures.write(imagined, env.tapes, 0, clock_s, 0)
    now = int(clock_s / scenario.loads.step_s)
    assert imagined.app_load[0, now] == pytest.approx(env.tapes.app_load[0, now], rel=1e-4)
    assert not np.allclose(imagined.app_load[0, now + 2 :], env.tapes.app_load[0, now + 2 :], rtol=1e-3)


def test_pods_that_have_run_long_run_longer() -> None:
    """Of a log-normal: with sigma 1 and an age of 10 medians, about half of what is left is above 5 medians."""
    rng, duration = np.random.default_rng(0), LogNormal(median=100, sigma=1)
    young = remaining_s(duration, np.full(20_000, 1.0), rng)
    old = remaining_s(duration, np.full(20_000, 1000.0), rng)
    assert np.median(young) == pytest.approx(99, rel=0.05)
    # P(total > x | total > 1000) = 1/2 at x = 100 exp(z), z with 1 - Phi(z) = (1 - Phi(ln 10)) / 2
    assert np.median(old) == pytest.approx(100 * np.exp(2.5526) - 1000, rel=0.1)

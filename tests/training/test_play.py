"""Episodes and who plays them. The first test to run waits until numba has compiled the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

from agent.heuristics.registry import scorer_by_name
from envs.batch_env import BatchEnv
from envs.dynamics.costs import TERM, TERMS
from envs.rewards import WEIGHTS
from training.play import Played, best, choose, play
from training.statistics import paired_difference
from training.worlds import make_worlds

pytestmark = pytest.mark.timeout(400)

EPISODES = 3


@pytest.fixture(scope="module")
def tape(small):
    return make_worlds(small, seed=5, episodes=EPISODES)


@dataclass
class Fixed:
    """Gives every node the value of its index, and remembers what it was asked."""

    values: tuple[float, ...]
    name: ClassVar[str] = "fixed"
    needs: ClassVar[tuple[str, ...]] = ()
    asked: list[list[float]] = field(default_factory=list)

    def score(self, state, demand, candidates):
        self.asked.append(demand.cpu_request_millicores.tolist())
        return np.broadcast_to(np.array(self.values), candidates.shape).copy()


# --- whole episodes


def test_every_scorer_meets_the_same_pods_in_the_same_order(tape):
    first, last = Fixed((4.0, 3.0, 2.0, 1.0)), Fixed((1.0, 2.0, 3.0, 4.0))
    one, other = play(first, tape), play(last, tape)
    assert first.asked == last.asked
    assert one.decisions.tolist() == other.decisions.tolist()
    assert one.decisions.min() > 10
    assert not np.array_equal(one.terms, other.terms)  # but they placed them differently


def test_playing_leaves_the_tapes_as_they_were(tape):
    scorer = scorer_by_name("least_allocated")
    before = play(scorer, tape, seed=3)
    play(scorer_by_name("random"), tape, seed=4)
    np.testing.assert_array_equal(play(scorer, tape, seed=3).terms, before.terms)


def test_an_episode_costs_the_same_alone_and_among_others(tape, small):
    scorer = Fixed((1.0, 2.0, 3.0, 4.0))
    alone = play(scorer, make_worlds(small, seed=5, episodes=1))
    np.testing.assert_array_equal(play(scorer, tape).terms[0], alone.terms[0])


def test_ties_are_told_apart_by_the_seed_and_by_nothing_else(tape):
    neutral = scorer_by_name("neutral")
    one, same, other = play(neutral, tape, seed=1), play(neutral, tape, seed=1), play(neutral, tape, seed=2)
    np.testing.assert_array_equal(one.terms, same.terms)
    assert not np.array_equal(one.terms, other.terms)
    assert one.decisions.tolist() == other.decisions.tolist()


def test_no_decision_is_made_outside_the_mask(tape, monkeypatch):
    made = []
    monkeypatch.setattr("training.play.BatchEnv", lambda *a, **k: made.append(BatchEnv(*a, **k)) or made[-1])
    play(Fixed((np.nan, np.nan, np.nan, np.nan)), tape)
    assert made[0].done.all()
    assert made[0].invalid.tolist() == [0] * EPISODES


def test_progress_grows_to_the_end(tape):
    told: list[float] = []
    play(scorer_by_name("neutral"), tape, progress=told.append)
    assert told == sorted(told)
    assert 0.0 < told[0] < told[-1]
    assert told[-1] == pytest.approx(1.0)


def test_hours_run_from_the_first_decision_to_the_end(tape):
    env = BatchEnv(tape)
    played = play(scorer_by_name("neutral"), tape)
    np.testing.assert_allclose(played.hours * 3600.0, tape.horizon_s - env.clock_s, atol=float(tape.tick_s[0]))


def test_pairs_on_the_same_tapes_differ_less_than_single_episodes(small):
    tape = make_worlds(small, seed=9, episodes=8)
    one = play(scorer_by_name("least_allocated"), tape).cost_per_hour
    other = play(scorer_by_name("random"), tape).cost_per_hour
    unpaired = np.sqrt(one.var(ddof=1) / 8 + other.var(ddof=1) / 8) * 1.959964
    assert paired_difference(one, other)[1] < 0.7 * unpaired


# --- one decision


def test_the_candidate_with_the_highest_value_is_taken(tape):
    env, rng = BatchEnv(tape), np.random.default_rng(0)
    chosen = choose(Fixed((1.0, 2.0, 3.0, 4.0)), env, rng)
    last = [np.flatnonzero(row)[-1] for row in env.candidates()]
    assert chosen.tolist() == last


@pytest.mark.parametrize("hole", [0, 3])
def test_a_node_without_a_value_is_never_best_among_others(tape, hole):
    values = [1.0, 2.0, 3.0, 4.0]
    values[hole] = np.nan
    env, rng = BatchEnv(tape), np.random.default_rng(0)
    assert env.candidates().all()
    highest = int(np.nanargmax(values))
    for _ in range(20):
        assert choose(Fixed(tuple(values)), env, rng).tolist() == [highest] * EPISODES


def test_without_any_value_every_candidate_can_be_taken(tape):
    env, rng = BatchEnv(tape), np.random.default_rng(0)
    nothing = Fixed((np.nan, np.nan, np.nan, np.nan))
    chosen = np.array([choose(nothing, env, rng) for _ in range(100)])
    for cluster in range(EPISODES):
        assert set(chosen[:, cluster]) == set(np.flatnonzero(env.candidates()[cluster]))


def test_equal_candidates_are_taken_equally_often_and_others_never():
    values = np.broadcast_to(np.array([5.0, 5.0, 5.0, 9.0, 1.0]), (6000, 5))
    candidates = np.broadcast_to(np.array([True, True, True, False, True]), (6000, 5))
    count = np.bincount(best(values, candidates, np.random.default_rng(0)), minlength=5)
    assert count[3] == count[4] == 0
    assert count[:3].min() > 1850


def test_single_cluster_without_a_batch_axis_is_served_too():
    assert best(np.array([1.0, 3.0, 2.0]), np.array([True, False, True]), np.random.default_rng(0)) == 2


# --- what it cost


def test_cost_is_dollars_an_hour_by_the_one_table_of_weights():
    terms = np.zeros((2, len(TERMS)))
    terms[0, [TERM["money"], TERM["failures"]]] = 3.0, 4.0
    terms[1, TERM["energy"]] = 10.0
    played = Played(terms, np.array([0.5, 2.0]), np.array([7, 8]))
    by_hand = [(3.0 + 4.0 * WEIGHTS.failures) / 0.5, 10.0 * WEIGHTS.energy / 2.0]
    assert played.cost_per_hour.tolist() == pytest.approx(by_hand)
    assert played.terms_per_hour[0, TERM["failures"]] == 8.0
    assert played.terms_per_hour[1, TERM["energy"]] == 5.0

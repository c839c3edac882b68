"""A policy behind the ladder, for whole batches: each row must be answered as the sidecar would answer it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np
import pytest

from agent.breaker import Breaker
from agent.features import NODE_FEATURES, POD_COLUMN, POD_FEATURES, STALE_AFTER_S, Encoding
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.least_allocated import LeastAllocated
from agent.ladder import Freshness, Ladder, Step
from agent.linear import LinearScorer, weights_from
from agent.quantise import quantise
from agent.scorer import ScoringUnavailable
from envs.batch_env import BatchEnv
from training.as_served import AsServed, ByGpus
from training.worlds import make_worlds

pytestmark = pytest.mark.timeout(400)

EPISODES = 4
POLICY = LinearScorer(weights_from({"rx_ratio": -1.0, "cpu_requested_ratio": 0.3, "siblings_on_node_share": 0.5}))


@dataclass
class Recorder:
    """A policy with a guard that trips in the rows given, and which remembers what it saw."""

    outside: tuple[int, ...] = ()
    value: float = 1.0
    name: ClassVar[str] = "policy"
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")
    seen: list[Encoding] = field(default_factory=list)

    def rate(self, encoding, candidates):
        self.seen.append(encoding)
        return self.value * np.arange(candidates.shape[-1]) * np.ones(candidates.shape)

    def score(self, state, demand, candidates):
        raise AssertionError("the features are at hand")

    def out_of_range(self, encoding, candidates):
        return np.isin(np.arange(len(candidates)), self.outside)


@pytest.fixture
def env(small) -> BatchEnv:
    return BatchEnv(make_worlds(small, seed=3, episodes=EPISODES))


def highest_by(scorer, env) -> np.ndarray:
    values = scorer.score(env.state(), env.demand(), env.candidates())
    return np.nanmax(np.where(env.candidates(), values, -np.inf), axis=-1)


def value_of(scorer, env, actions) -> np.ndarray:
    return scorer.score(env.state(), env.demand(), env.candidates())[np.arange(env.clusters), actions]


def test_rows_off_the_range_are_answered_by_the_traffic_heuristic(env):
    served = AsServed(Recorder(outside=(1, 3)))
    actions = served.choose(env, np.random.default_rng(0))
    last = [np.flatnonzero(row)[-1] for row in env.candidates()]
    assert actions[[0, 2]].tolist() == [last[0], last[2]]
    fallback = ExpectedUtilisation()
    np.testing.assert_allclose(value_of(fallback, env, actions)[[1, 3]], highest_by(fallback, env)[[1, 3]])
    assert (served.asked, served.answered) == (EPISODES, EPISODES - 2)


def test_without_fresh_metrics_requests_decide(env):
    served = AsServed(Recorder(), freshness=Freshness(stale_after_s=-1.0))
    actions = served.choose(env, np.random.default_rng(0))
    np.testing.assert_allclose(value_of(LeastAllocated(), env, actions), highest_by(LeastAllocated(), env))
    assert (served.asked, served.answered) == (EPISODES, 0)


def test_values_that_are_not_finite_are_not_used(env):
    served = AsServed(Recorder(value=np.nan))
    actions = served.choose(env, np.random.default_rng(0))
    np.testing.assert_allclose(value_of(ExpectedUtilisation(), env, actions), highest_by(ExpectedUtilisation(), env))
    assert served.answered == 0


def test_a_policy_that_refuses_the_batch_is_counted_as_no_answer(env):
    class Refusing(Recorder):
        def rate(self, encoding, candidates):
            raise ScoringUnavailable("3 scores are not finite")

    served = AsServed(Refusing())
    actions = served.choose(env, np.random.default_rng(0))
    np.testing.assert_allclose(value_of(ExpectedUtilisation(), env, actions), highest_by(ExpectedUtilisation(), env))
    assert served.answered == 0


def test_every_row_is_what_the_ladder_of_the_sidecar_says(small):
    """The ladder asks one cluster at a time; metrics get lost so that nodes are held at the median."""
    blind = small.model_copy(update={"scraping": small.scraping.model_copy(update={"missing": 0.3, "blind": 0.2})})
    env, freshness = BatchEnv(make_worlds(blind, seed=8, episodes=EPISODES)), Freshness(stale_after_s=40.0)
    ladder = Ladder(
        [Step(scorer, Breaker(lambda: 0.0), freshness) for scorer in (POLICY, ExpectedUtilisation(), LeastAllocated())],
        lambda: 0.0,
    )
    rng, sources = np.random.default_rng(0), set()
    for _ in range(25):
        actions = AsServed(POLICY, freshness=freshness).choose(env, rng)
        for row in np.flatnonzero(~env.done):
            state, demand = env.state(slice(row, row + 1)), env.demand(slice(row, row + 1))
            one = {column.name: getattr(state, column.name)[0] for column in fields(state)}
            pod = {name: getattr(demand, name)[0] for name in demand.__slots__}
            answer = ladder.score(type(state)(**one), type(demand)(**pod), env.candidates()[row], np.inf)
            levels = quantise(answer.values, env.candidates()[row])
            assert levels[actions[row]] == levels[env.candidates()[row]].max()
            sources.add(answer.source)
        env.step(actions)
    assert sources >= {"linear", "least_allocated"}


def test_single_candidates_are_no_question(env):
    env.live.mask[:, 1:] = False
    served = AsServed(Recorder())
    assert served.choose(env, np.random.default_rng(0)).tolist() == [0] * EPISODES
    assert served.asked == 0


def test_clusters_that_are_done_are_not_asked_again(env):
    policy = Recorder()
    served = AsServed(policy)
    rng = np.random.default_rng(0)
    while not env.done.all():
        env.step(served.choose(env, rng))
    assert min(len(each.nodes) for each in policy.seen) < EPISODES
    assert sum(len(each.nodes) for each in policy.seen) == env.decisions.sum()
    assert env.invalid.sum() == 0


def test_pods_that_ask_for_gpus_go_to_the_model_for_them():
    encoding = Encoding(np.zeros((4, 3, len(NODE_FEATURES)), np.float32), np.zeros((4, len(POD_FEATURES)), np.float32))
    encoding.pod[[1, 2], POD_COLUMN["gpu_request"]] = 0.125
    candidates = np.ones((4, 3), dtype=np.bool_)
    both = ByGpus(Recorder(value=1.0, outside=(0,)), Recorder(value=5.0, outside=(1,)))
    assert both.rate(encoding, candidates)[:, 1].tolist() == [1.0, 5.0, 5.0, 1.0]
    assert both.out_of_range(encoding, candidates).tolist() == [True, False, True, False]


def test_metrics_grow_stale_earlier_than_features_forget_them():
    assert Freshness().stale_after_s < STALE_AFTER_S

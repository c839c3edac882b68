"""Compiled play of linear scorers: the same as playing them step by step. The first test waits for numba."""

from __future__ import annotations

import numpy as np
import pytest

from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES
from agent.linear import LinearScorer, weights_from
from envs.batch_arrays import COUNT, RUN_AT, RUN_MORE
from envs.batch_env import BatchEnv
from envs.batch_linear import play_linear
from envs.workloads.scenario import Scenario, Span, load_scenario
from envs.workloads.synthetic import make_tapes
from envs.workloads.tape import Tape
from training.play import play

pytestmark = pytest.mark.timeout(600)

# Every node differs in these, so that no two are equal and the ways to break ties do not matter.
SPREAD = weights_from({"worst_expected_ratio": -1.0, "network_hot": -3.0, "cpu_requested_ratio": -0.113, "price": 0.37})
PACK = weights_from({"memory_requested_ratio": 1.0, "siblings_in_zone_share": 0.7, "cpu_expected_ratio": 0.31})


def short(name: str, **nodes: object) -> Scenario:
    """No node without metrics: held at the median beside a single other candidate it would be its equal."""
    world = load_scenario(name)
    scraping = world.scraping.model_copy(update={"blind": 0.0})
    changes = {"nodes": world.nodes.model_copy(update=nodes), "scraping": scraping, "horizon_s": 500.0}
    return world.model_copy(update=changes)


@pytest.fixture(scope="module")
def tape() -> Tape:
    return make_tapes(short("microservices"), 3, range(6))


@pytest.mark.parametrize(
    ("name", "nodes"),
    [("microservices", {}), ("edge", {}), ("bursts", {}), ("mixed", {"count": Span(low=10, high=60)})],
)
def test_costs_what_the_same_scorer_costs_step_by_step(name: str, nodes: dict[str, Span]) -> None:
    tape = make_tapes(short(name, **nodes), 3, range(4))
    for weights in (SPREAD, PACK):
        env, slow = BatchEnv(tape), play(LinearScorer(weights), tape)
        np.testing.assert_allclose(play_linear(env, weights), slow.terms, rtol=1e-9, atol=1e-12)
        assert env.done.all()
        assert env.decisions.tolist() == slow.decisions.tolist()
        assert env.invalid.tolist() == [0] * 4


def test_every_cluster_follows_its_own_weights_wherever_it_stands(tape: Tape) -> None:
    both = np.stack([SPREAD, PACK])
    mixed = play_linear(BatchEnv(tape, np.array([0, 0, 1, 1])), both, np.array([0, 1, 1, 0])).copy()
    alone = [play_linear(BatchEnv(tape), weights).copy() for weights in both]
    np.testing.assert_array_equal(mixed, [alone[0][0], alone[1][0], alone[1][1], alone[0][1]])
    assert not np.array_equal(mixed[0], mixed[1])


def test_a_stopped_cluster_goes_on_as_if_it_had_never_stopped(tape: Tape) -> None:
    whole = play_linear(BatchEnv(tape), SPREAD).copy()
    env = BatchEnv(tape)
    until_s = env.clock_s + np.arange(6) * 17.0
    sum_ = play_linear(env, SPREAD, until_s=until_s).copy()
    assert (env.clock_s >= until_s).all()
    assert (env.clock_s < until_s + 2.0).all()
    np.testing.assert_allclose(sum_ + play_linear(env, SPREAD), whole, rtol=1e-9)


def test_the_first_choice_can_be_given_and_only_the_first(tape: Tape) -> None:
    env, twin = BatchEnv(tape), BatchEnv(tape)
    last = np.array([np.flatnonzero(mask)[-1] for mask in env.candidates()])
    given = play_linear(env, SPREAD, actions=last)
    by_hand = twin.step(last).copy()
    np.testing.assert_allclose(by_hand + play_linear(twin, SPREAD), given, rtol=1e-9)
    assert not np.array_equal(given, play_linear(BatchEnv(tape), SPREAD))


def test_equal_nodes_take_turns(tape: Tape) -> None:
    """With no weights at all the pods of two minutes still land on most of the nodes."""
    env = BatchEnv(tape)
    began_s = env.clock_s.copy()
    play_linear(env, np.zeros(len(NODE_FEATURES)), until_s=began_s + 120.0)
    for cluster in range(env.clusters):
        running = env.live.count[cluster, COUNT.running]
        new = env.live.run_more[cluster, :running, RUN_MORE.bound_at_s] >= began_s[cluster]
        taken = env.live.run_at[cluster, :running, RUN_AT.node][new]
        assert len(np.unique(taken)) > min(env.node_slots, len(taken)) / 2


def test_a_node_without_metrics_is_taken_only_if_all_lack_them() -> None:
    blind = load_scenario("microservices").scraping.model_copy(update={"blind": 0.5})
    world = short("microservices", count=Span(low=6, high=6)).model_copy(update={"scraping": blind})
    overrides = world.binding.model_copy(update={"override": 0.0})
    tape = make_tapes(world.model_copy(update={"binding": overrides}), 1, range(8))
    env = BatchEnv(tape)
    missing = env.encode().nodes[:, :, NODE_COLUMN["metric_missing"]] > 0
    assert missing.any(axis=1).any()
    before = env.truth("pods").copy()
    loves_missing = weights_from({"metric_missing": 100.0})
    play_linear(env, loves_missing, until_s=env.clock_s + 1.0)
    placed = env.truth("pods") > before
    assert placed.any()
    assert not (placed & missing & ~missing.all(axis=1, keepdims=True)).any()


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (np.zeros(3), {}, "3 weights"),
        (np.zeros((2, len(NODE_FEATURES))), {"which": np.full(6, 2)}, "outside the 2 vectors"),
        (SPREAD, {"which": np.zeros(5, dtype=np.int64)}, "which has the shape"),
        (SPREAD, {"until_s": np.zeros(7)}, "until_s has the shape"),
        (SPREAD, {"actions": np.zeros(7, dtype=np.int64)}, "actions has the shape"),
    ],
)
def test_arrays_of_a_wrong_size_are_refused(tape: Tape, weights, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        play_linear(BatchEnv(tape), weights, **options)

"""The two agents of the NetworkTraffic thesis as scorers: what they see and what they cannot do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from agent.breaker import Breaker
from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES, POD_FEATURES, Encoding
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.registry import scorer_by_name
from agent.ladder import Ladder, Step
from agent.scorer import FeatureScorer, ScoringUnavailable
from envs.batch_env import BatchEnv
from envs.workloads.scenario import load_scenario
from training.play import play
from training.thesis_agents import (
    AGENTS,
    DQN_FEATURES,
    SCORER_OF,
    DqnScorer,
    document_observation,
    dqn_observation,
    forward,
    load,
    path_of,
    save,
    slots_observed,
    thesis_scorer,
    trained_for,
)
from training.worlds import make_worlds

pytestmark = pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator

SLOTS = 4


def an_agent(name: str, slots: int = SLOTS, seed: int = 0):
    """Untrained, with random weights of the published shape."""
    rng = np.random.default_rng(seed)
    sizes = [slots_observed(name, slots), 120, 84, slots + (name == "document")]
    layers = tuple(
        (rng.normal(0.0, 0.1, (after, before)).astype(np.float32), rng.normal(0.0, 0.1, after).astype(np.float32))
        for before, after in pairwise(sizes)
    )
    return SCORER_OF[name](slots, layers, {"seed": seed})


@pytest.fixture(scope="module")
def tape(small):
    return make_worlds(small, seed=5, episodes=3)


# --- what they see


def test_document_agent_sees_receive_rates_and_the_mean_where_one_is_unknown():
    seen = document_observation(np.array([[100.0, np.nan, 300.0], [np.nan, np.nan, np.nan]]), slots=5)
    assert seen.tolist() == [[1.0, 2.0, 3.0, 0.0, 0.0], [0.0] * 5]


def test_dqn_sees_the_features_of_each_node_one_after_the_other_and_the_pod_last():
    nodes = np.zeros((2, len(NODE_FEATURES)), dtype=np.float32)
    nodes[1, NODE_COLUMN[DQN_FEATURES[2]]] = 7.0
    pod = np.arange(len(POD_FEATURES), dtype=np.float32)
    seen = dqn_observation(Encoding(nodes, pod), slots=3)
    assert np.flatnonzero(seen[: 3 * len(DQN_FEATURES)]).tolist() == [len(DQN_FEATURES) + 2]
    assert seen[3 * len(DQN_FEATURES) :].tolist() == pod.tolist()


def test_a_network_is_linear_layers_with_relu_between_them():
    first = (np.array([[1.0, 0.0], [0.0, -1.0]], dtype=np.float32), np.array([0.0, 1.0], dtype=np.float32))
    last = (np.array([[1.0, 10.0]], dtype=np.float32), np.array([-5.0], dtype=np.float32))
    assert forward((first, last), np.array([[2.0, 3.0], [-2.0, 0.5]], dtype=np.float32)).tolist() == [[-3.0], [0.0]]


# --- as scorers


@pytest.mark.parametrize("name", AGENTS)
def test_both_play_whole_episodes_and_decide_within_the_mask(name, tape, monkeypatch):
    made = []
    monkeypatch.setattr("training.play.BatchEnv", lambda *a, **k: made.append(BatchEnv(*a, **k)) or made[-1])
    played = play(an_agent(name), tape)
    assert played.decisions.min() > 10
    assert made[0].invalid.tolist() == [0] * 3


def test_dqn_gives_the_same_values_with_compiled_features_and_without(tape):
    env, agent = BatchEnv(tape), an_agent("dqn")
    assert isinstance(agent, FeatureScorer)
    candidates = env.candidates()
    by_state = agent.score(env.state(), env.demand(), candidates)
    np.testing.assert_allclose(agent.rate(env.encode(), candidates), by_state, atol=1e-5)


@pytest.mark.parametrize("name", AGENTS)
def test_serving_never_explores_so_one_state_has_one_answer(name, tape):
    env, agent = BatchEnv(tape), an_agent(name)
    answers = [agent.score(env.state(), env.demand(), env.candidates()) for _ in range(20)]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


@pytest.mark.parametrize("name", AGENTS)
def test_more_nodes_than_trained_for_are_refused_and_the_ladder_goes_on(name, tape):
    env, agent = BatchEnv(tape), an_agent(name, slots=3)
    state, demand, candidates = env.state(slice(1)), env.demand(slice(1)), env.candidates()[:1]
    with pytest.raises(ScoringUnavailable, match="trained for 3 nodes, asked about 4"):
        agent.score(state, demand, candidates)
    ladder = Ladder([a_step(agent), a_step(ExpectedUtilisation())], clock=lambda: 0.0)
    scores = ladder.score(state, demand, candidates)
    assert scores.source == "expected_utilisation"


@pytest.mark.parametrize("name", AGENTS)
def test_a_fully_masked_set_is_answered_by_the_fallback(name, tape):
    env = BatchEnv(tape)
    nobody = np.zeros((1, SLOTS), dtype=np.bool_)
    ladder = Ladder([a_step(an_agent(name)), a_step(ExpectedUtilisation())], clock=lambda: 0.0)
    assert ladder.score(env.state(slice(1)), env.demand(slice(1)), nobody).source == "neutral"


def test_fewer_nodes_than_slots_are_answered(small, tape):
    assert play(an_agent("dqn", slots=9), tape).decisions.min() > 10


def test_swapping_nodes_changes_more_than_the_order():
    """Why S1.21 wants another network: this one is tied to the places of the nodes."""
    agent, rng = an_agent("dqn"), np.random.default_rng(3)
    nodes = rng.random((SLOTS, len(NODE_FEATURES))).astype(np.float32)
    pod = rng.random(len(POD_FEATURES)).astype(np.float32)
    here, order = np.ones(SLOTS, dtype=np.bool_), [1, 0, 2, 3]
    values, swapped = agent.rate(Encoding(nodes, pod), here), agent.rate(Encoding(nodes[order], pod), here)
    assert np.abs(values[order] - swapped).max() > 1e-3


def a_step(scorer) -> Step:
    return Step(scorer, Breaker(clock=lambda: 0.0))


# --- stored


@pytest.mark.parametrize("name", AGENTS)
def test_saved_and_loaded_it_scores_the_same_to_the_last_bit(name, tape, tmp_path):
    env, agent = BatchEnv(tape), an_agent(name)
    save(agent, path_of(name, "small", tmp_path))
    again = thesis_scorer(name, "small", tmp_path)
    values = agent.score(env.state(), env.demand(), env.candidates())
    np.testing.assert_array_equal(again.score(env.state(), env.demand(), env.candidates()), values)
    assert again.facts == {"seed": 0}
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}-small.npz"]


def test_agents_that_were_not_trained_are_named_with_the_choices(tmp_path):
    save(an_agent("dqn"), path_of("dqn", "small", tmp_path))
    with pytest.raises(InputError, match="not trained for scenario 'mixed', only for small"):
        thesis_scorer("dqn", "mixed", tmp_path)
    with pytest.raises(InputError, match="unknown thesis agent 'ppo': choose one of document, dqn"):
        thesis_scorer("ppo", "small", tmp_path)
    assert not trained_for("small", tmp_path)  # one of two


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_one_clear_error(content, tmp_path):
    path = tmp_path / "dqn-small.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"dqn-small\.npz: cannot be read as a thesis agent"):
        load("dqn", path)


def test_weights_of_another_feature_schema_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "dqn-small.npz"
    monkeypatch.setattr("training.thesis_agents.SCHEMA_VERSION", 999)
    save(an_agent("dqn"), path)
    monkeypatch.undo()
    with pytest.raises(InputError, match="made for feature schema 999"):
        load("dqn", path)


# --- the released ones


@pytest.mark.parametrize("name", AGENTS)
def test_released_agents_beat_chance_where_the_thesis_trained_them(name):
    """Three workers, the scenario of S1.38; held-out seeds. They were trained to follow traffic, and do."""
    tape = make_worlds_of("deployments", episodes=24)
    agent, chance = (play(scorer, tape).cost_per_hour for scorer in (thesis_scorer(name, "deployments"), random()))
    assert agent.mean() < 0.9 * chance.mean()


def make_worlds_of(scenario: str, episodes: int):
    return make_worlds(load_scenario(scenario), seed=1_000_000, episodes=episodes)


def random():
    return scorer_by_name("random")


def test_released_dqn_has_the_published_shape():
    agent = thesis_scorer("dqn", "deployments")
    assert isinstance(agent, DqnScorer)
    assert [len(bias) for _, bias in agent.layers] == [120, 84, 3]

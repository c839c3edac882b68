"""The search for a head of a world's own plays what the network would play, and finds cheaper ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agent.features import NODE_COLUMN, NODE_FEATURES
from envs.workloads.scenario import load_scenario
from models.linear import MIX, load_linear
from models.network import NodeScorer
from models.onnx_scorer import OnnxScorer
from training import head_search
from training.as_served import ByGpus
from training.contestants import GPU_FOLDER
from training.head_search import Search, costs_of_heads, search_head, units_of
from training.pair_search import MOST_USUAL, along
from training.play import play
from training.ppo import TrainingWorld, make_stack
from training.specialists import joined, only
from training.watching import NetworkScorer

FRESH = 5


@pytest.fixture(scope="module")
def world() -> TrainingWorld:
    """Where every node has metrics: nodes without are told apart at random, and two runs would differ."""
    scenario = load_scenario("deployments")
    seen = scenario.scraping.model_copy(update={"missing": 0.0, "blind": 0.0})
    return TrainingWorld(scenario.model_copy(update={"scraping": seen}), 1, 1.0)


def network(rule: np.ndarray) -> NodeScorer:
    torch.manual_seed(3)
    scorer = NodeScorer(8, rule[None])
    torch.nn.init.normal_(scorer.score.weight, std=0.1)
    return scorer


def test_costs_are_those_of_the_networks_played_one_by_one(world: TrainingWorld) -> None:
    learned = network(load_linear(MIX).weights)
    correction = np.random.default_rng(1).normal(0.0, 0.5, len(NODE_FEATURES) + learned.hidden)
    tape = make_stack(world, FRESH, range(4))
    cost, decisions = costs_of_heads(learned, np.array([np.zeros_like(correction), correction]), tape)
    corrected = only(joined(learned, [correction]), 1)
    played = [play(scorer, tape) for scorer in (NetworkScorer(learned), corrected)]
    np.testing.assert_allclose(cost, [each.cost_per_hour for each in played], rtol=1e-6)
    assert decisions == sum(int(each.decisions.sum()) for each in played)


def test_pods_that_ask_for_gpus_are_placed_by_the_model_for_them() -> None:
    learned, gpu = network(load_linear(MIX).weights), OnnxScorer.load(GPU_FOLDER)
    tape = make_stack(TrainingWorld(load_scenario("gpu"), 1, 1.0), FRESH, range(1))
    nothing = np.zeros((1, len(NODE_FEATURES) + learned.hidden))
    cost, _ = costs_of_heads(learned, nothing, tape)
    alone, served = NetworkScorer(learned), ByGpus(NetworkScorer(learned), gpu)  # type: ignore[arg-type]
    by_both, by_one = (play(each, tape, seed=head_search.SEED).cost_per_hour for each in (served, alone))
    np.testing.assert_allclose(cost[0], by_both, rtol=1e-6)
    assert cost[0] != pytest.approx(by_one)


def test_few_at_once_give_the_same_costs(world: TrainingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    learned, tape = network(load_linear(MIX).weights), make_stack(world, FRESH, range(3))
    corrections = np.random.default_rng(1).normal(0.0, 0.5, (3, len(NODE_FEATURES) + learned.hidden))
    together = costs_of_heads(learned, corrections, tape)
    monkeypatch.setattr(head_search, "NODES_AT_ONCE", 2 * tape.node_slots)
    apart = costs_of_heads(learned, corrections, tape)
    np.testing.assert_allclose(apart[0], together[0])
    assert apart[1] == together[1]


def test_a_spoilt_rule_is_mended(world: TrainingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_search, "vector_names", list)  # nothing to start from but the spoilt one
    spoilt = network(-load_linear(MIX).weights)
    search = Search(population=16, generation=10_000, first_spread=0.5, last_spread=0.1)
    head = search_head(spoilt, world, 60_000, search)
    (before, after), _ = costs_of_heads(
        spoilt, np.array([np.zeros_like(head), head]), make_stack(world, FRESH, range(16))
    )
    assert after.mean() < 0.95 * before.mean()


def test_a_step_goes_along_each_pair_by_how_much_cheaper_it_is_than_its_opposite() -> None:
    half = np.array([[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(along(half, np.array([1.0, -1.0])), [0.5, -1.0])
    np.testing.assert_allclose(along(half, np.array([0.0, 0.0])), [0.0, 0.0])
    many = np.eye(20)
    assert along(many, np.array([1000.0, *[0.1] * 19]))[0] == pytest.approx(MOST_USUAL / 20)  # one does not decide


def test_inputs_that_tell_no_nodes_apart_get_no_weight(world: TrainingWorld) -> None:
    per_unit = units_of(network(load_linear(MIX).weights), world).per_unit
    assert per_unit[NODE_COLUMN["gpu_size"]] == 0.0  # no node there has GPUs
    assert per_unit[NODE_COLUMN["metric_missing"]] == 0.0
    assert per_unit[NODE_COLUMN["cpu_requested_ratio"]] > 0.0

"""A linear scorer takes over in its own world, where it is cheaper, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agent.features import NODE_FEATURES
from envs.workloads.scenario import load_scenario
from models.linear import MIX, load_linear
from models.network import NodeScorer
from training import specialists
from training.ppo import TrainingWorld, make_stack
from training.specialists import LEARNED, Rows, as_sharp, joined, show, teach, with_specialists

WORLDS = ("deployments", "edge")
SEED, UNSEEN = 3, 4
TAUGHT = 1  # the number of the only specialist's rule


@pytest.fixture(scope="module")
def learned() -> NodeScorer:
    """A network that knows the mix, and a little more."""
    torch.manual_seed(1)
    scorer = NodeScorer(16, load_linear(MIX).weights[None], sharpness=0.5)
    torch.nn.init.normal_(scorer.score.weight, std=0.01)
    return scorer


@pytest.fixture(scope="module")
def shown() -> dict[int, list[Rows]]:
    """What each world looks like, by the seed of its tapes."""
    worlds = [TrainingWorld(load_scenario(name), 1, 1.0) for name in WORLDS]
    return {
        seed: [show(load_linear(world.scenario.name), make_stack(world, seed, range(3)), seed=seed) for world in worlds]
        for seed in (SEED, UNSEEN)
    }


@pytest.fixture(scope="module")
def advised(learned: NodeScorer, shown: dict[int, list[Rows]]) -> NodeScorer:
    """With a specialist for edge alone."""
    edge = as_sharp(load_linear("edge").weights, learned, shown[SEED][1])
    scorer = joined(learned, [edge])
    teach(scorer, shown[SEED], [LEARNED, TAUGHT], seed=1)
    return scorer


def chosen(scorer: NodeScorer, rows: Rows) -> np.ndarray:
    with torch.no_grad():
        scores = torch.where(rows.mask, scorer(rows.nodes, rows.pod, rows.mask), -torch.inf)
    return scores.argmax(dim=-1).numpy()


def test_gate_knows_worlds_on_tapes_that_it_has_not_seen(advised: NodeScorer, shown: dict[int, list[Rows]]) -> None:
    for rule, rows in zip((LEARNED, TAUGHT), shown[UNSEEN], strict=True):
        with torch.no_grad():
            share = advised.embed(rows.nodes, rows.pod, rows.mask).rules[:, rule].mean()
        assert share > 0.9


def test_the_specialist_decides_in_its_world_and_what_was_learned_elsewhere(
    advised: NodeScorer, learned: NodeScorer, shown: dict[int, list[Rows]]
) -> None:
    deployments, edge = shown[UNSEEN]
    assert (chosen(advised, deployments) == chosen(learned, deployments)).mean() > 0.9
    wanted = np.where(edge.mask, edge.nodes.numpy() @ load_linear("edge").weights, -np.inf).argmax(axis=-1)
    assert (chosen(advised, edge) == wanted).mean() > 0.9


def test_a_specialist_is_made_as_sharp_as_the_network_and_keeps_its_order(
    learned: NodeScorer, shown: dict[int, list[Rows]]
) -> None:
    own, rows = load_linear("edge").weights, shown[SEED][1]
    made = as_sharp(own, learned, rows)
    np.testing.assert_allclose(made / np.linalg.norm(made), own / np.linalg.norm(own))
    with torch.no_grad():
        scores = learned(rows.nodes, rows.pod, rows.mask).numpy()
    linear = float(learned.sharpness) * rows.nodes.numpy() @ made
    spreads = [np.nanstd(np.where(rows.mask, each, np.nan), axis=-1).mean() for each in (linear, scores)]
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-3)


def test_only_a_scorer_that_is_surely_cheaper_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialists, "COMPARED_TAPES", 6)
    monkeypatch.setattr(specialists, "SHOWN_TAPES", 2)
    monkeypatch.setattr(specialists, "STEPS", 20)
    worlds = [TrainingWorld(load_scenario(name), 1, 1.0) for name in WORLDS]
    bad = NodeScorer(8, -load_linear(MIX).weights[None])  # prefers what the mix avoids
    good = NodeScorer(8, load_linear("edge").weights[None])
    assert with_specialists(bad, worlds, seed=1).rule.weight.shape == (3, len(NODE_FEATURES))
    assert with_specialists(good, worlds[1:], seed=1) is good

"""Learning starts from what several linear scorers know, each where it was tuned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agent.features import NODE_FEATURES
from envs.workloads.scenario import load_scenario
from models.linear import MIX, load_linear
from models.network import NodeScorer
from training.ppo import TrainingWorld, make_stack
from training.priors import NONE, OWN, Rows, alike, first_priors, show, teach

WORLDS = ("deployments", "edge")
SEED, UNSEEN = 3, 4


@pytest.fixture(scope="module")
def shown() -> dict[int, list[Rows]]:
    """What each world looks like, by the seed of its tapes."""
    worlds = [TrainingWorld(load_scenario(name), 1, 1.0) for name in WORLDS]
    return {
        seed: [show(load_linear(world.scenario.name), make_stack(world, seed, range(3)), seed=seed) for world in worlds]
        for seed in (SEED, UNSEEN)
    }


@pytest.fixture(scope="module")
def taught(shown: dict[int, list[Rows]]) -> NodeScorer:
    torch.manual_seed(1)
    scorer = NodeScorer(16, alike([load_linear(name) for name in WORLDS], shown[SEED]), sharpness=0.5)
    teach(scorer, shown[SEED], seed=1)
    return scorer


def test_gate_knows_worlds_that_it_has_not_seen(taught: NodeScorer, shown: dict[int, list[Rows]]) -> None:
    for world, rows in enumerate(shown[UNSEEN]):
        with torch.no_grad():
            share = taught.embed(rows.nodes, rows.pod, rows.mask).rules[:, world].mean()
        assert share > 0.9


def test_each_scorer_decides_in_its_own_world(taught: NodeScorer, shown: dict[int, list[Rows]]) -> None:
    for name, rows in zip(WORLDS, shown[UNSEEN], strict=True):
        wanted = np.where(rows.mask, rows.nodes.numpy() @ load_linear(name).weights, -np.inf).argmax(axis=-1)
        with torch.no_grad():
            scores = torch.where(rows.mask, taught(rows.nodes, rows.pod, rows.mask), -torch.inf)
        assert (scores.argmax(dim=-1).numpy() == wanted).mean() > 0.9


def test_scorers_are_made_equally_sharp_and_keep_their_order(shown: dict[int, list[Rows]]) -> None:
    own = [load_linear(name) for name in WORLDS]
    mix = load_linear(MIX).weights
    for before, after, rows in zip(own, alike(own, shown[SEED]), shown[SEED], strict=True):
        np.testing.assert_allclose(after / np.linalg.norm(after), before.weights / np.linalg.norm(before.weights))
        spreads = [np.nanstd(np.where(rows.mask, rows.nodes.numpy() @ each, np.nan), axis=-1) for each in (after, mix)]
        assert spreads[0].mean() == pytest.approx(spreads[1].mean(), rel=1e-3)


def test_scenario_without_a_scorer_of_its_own_starts_from_the_mix() -> None:
    names = [scorer.name for scorer in first_priors(OWN, ["edge", "a-recording"])]
    assert names == ["linear_edge", "linear_mix"]
    assert first_priors(NONE, ["edge"]) == []
    assert len(first_priors(MIX, WORLDS)[0].weights) == len(NODE_FEATURES)

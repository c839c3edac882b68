"""A head of a world's own takes over there, where it is cheaper, and nowhere else."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import active_children

import cloudpickle
import numpy as np
import pytest
import torch

from agent.cluster import FloatArray
from agent.features import NODE_FEATURES
from envs.workloads.scenario import load_scenario
from envs.workloads.tape import Tape
from models.linear import MIX, load_linear
from models.network import NodeScorer
from training import specialists
from training.head_search import Search
from training.ppo import TrainingWorld, make_stack
from training.specialists import (
    LEARNED,
    Rows,
    Specialist,
    joined,
    only,
    own_heads,
    show,
    teach,
    with_specialists,
)
from training.watching import NetworkScorer

WORLDS = ("deployments", "edge")
SEED, UNSEEN = 3, 4
TAUGHT = 1  # the number of the only specialist's head


@pytest.fixture(scope="module")
def learned() -> NodeScorer:
    """A network that knows the mix, and a little more."""
    torch.manual_seed(1)
    scorer = NodeScorer(16, load_linear(MIX).weights[None], sharpness=0.5)
    torch.nn.init.normal_(scorer.score.weight, std=0.01)
    return scorer


@pytest.fixture(scope="module")
def correction(learned: NodeScorer) -> np.ndarray:
    """That makes another network of it."""
    rule = 0.5 * (load_linear("edge").weights - load_linear(MIX).weights)
    return np.concatenate([rule, np.random.default_rng(2).normal(0.0, 0.1, learned.hidden)])


@pytest.fixture(scope="module")
def shown(learned: NodeScorer) -> dict[int, list[Rows]]:
    """What each world looks like, by the seed of its tapes."""
    worlds = [TrainingWorld(load_scenario(name), 1, 1.0) for name in WORLDS]
    return {
        seed: [show(NetworkScorer(learned), make_stack(world, seed, range(3)), seed=seed) for world in worlds]
        for seed in (SEED, UNSEEN)
    }


@pytest.fixture(scope="module")
def advised(learned: NodeScorer, correction: np.ndarray, shown: dict[int, list[Rows]]) -> NodeScorer:
    """With a specialist for edge alone."""
    scorer = joined(learned, [correction])
    teach(scorer, shown[SEED], [LEARNED, TAUGHT], seed=1)
    return scorer


def scores(scorer: NodeScorer, rows: Rows) -> np.ndarray:
    with torch.no_grad():
        return torch.where(rows.mask, scorer(rows.nodes, rows.pod, rows.mask), -torch.inf).numpy()


def chosen(scorer: NodeScorer, rows: Rows) -> np.ndarray:
    return scores(scorer, rows).argmax(axis=-1)


def test_a_head_is_what_was_learned_and_its_correction(
    learned: NodeScorer, correction: np.ndarray, shown: dict[int, list[Rows]]
) -> None:
    rows = shown[SEED][1]
    with torch.no_grad():
        seen = torch.cat([rows.nodes, learned.embed(rows.nodes, rows.pod, rows.mask).nodes], dim=-1).numpy()
    corrected = scores(learned, rows) + seen @ correction
    head = only(joined(learned, [correction]), TAUGHT).network
    np.testing.assert_allclose(scores(head, rows), corrected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        scores(only(joined(learned, [correction]), LEARNED).network, rows), scores(learned, rows)
    )


def test_gate_knows_worlds_on_tapes_that_it_has_not_seen(advised: NodeScorer, shown: dict[int, list[Rows]]) -> None:
    for head, rows in zip((LEARNED, TAUGHT), shown[UNSEEN], strict=True):
        with torch.no_grad():
            share = advised.embed(rows.nodes, rows.pod, rows.mask).heads[:, head].mean()
        assert share > 0.9


def test_the_specialist_decides_in_its_world_and_what_was_learned_elsewhere(
    advised: NodeScorer, learned: NodeScorer, shown: dict[int, list[Rows]]
) -> None:
    deployments, edge = shown[UNSEEN]
    assert (chosen(advised, deployments) == chosen(learned, deployments)).mean() > 0.9
    assert (chosen(advised, edge) == chosen(only(advised, TAUGHT).network, edge)).mean() > 0.9


def test_only_a_head_that_is_cheaper_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialists, "SHOWN_TAPES", 2)
    monkeypatch.setattr(specialists, "STEPS", 20)
    few = Search(population=4, generation=1, tried=1, compared=8)
    worlds = [TrainingWorld(load_scenario(name), 1, 1.0, own_head_decisions=1) for name in WORLDS]
    bad = NodeScorer(8, -load_linear(MIX).weights[None])  # prefers what the mix avoids
    assert with_specialists(bad, worlds, 1, few).rule.weight.shape == (3, len(NODE_FEATURES))
    assert with_specialists(bad, [replace(world, own_head_decisions=0) for world in worlds], 1, few) is bad
    good = NodeScorer(8, load_linear("edge").weights[None])
    assert (
        with_specialists(good, worlds[1:], 1, Search(population=4, generation=1, first_spread=3.0, tried=1, compared=8))
        is good
    )


def test_heads_are_searched_for_and_the_gate_is_taught_where_the_world_says(
    learned: NodeScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specialists, "SHOWN_TAPES", 1)
    monkeypatch.setattr(specialists, "STEPS", 1)
    made: list[str] = []
    nothing = np.zeros(len(NODE_FEATURES) + learned.hidden)
    searched, there = map(load_scenario, WORLDS)

    def own_heads(network: NodeScorer, worlds: list[TrainingWorld], *_: object) -> list[FloatArray]:
        made.extend(world.scenario.name for world in worlds)
        return [nothing]

    def taught(world: TrainingWorld, seed: int, numbers: range) -> Tape:
        made.append(world.scenario.name)
        return make_stack(world, seed, numbers)

    monkeypatch.setattr(specialists, "own_heads", own_heads)
    monkeypatch.setattr(specialists, "make_stack", taught)
    with_specialists(learned, [TrainingWorld(searched, 1, 1.0, head_scenario=there)], 1)
    assert made == [there.name, there.name]


def test_a_search_starts_from_the_head_that_was_found_for_another_world(
    learned: NodeScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which they need each other, whatever the order of the worlds."""
    done: list[tuple[str, FloatArray | None]] = []

    class Here:
        def submit(self, called: object, search: bytes) -> Future[Specialist]:
            asked, found = cloudpickle.loads(search), Future[Specialist]()
            _, world, _, start = asked.args
            done.append((world.scenario.name, start))
            found.set_result(Specialist(np.full(3, float(len(done))), -1.0, 0.5))
            return found

    monkeypatch.setattr(specialists, "_processes", lambda: nullcontext(Here()))
    first, second = (TrainingWorld(load_scenario(name), 1, 1.0, own_head_decisions=1) for name in WORLDS)
    later = replace(first, head_from=second.scenario.name)
    heads = own_heads(learned, [later, second], Search(), lambda text: None)
    assert [name for name, _ in done] == [second.scenario.name, first.scenario.name]
    assert done[0][1] is None
    np.testing.assert_array_equal(done[1][1], np.full(3, 1.0))
    assert [head[0] for head in heads] == [2.0, 1.0]


def test_a_search_that_is_interrupted_is_not_waited_for(learned: NodeScorer) -> None:
    """The other one would take hours; a test may take a minute."""

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    few = Search(population=4, generation=1, tried=1, compared=8)
    worlds = [
        TrainingWorld(load_scenario(name), 1, 1.0, own_head_decisions=decisions)
        for name, decisions in zip(WORLDS, (1, 10**9), strict=True)
    ]
    before = set(active_children())
    with pytest.raises(KeyboardInterrupt):
        own_heads(learned, worlds, few, interrupted)
    assert set(active_children()) <= before

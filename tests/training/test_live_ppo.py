"""What a live run learns, played in the simulator: it has the same interface, and thousands of pods a minute."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
from stable_baselines3.common.logger import configure

from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES
from envs.cluster_env import ClusterEnv
from models.onnx_scorer import OnnxScorer
from models.onnx_weights import network_of
from training.live_config import Exploring, LiveConfig, parse_live_config
from training.live_ppo import LEARNING, Keep, LivePPO, Placement, best_few, lesson_of
from training.live_refusals import MOST_IN_A_ROW

FULLNESS = NODE_COLUMN["cpu_requested_ratio"]
CONFIG = {
    "pods_per_update": 32,
    "exploring": {"top": 4, "temperature": 1.0},
    "learning": {"first_rate": 0.01, "last_rate": 0.01, "batch_size": 64, "entropy": 0.0, "renewal": 1.0},
    "exam": {"scenarios": ["microservices"]},
}


class SimulatedLive(ClusterEnv):
    """The simulator, with the infos of a real cluster; ``added`` says what a placement is taken to cost."""

    def __init__(self, scenario, added: Callable[[int], float]) -> None:
        super().__init__(scenario)
        self.added = added

    def step(self, action):
        added = self.added(int(action))
        observation, reward, terminated, truncated, info = super().step(action)
        assert not truncated, "the horizon is too short for this test"
        info |= {"measured": True, "added_usd_per_hour": added, "decision_source": "agent"}
        return observation, reward, terminated, truncated, info


@pytest.fixture
def make_run(small, model_folder):
    def make(added: Callable[[LivePPO, int], float], keep: Keep = lambda run: None, **changes) -> LivePPO:
        config: LiveConfig = parse_live_config(CONFIG | changes, "test")
        env = SimulatedLive(small.model_copy(update={"horizon_s": 3600.0}), lambda node: added(run, node))
        run = LivePPO(env, OnnxScorer.load(model_folder), network_of(model_folder), config, lambda info: None, keep)
        run.set_logger(configure(None, []))
        return run

    return make


def fullness(run: LivePPO, node: int) -> float:
    """A world in which only the requested CPU of the node costs anything."""
    assert run._seen is not None
    return float(run._seen["nodes"][node, FULLNESS])


def expected_cost(run: LivePPO, seen: list[Placement]) -> float:
    lesson = lesson_of(seen).decisions
    batch = {"nodes": torch.from_numpy(lesson.nodes), "pod": torch.from_numpy(lesson.pod)}
    with torch.no_grad():
        log_p, _ = run.learner.judge(batch, torch.from_numpy(lesson.mask))
    return float((log_p.exp().numpy() * lesson.nodes[:, :, FULLNESS]).sum(axis=1).mean())


@pytest.mark.slow
def test_choices_that_cost_more_become_rarer_and_only_the_last_layers_move(make_run) -> None:
    run = make_run(fullness, safety={"rise": 1000.0})  # nobody takes over here
    before = {name: weights.clone() for name, weights in run.learner.scorer.state_dict().items()}
    seen = []
    explored = run._explored

    def noted(observation, mask):
        seen.append(explored(observation, mask))
        return seen[-1]

    run._explored = noted
    run.learn(400)
    after = run.learner.scorer.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == set(LEARNING)
    learned = expected_cost(run, seen[:64])
    run.begin_anew()
    assert learned < 0.98 * expected_cost(run, seen[:64])


def test_a_learner_that_costs_more_falls_back_to_the_released_weights(make_run) -> None:
    run = make_run(lambda run, node: 5.0 if run.guard.learner_decides() else 1.0)
    run.learn(160)
    assert run.guard.given_up
    for name, weights in run.first.state_dict().items():
        assert torch.equal(run.learner.scorer.state_dict()[name], weights)
        assert torch.equal(run.scorer.state_dict()[name], weights)


def test_it_is_kept_before_each_binding_and_again_when_its_cost_is_known(make_run) -> None:
    kept = []
    run = make_run(fullness, lambda run: kept.append((run.num_timesteps, len(run.guard.state()["last"]))))
    run.learn(2)
    assert kept == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]


FORBIDDEN = '403: pods "one" is forbidden: cannot create resource "pods/binding"'


def refuse(run: LivePPO, monkeypatch, refused: Callable[[int], str]) -> None:
    """The so-manieth attempt is refused with these words, or bound."""
    attempts = iter(range(10_000))
    step = run.live.step

    def tried(action):
        why = refused(next(attempts))
        if not why:
            return step(action)
        info = {"decision_source": "none", "refused": why, "measured": False, "pod": "shop/one"}
        return run._seen, 0.0, False, False, info

    monkeypatch.setattr(run.live, "step", tried)


def test_bindings_that_are_always_refused_end_the_run_with_the_reason_and_what_to_do(make_run, monkeypatch, caplog):
    run = make_run(fullness)
    refuse(run, monkeypatch, lambda attempt: FORBIDDEN)
    with pytest.raises(InputError, match=r"in a row were refused.*pods/binding.*pilotfish rbac --training"):
        run.learn(160)
    assert run.num_timesteps == 0
    assert [record.getMessage() for record in caplog.records] == [f"pod shop/one is not bound: {FORBIDDEN}"]


def test_a_binding_that_is_refused_now_and_then_is_said_counts_nothing_and_ends_nothing(make_run, monkeypatch, caplog):
    run = make_run(fullness)
    refuse(run, monkeypatch, lambda attempt: f"node {attempt} is gone" if attempt % MOST_IN_A_ROW else "")
    with caplog.at_level(logging.WARNING):
        run.learn(3)
    assert run.num_timesteps == 3
    assert len(caplog.records) == 2 * (MOST_IN_A_ROW - 1)


def test_it_draws_among_its_best_few_candidates_only() -> None:
    log_p = np.log(np.array([0.1, 0.4, 0.2, 0.25, 0.05], dtype=np.float32))
    mask = np.array([True, True, True, False, True])
    nodes, odds = best_few(log_p, mask, Exploring(top=3, temperature=0.5))
    assert nodes.tolist() == [1, 2, 0]
    assert odds == pytest.approx(np.array([16.0, 4.0, 1.0]) / 21.0)
    assert best_few(log_p, np.eye(5, dtype=np.bool_)[2], Exploring())[0].tolist() == [2]


def placement(action: int, gain: float, weight: float = 2.0, value: float = 0.0) -> Placement:
    empty = np.zeros((3, len(NODE_FEATURES)), dtype=np.float32)
    mask, log_p = np.ones(3, dtype=np.bool_), np.zeros(3, dtype=np.float32)
    return Placement(empty, np.zeros(16, dtype=np.float32), mask, log_p, value, action, weight, gain)


def test_a_placement_is_judged_beside_the_others_and_what_was_expected() -> None:
    lesson = lesson_of([placement(0, -3.0), placement(2, -1.0)])
    assert lesson.advantages.tolist() == [[-2.0, 0.0, 0.0], [0.0, 0.0, 2.0]]
    expected = lesson_of([placement(0, -3.0, value=-3.0), placement(2, -1.0, value=-1.0)])
    assert not expected.advantages.any()
    assert lesson_of([placement(0, -3.0)]).advantages.tolist() == [[0.0, 0.0, 0.0]]

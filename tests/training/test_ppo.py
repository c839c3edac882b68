"""What an update learns from, by hand: the dollars of a whole episode, discounted by the time between decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agent.cluster import BoolArray
from agent.features import FeatureArray
from envs.batch_env import BatchEnv
from envs.workloads.scenario import Scenario
from training.config import parse_config
from training.group_episodes import Choice, Decisions, play_episodes
from training.ppo import HOURS_PER_DISCOUNT, TrainingWorld, lesson_of, make_stack

HALF_S = 100.0 * math.log(2.0)  # in which a dollar of CONFIG loses half of its weight, and a trace three quarters
CONFIG = parse_config({"worlds": [{"scenario": "edge"}], "credit": {"discount_s": 100.0, "trace_s": 50.0}}, "test")


@pytest.fixture
def episode() -> Decisions:
    """Two clusters of one group decide about two pods, between two nodes that are alike."""
    rows = 4
    return Decisions(
        nodes=np.zeros((rows, 2, 1), np.float32),
        pod=np.zeros((rows, 1), np.float32),
        mask=np.ones((rows, 2), bool),
        action=np.array([0, 1, 0, 1]),
        log_p=np.log(np.full((rows, 2), 0.5, np.float32)),
        step=np.array([0, 0, 1, 1]),
        cluster=np.array([0, 1, 0, 1]),
        tape=np.zeros(rows, np.int64),
        pod_index=np.array([0, 0, 1, 1]),
        own_usd=np.zeros((rows, 2), np.float32),
        bound=np.array([0, 1, 0, 1]),
        explored=np.ones(rows, bool),
        cost_usd=np.array([[1.0, 2.0], [3.0, 5.0]]),
        value=np.array([[-2.0, -1.0], [-4.0, -3.0]]),
        last_value=np.array([-8.0, -4.0]),
        elapsed_s=np.array([[1.0, 1.0], [2.0, 2.0]]) * HALF_S,
        active=np.ones((2, 2), bool),
    )


def test_an_episode_of_two_steps_is_judged_as_by_hand(episode: Decisions, small: Scenario) -> None:
    world = TrainingWorld(small, groups=1, usd_per_hour=HOURS_PER_DISCOUNT)  # so that a dollar counts as one
    lesson = lesson_of(episode, world, CONFIG)
    second = [-3 - 8 / 4 + 4, -5 - 4 / 4 + 3]  # paid, expected after two halvings, not what the critic had expected
    first = [-1 - 4 / 2 + 2 + second[0] / 2 / 4, -2 - 3 / 2 + 1 + second[1] / 2 / 4]
    np.testing.assert_allclose(lesson.returns, [first[0] - 2, first[1] - 1, second[0] - 4, second[1] - 3])
    beyond = np.array([first[0] - first[1], first[1] - first[0], second[0] - second[1], second[1] - second[0]])
    drawn = beyond / np.sqrt(np.mean(beyond**2)) / 0.5  # over the probability of the node that was drawn
    rows = np.arange(4)
    np.testing.assert_allclose(lesson.advantages[rows, episode.action], drawn, rtol=1e-6)
    np.testing.assert_allclose(lesson.advantages[rows, 1 - episode.action], 0.0)


def test_steps_last_until_the_next_decision_and_the_critic_is_asked_about_what_comes_after(small: Scenario) -> None:
    asked = []

    def first_fit(nodes: FeatureArray, pod: FeatureArray, mask: BoolArray) -> Choice:
        asked.append(len(mask))
        log_p = np.where(mask, -1.0, -np.inf).astype(np.float32)
        value = np.full(len(mask), float(len(asked)))  # the number of the question
        return Choice(mask.argmax(axis=1), value, log_p, np.zeros(len(mask), bool))

    tape = make_stack(TrainingWorld(small, 1, 1.0), 1, range(1))
    made = play_episodes(first_fit, tape, 2, own_account=True, threads=1)
    began_s = BatchEnv(tape, np.zeros(2, np.int64), threads=1).clock_s
    np.testing.assert_allclose(began_s + made.elapsed_s.sum(axis=0), small.horizon_s)
    assert made.last_value.tolist() == [len(asked)] * 2
    assert made.value[:, 0].tolist() == list(range(1, len(asked)))

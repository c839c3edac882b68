"""The safety rule of live training, on costs written by hand and on costs recorded on a real control plane."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from training.live_config import Safety
from training.live_guard import Guard

RECORDED = json.loads((Path(__file__).parent / "fixtures" / "live_costs.json").read_text(encoding="utf-8"))
RULE = Safety(control_every=4, window=16, least=4, rise=0.1, certainty=3.0, most_falls=2)


def play(guard: Guard, learner: list[float], released: list[float], pods: int) -> list[bool]:
    """Place so many pods, each policy with its costs in turn; who placed each."""
    costs = {True: learner, False: released}
    count = {True: 0, False: 0}
    placed = []
    for _ in range(pods):
        who = guard.learner_decides()
        placed.append(who)
        guard.note(who, costs[who][count[who] % len(costs[who])])
        count[who] += 1
    return placed


def test_every_fourth_pod_is_the_released_policys() -> None:
    placed = play(Guard(RULE), [1.0], [1.0], 12)
    assert placed == [False, True, True, True] * 3


@pytest.mark.parametrize("skewed", [False, True])
def test_a_learner_that_costs_as_much_hardly_ever_falls(skewed) -> None:
    """Of 20 runs of 300 pods at most two; costs are spread, or mostly nothing and sometimes a node."""
    rng = np.random.default_rng(0)
    falls = 0
    for _ in range(20):
        costs = 0.39 * (rng.random(300) < 0.2) if skewed else rng.normal(1.0, 0.3, 300)
        guard = Guard(Safety())
        play(guard, costs[:225].tolist(), costs[225:].tolist(), 300)
        falls += guard.falls > 0
    assert falls <= 2


def test_the_running_cost_rises_and_the_released_policy_takes_over_for_a_window() -> None:
    guard = Guard(RULE)
    placed = play(guard, [1.5], [1.0], 14 + RULE.window + 4)
    assert guard.falls == 1
    assert placed[:14] == [False, True, True, True] * 3 + [False, True]  # the fourth of the released policy, then one
    assert placed[14 : 14 + RULE.window] == [False] * RULE.window
    assert placed[14 + RULE.window :] == [False, True, True, True]


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        ([1.08], {}),  # less than the allowed rise
        ([5.0, 0.2, 0.2, 0.2], {}),  # dearer in the mean, but by one placement that may be chance
        ([3.0], {"least": 6}),  # too few to say
    ],
)
def test_no_fall_without_a_rise_that_is_large_and_sure(learner, rule) -> None:
    guard = Guard(RULE.model_copy(update=rule))
    play(guard, learner, [1.0], 20)
    assert guard.falls == 0


def test_after_the_last_fall_the_released_policy_places_all_that_is_left() -> None:
    guard = Guard(RULE)
    placed = play(guard, [2.0], [1.0], 140)
    assert guard.given_up
    assert guard.falls == RULE.most_falls
    assert not any(placed[-60:])


def test_a_cluster_that_gets_dearer_for_both_is_nobodys_fall() -> None:
    guard = Guard(RULE)
    for pod in range(200):
        guard.note(guard.learner_decides(), 1.0 + 0.01 * pod)
    assert guard.falls == 0


def test_nobody_learns_while_nothing_is_measured() -> None:
    guard = Guard(RULE)
    guard.note(False, 1.0)
    assert guard.learner_decides()
    guard.unmeasured()
    assert not guard.learner_decides()
    guard.note(False, 1.0)
    assert guard.learner_decides()


def test_a_restored_guard_decides_as_the_one_before() -> None:
    one, other = Guard(RULE), Guard(RULE)
    play(one, [1.2], [1.0], 11)
    other.restore(json.loads(json.dumps(one.state())))
    assert play(one, [1.5], [1.0], 40) == play(other, [1.5], [1.0], 40)
    assert one.falls == other.falls > 0


def test_a_restored_guard_is_blind_as_the_one_before() -> None:
    one, other = Guard(RULE), Guard(RULE)
    one.note(False, 1.0)
    one.unmeasured()
    other.restore(json.loads(json.dumps(one.state())))
    assert not other.learner_decides()
    other.note(False, 1.0)
    assert other.learner_decides()


def test_costs_recorded_on_a_real_control_plane_tell_a_bad_policy_from_the_released_one() -> None:
    """Dollars an hour that placements added: by the released policy, and by one that took the busiest node."""
    guard = Guard(Safety())
    play(guard, RECORDED["busiest_node"], RECORDED["released"], 60)
    assert guard.falls >= 1
    calm = Guard(Safety())
    play(calm, RECORDED["released"], RECORDED["released"], 60)
    assert calm.falls == 0

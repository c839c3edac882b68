"""The released policy without its knowledge of traffic: an ablation of the report, as a verdict that is kept."""

from __future__ import annotations

import pytest

from envs.workloads.scenario import load_scenario
from training.ablations import ABLATIONS, Ablated
from training.comparison import difference
from training.contestants import RELEASED_NAME, models_named
from training.evaluate import Exam, outcomes_of

EPISODES = 200
CLEAREST = "edge"  # where NICs are small
SHUFFLED = next(each for each in ABLATIONS if each.name == "traffic shuffled")


@pytest.mark.slow
@pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator
def test_with_traffic_shuffled_the_released_policy_costs_surely_more(say):
    policy, world = models_named([]), load_scenario(CLEAREST)
    shuffled, whole = (
        outcomes_of(policy, world, Exam(EPISODES), handicap)[RELEASED_NAME]
        for handicap in (SHUFFLED.handicap, SHUFFLED.reference)
    )
    found = Ablated(CLEAREST, SHUFFLED, difference(shuffled.cost, whole.cost))
    change = found.change
    say(f"{CLEAREST}, traffic shuffled: {change.percent:+.1f} ± {change.half_width_95_percent:.1f} % of the cost")
    assert found.hurts
    assert whole.answered_share > 0.9  # it is the policy that loses, not the ladder below it

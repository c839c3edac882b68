"""The released policy, scored again: 20 episodes that it never saw, paired with the heuristics it must be ahead of."""

from __future__ import annotations

import numpy as np
import pytest

from agent.heuristics.registry import scorer_by_name
from envs.workloads.scenario import load_scenario
from models.manifest import RELEASED
from models.onnx_scorer import OnnxScorer
from training.play import play
from training.statistics import paired_difference
from training.worlds import make_worlds

EPISODES = 20
HELD_OUT_SEED = 1_500_000
HEURISTICS = ("expected_utilisation", "least_allocated", "most_allocated", "network_overhead", "network_traffic")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["microservices", "edge"])
def test_the_released_policy_is_ahead_of_every_heuristic(name: str) -> None:
    tape = make_worlds(load_scenario(name), HELD_OUT_SEED, EPISODES)
    policy = play(OnnxScorer.load(RELEASED / "default"), tape).cost_per_hour
    for heuristic in HEURISTICS:
        mean, half_width = paired_difference(policy, play(scorer_by_name(heuristic), tape).cost_per_hour)
        assert mean + half_width < 0, f"{heuristic} is not surely dearer: {mean:.2f} ± {half_width:.2f} USD/h"


@pytest.mark.slow
def test_the_released_policy_gives_the_same_result_again() -> None:
    tape = make_worlds(load_scenario("deployments"), HELD_OUT_SEED, 4)
    scorer = OnnxScorer.load(RELEASED / "default")
    np.testing.assert_array_equal(play(scorer, tape).terms, play(scorer, tape).terms)

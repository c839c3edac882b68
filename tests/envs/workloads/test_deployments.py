"""The training scenario of the NetworkTraffic thesis (S1.38), as its file has it."""

from __future__ import annotations

import numpy as np
import pytest

from envs.dynamics.costs import TERM
from envs.dynamics.world import World
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape
from tests.tapes import different

DEPLOYMENTS = 30
GAP_S = 2.0


@pytest.fixture(scope="module")
def tape() -> Tape:
    return make_tape(load_scenario("deployments"), 7)


def rounds(column: np.ndarray) -> np.ndarray:
    """(rounds, deployments)"""
    return column.reshape(-1, DEPLOYMENTS)


def test_every_deployment_is_one_pod_of_250m_and_64_mib(tape):
    assert (tape.pod_cpu_request_millicores == 250).all()
    assert (tape.pod_memory_request_mib == 64).all()
    assert (np.sort(rounds(tape.pod_app)) == np.arange(DEPLOYMENTS)).all()
    assert not tape.pod_initial.any()


def test_30_come_2_s_apart_are_deleted_together_and_come_again(tape):
    arrival_s, end_s = rounds(tape.pod_arrival_s), rounds(tape.pod_arrival_s + tape.pod_duration_s)
    assert len(arrival_s) > 1
    np.testing.assert_allclose(np.diff(arrival_s, axis=1), GAP_S)
    np.testing.assert_allclose(end_s, np.broadcast_to(arrival_s[:, -1:] + GAP_S, end_s.shape))
    assert (arrival_s[1:, 0] > end_s[:-1, 0]).all(), "the next round begins in an empty cluster"


def test_the_same_seed_gives_the_same_tape_and_another_seed_another(tape):
    same, other = (make_tape(load_scenario("deployments"), seed) for seed in (7, 8))
    assert different(tape, same) == set()
    assert different(tape, other) >= {"pod_rx_mbps", "app_load"}


def played(tape: Tape) -> np.ndarray:
    """Terms after every decision of the first round, each pod on the node with the fewest."""
    world = World(tape)

    def place() -> np.ndarray:
        return world.step(int(np.argmin(np.where(world.mask, world.pods, np.inf)))).copy()

    terms = np.array([place() for _ in range(DEPLOYMENTS)])
    assert world.clock_s > tape.pod_arrival_s[DEPLOYMENTS - 1]
    return terms


def test_a_round_is_placed_without_a_failure_and_costs_the_same_again(tape):
    first = played(tape)
    assert first[:, TERM["failures"]].sum() == 0
    assert first.sum() > 0
    np.testing.assert_array_equal(first, played(make_tape(load_scenario("deployments"), 7)))

"""The exporter's truth is the simulator's: the same placements make the same counters and the same costs."""

import re
from dataclasses import replace

import numpy as np
import pytest

from envs.dynamics import costs
from envs.dynamics.world import World
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from tests.cluster.replaying import first_placements
from tests.cluster.tape_objects import pod_name
from tests.cluster.truth import BYTES_PER_MBIT, Truth

SPEED = 10.0
DECISIONS = 120
SHARED_TERMS = [costs.NETWORK_LOSS, costs.CROSS_ZONE, costs.THROTTLING, costs.IMBALANCE, costs.MONEY]


@pytest.fixture(scope="module")
def tape():
    """Pods that never end and are never killed: the simulator ends pods itself, here the API server would tell."""
    given = make_tape(load_scenario("bursts"), 0, 0)
    return replace(
        given,
        pod_duration_s=np.full_like(given.pod_duration_s, 1e6),
        pod_memory_use_ratio=np.full_like(given.pod_memory_use_ratio, 0.1),
    )


@pytest.fixture(scope="module")
def lived_through(tape):
    """A world that packed its pods onto few nodes, and the truth that was only told of the bindings."""
    world, truth = World(tape), Truth(tape)
    follow(truth, world)
    truth.terms = costs.no_costs()  # what happened before the first decision is nobody's doing, as in the world
    terms = costs.no_costs()
    for _ in range(DECISIONS):
        terms += world.step(int(np.flatnonzero(world.mask)[0]))
        follow(truth, world)
    return world, truth, terms


def follow(truth: Truth, world: World) -> None:
    """A world places its pod and then lets the time pass."""
    for placement in world.running:
        truth.bound(placement.pod, placement.node)
    while truth.clock_s < world.clock_s:
        truth.advance()


def shown(page: str, metric: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{metric}(?:{{.*}})? (.*)$", page, re.MULTILINE))


def test_the_same_placements_cost_the_same(lived_through):
    _, truth, terms = lived_through
    assert terms[costs.NETWORK_LOSS] > 0
    assert truth.terms[SHARED_TERMS] == pytest.approx(terms[SHARED_TERMS])


def test_the_pages_show_what_was_carried_and_never_what_was_asked(lived_through, tape):
    world, truth, _ = lived_through
    for node in range(tape.node_slots):
        page = truth.page(node)
        assert shown(page, "node_network_receive_bytes_total") == pytest.approx(world.rx_mbit[node] * BYTES_PER_MBIT)
        assert shown(page, "node_network_transmit_bytes_total") == pytest.approx(world.tx_mbit[node] * BYTES_PER_MBIT)
        capacity_mbit = tape.node_nic_mbps[node] * truth.clock_s
        assert shown(page, "node_network_receive_bytes_total") <= capacity_mbit * BYTES_PER_MBIT * (1 + 1e-9)
        cores = tape.node_cpu_millicores[node] / 1000
        assert shown(page, "node_cpu_seconds_total") == pytest.approx(cores * truth.clock_s)


def test_a_pod_that_is_gone_asks_for_nothing(tape):
    truth = Truth(tape)
    truth.bound(0, 0)
    truth.advance()
    truth.gone(0)
    truth.gone(0)  # told twice, as a watch that begins anew does
    truth.advance()
    alone = Truth(tape)
    alone.advance()
    first_of_alone = shown(alone.page(0), "node_memory_MemAvailable_bytes")
    assert shown(truth.page(0), "node_memory_MemAvailable_bytes") == first_of_alone


def test_a_pod_is_shown_what_it_got_through_by_the_clock_on_the_wall(tape):
    """Two on one NIC that ask for twice what it carries: each is shown its half of it."""
    pods = np.flatnonzero(tape.pod_rx_mbps > 0)[:2]
    asked_mbps = np.zeros_like(tape.pod_rx_mbps)
    asked_mbps[pods] = tape.node_nic_mbps[0]
    quiet = np.zeros_like(tape.background_rx_ratio)
    steady = np.ones_like(tape.app_load)
    alone = np.zeros_like(tape.app_sibling_mbps)
    busy = replace(
        tape,
        pod_rx_mbps=asked_mbps,
        background_rx_ratio=quiet,
        app_load=steady,
        app_sibling_mbps=alone,
        pod_metrics=np.asarray(True),
    )
    truth = Truth(busy, SPEED, "apps")
    for pod in pods:
        truth.bound(int(pod), 0)
    truth.advance()
    for pod in pods:
        series = (
            f'container_network_receive_bytes_total{{namespace="apps",pod="{pod_name(tape, pod)}",interface="eth0"}} '
        )
        line = next(line for line in truth.page(0).splitlines() if line.startswith(series))
        half_mbit = tape.node_nic_mbps[0] / 2 * tape.tick_s
        assert float(line.removeprefix(series)) == pytest.approx(half_mbit * BYTES_PER_MBIT / SPEED)
    without = Truth(replace(busy, pod_metrics=np.asarray(False)))
    without.bound(int(pods[0]), 0)
    assert "container_" not in without.page(0)


def test_before_it_begins_counters_run_and_nothing_is_held_against_anybody(tape):
    truth = Truth(tape, begun=False)
    truth.advance()
    assert shown(truth.page(0), "node_cpu_seconds_total") > 0
    assert (truth.clock_s, truth.meter.offered_mbit, truth.terms.sum()) == (0.0, 0.0, 0.0)
    truth.begun = True
    truth.advance()
    assert truth.clock_s == tape.tick_s
    assert truth.meter.offered_mbit > 0


def test_a_pod_whose_time_is_over_is_named_by_the_tick_that_ends_it(tape):
    short = replace(tape, pod_duration_s=np.full_like(tape.pod_duration_s, 1.5 * float(tape.tick_s)))
    truth = Truth(short)
    truth.bound(3, 0)
    assert [truth.advance(), truth.advance()] == [[], [3]]


def test_pods_that_run_already_stand_where_the_simulator_puts_them():
    tape = make_tape(load_scenario("bursts"), 0, 0)
    here = first_placements(replace(tape, pod_arrival_s=np.where(tape.pod_initial, 0, np.inf).astype(np.float32)))
    assert here == {placement.pod: placement.node for placement in _untouched(tape).running}


def _untouched(tape) -> World:
    """A world in which no time has passed."""

    class Still(World):
        def _until_decision(self) -> None:
            pass

    return Still(tape)

"""What must hold at every tick of every world: nothing appears, nothing vanishes, nothing is negative."""

from __future__ import annotations

import numpy as np
import pytest

from envs.dynamics import costs
from envs.dynamics.world import World
from envs.workloads.synthetic import make_tape

WORLDS = {
    "plain": {},
    "maintenance": {"nodes": {"maintenance": 0.6}},
    "memory kills": {"apps": {"memory_use_ratio": {"low": 1.0, "high": 1.6}, "use_jitter": 0.4}},
    "overload": {"arrivals": {"load": {"low": 1.3, "high": 1.6}}, "pending_timeout_s": 20},
    "gpus": {"nodes": {"kinds": [{"gpus": 4}]}, "gpus": {"share": 0.8}},
    "late watch": {"binding": {"override": 0.5, "visible_after": 20}},
}
SEEDS = (0, 1)


class CheckedWorld(World):
    """Runs every check after every tick."""

    def __init__(self, tape, assume=True):
        self.ended: set[int] = set()
        self.failed = 0
        self.kills = 0
        self.drained = 0
        self.initial = set(np.flatnonzero(tape.pod_initial))
        super().__init__(tape, assume)

    def _populate(self):
        super()._populate()
        self.ended |= self.initial - {placement.pod for placement in self.running}  # found no room: never was here

    def _advance(self):
        counters = [counter.copy() for counter in (self.cpu_millicore_s, self.rx_mbit, self.tx_mbit)]
        terms, due = self.terms.copy(), self.running
        super()._advance()
        self._settle(self.terms - terms, due)
        check_counters(counters, (self.cpu_millicore_s, self.rx_mbit, self.tx_mbit))
        check_allocation(self)
        check_every_pod_is_somewhere(self)
        check_nothing_negative(self)
        assert all(self.schedulable[placement.node] for placement in self.running)

    def _settle(self, rise, due):
        assert (rise >= 0).all(), "costs never shrink"
        self.failed += int(rise[costs.FAILURES])
        self.kills += int(rise[costs.KILLS])
        here = {placement.pod for placement in self.running} | {waiting.pod for waiting in self.waiting}
        self.ended |= {p.pod for p in due if p.ends_at_s <= self.clock_s and p.pod not in here}


def check_counters(before, after):
    for old, new in zip(before, after, strict=True):
        assert (new >= old).all(), "counters never fall"


def check_allocation(world):
    tape = world.tape
    pod = np.array([placement.pod for placement in world.running], dtype=int)
    node = np.array([placement.node for placement in world.running], dtype=int)

    def per_node(values):
        return np.bincount(node, weights=values, minlength=tape.node_slots)

    close = np.testing.assert_allclose
    close(world.cpu_allocated_millicores, per_node(tape.pod_cpu_request_millicores[pod]), atol=1e-6)
    close(world.memory_allocated_mib, per_node(tape.pod_memory_request_mib[pod]), atol=1e-6)
    np.testing.assert_array_equal(world.pods, per_node(np.ones(len(pod))))
    asked = tape.pod_gpus[pod].astype(float) * tape.pod_gpu_milli[pod]
    close(tape.node_gpus * 1000.0 - world.gpu_free_milli.sum(axis=1), per_node(asked))
    assert (world.cpu_allocated_millicores <= tape.node_cpu_millicores).all()
    assert (world.memory_allocated_mib <= tape.node_memory_mib).all()
    assert (world.pods <= tape.node_pods).all()
    assert (world.app_pods.sum(axis=0) == world.pods).all()


def check_every_pod_is_somewhere(world):
    """Not yet arrived, waiting, running, ended or given up: each pod in exactly one of them."""
    running = [placement.pod for placement in world.running]
    waiting = [waiting.pod for waiting in world.waiting]
    here = running + waiting + sorted(world.ended)
    assert len(here) == len(set(here)), "a pod is in two places"
    assert set(here) <= set(range(world.arrived))
    assert world.arrived - len(here) == world.failed


def check_nothing_negative(world):
    loads = world.last_loads
    for values in (loads.cpu_millicores, loads.memory_mib, loads.rx_mbps, loads.tx_mbps, world.gpu_free_milli):
        assert (values >= 0).all()
    assert loads.cross_zone_mbps >= -1e-9
    assert (world.remaining_s >= 0).all()
    known = world.knowledge
    for values in (known.cpu_requested_millicores, known.memory_requested_mib, known.pods, known.app_pods):
        assert (values >= -1e-6).all()


def play(world, seed=0, each_step=lambda world: None):
    rng = np.random.default_rng(seed)
    while not world.done:
        each_step(world)
        world.step(int(rng.choice(np.flatnonzero(world.candidates()))))
    return world


@pytest.fixture
def checked(tiny_scenario):
    def make(name, seed, **options):
        return CheckedWorld(make_tape(tiny_scenario(**WORLDS[name]), seed), **options)

    return make


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WORLDS)
def test_every_tick_conserves_pods_resources_and_counters(checked, name, seed):
    world = play(checked(name, seed), seed)
    assert world.decisions > 10
    assert world.ended - world.initial, "no pod that was placed has ended: the test saw too little"


def test_worlds_of_these_tests_contain_what_they_are_named_for(checked):
    assert any(play(checked("memory kills", seed), seed).kills for seed in SEEDS)
    assert any(play(checked("overload", seed), seed).failed for seed in SEEDS)
    assert any(np.isfinite(checked("maintenance", seed).tape.node_maintenance_start_s).any() for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_sibling_traffic_sent_equals_sibling_traffic_received(checked, seed):
    world = checked("plain", seed)
    crossed = []

    def against_every_pair_of_siblings(world):
        sent, received = sibling_flows_mbps(world)
        loads = world._loads()
        external_rx, external_tx = external_mbps(world)
        np.testing.assert_allclose(loads.rx_mbps - external_rx, received, atol=1e-6)
        np.testing.assert_allclose(loads.tx_mbps - external_tx, sent, atol=1e-6)
        assert sent.sum() == pytest.approx(received.sum())
        crossed.append(sent.sum())

    play(world, seed, against_every_pair_of_siblings)
    assert max(crossed) > 0


def sibling_flows_mbps(world):
    """What crosses the NICs, by node, from the list of all pairs of siblings."""
    tape, sent, received = world.tape, np.zeros(world.tape.node_slots), np.zeros(world.tape.node_slots)
    step = int(world.clock_s / tape.load_step_s)
    app_of = [int(tape.pod_app[placement.pod]) for placement in world.running]
    for one, app in zip(world.running, app_of, strict=True):
        others = [p for p, theirs in zip(world.running, app_of, strict=True) if theirs == app and p is not one]
        for other in others:
            if other.node != one.node:
                flow = float(tape.app_sibling_mbps[app]) * float(tape.app_load[step, app]) / len(others)
                sent[one.node] += flow
                received[other.node] += flow
    return sent, received


def external_mbps(world):
    tape, step = world.tape, int(world.clock_s / world.tape.load_step_s)
    rx = tape.background_rx_ratio[step] * tape.node_nic_mbps
    tx = tape.background_tx_ratio[step] * tape.node_nic_mbps
    for placement in world.running:
        load = float(tape.app_load[step, tape.pod_app[placement.pod]])
        rx[placement.node] += float(tape.pod_rx_mbps[placement.pod]) * load
        tx[placement.node] += float(tape.pod_tx_mbps[placement.pod]) * load
    return rx, tx


@pytest.mark.parametrize("assume", [True, False])
@pytest.mark.parametrize("name", ["plain", "gpus"])
def test_requests_known_equal_requests_allocated_when_the_watch_is_not_late(tiny_scenario, name, assume):
    parts = {**WORLDS[name], "binding": {"override": 0.5, "visible_after": 0}}
    world = World(make_tape(tiny_scenario(**parts), 3), assume)

    def equal(world):
        state = world.state()
        np.testing.assert_allclose(state.cpu_requested_millicores, world.cpu_allocated_millicores, atol=1e-6)
        np.testing.assert_allclose(state.memory_requested_mib, world.memory_allocated_mib, atol=1e-6)
        np.testing.assert_array_equal(state.pods_running, world.pods)
        np.testing.assert_array_equal(state.gpu_free_milli, world.gpu_free_milli)

    play(world, 0, equal)
    assert world.decisions > 10


@pytest.mark.parametrize("assume", [True, False])
def test_requests_known_reach_the_truth_however_late_the_watch_is(checked, assume):
    world = checked("late watch", 0, assume=assume)
    apart = []

    def once_everything_is_visible(world):
        state = world.state()
        if all((p.known_node, p.known_gpus) == (p.node, p.gpus) for p in world.running):
            np.testing.assert_allclose(state.cpu_requested_millicores, world.cpu_allocated_millicores, atol=1e-6)
            np.testing.assert_array_equal(state.pods_running, world.pods)
        apart.append(not np.array_equal(state.pods_running, world.pods))

    play(world, 0, once_everything_is_visible)
    assert any(apart), "the watch was never late: the test saw nothing"
    assert all(p.known_node == p.node for p in world.running if p.visible_at < world.decisions)

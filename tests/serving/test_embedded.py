import threading
import time

import numpy as np
import pytest
import yaml

from agent.errors import InputError
from envs.dynamics.world import World
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from serving.decide import new_decider
from serving.embedded import EmbeddedSimulation, app_name, nodes_of, snapshot_of
from serving.settings import ModelSettings, Settings, SimulationSettings


@pytest.fixture
def world():
    return World(make_tape(load_scenario("microservices"), 0))


@pytest.fixture
def counted():
    return []


@pytest.fixture
def live_decider(counted):
    settings = Settings(model=ModelSettings(folder="none"))
    return new_decider(settings, time.monotonic, counted.append, lambda skip: None)


def wait_for(condition, within_s=20.0):
    until_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until_s, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def start(live_decider):
    started = []

    def begin(**settings):
        simulation = EmbeddedSimulation(SimulationSettings(**settings), live_decider, time.monotonic)
        started.append(simulation)
        simulation.start()
        return simulation

    yield begin
    for simulation in started:
        simulation.stop()


def test_the_snapshot_is_what_the_world_lets_a_sidecar_know(world):
    snapshot = snapshot_of(world, nodes_of(world.tape), now_s=5.0)
    assert len(snapshot.nodes) == snapshot.state.node_count == world.nodes
    assert snapshot.taken_at_s == 5.0
    np.testing.assert_array_equal(snapshot.state.rx_mbps, world.state().rx_mbps)
    running = sum(pods.sum() for pods in snapshot.pods_by_app.values())
    assert running == world.knowledge.app_pods.sum() > 0
    assert snapshot.observed.cluster.rx_mbps == world.knowledge.cluster_observed[0]
    app = max(range(world.tape.app_slots), key=lambda each: world.knowledge.app_pods[each].sum())
    use = snapshot.observed.by_app["default", app_name(app)]
    assert use.cpu_ratio == world.knowledge.app_observed[app, 2] > 0


def test_a_published_snapshot_does_not_change_when_the_world_goes_on(world):
    snapshot = snapshot_of(world, nodes_of(world.tape), now_s=5.0)
    before = snapshot.state.cpu_requested_millicores.copy()
    pods_before = {app: pods.copy() for app, pods in snapshot.pods_by_app.items()}
    for _ in range(200):
        world.step(int(np.flatnonzero(world.candidates())[0]))
    np.testing.assert_array_equal(snapshot.state.cpu_requested_millicores, before)
    assert all((snapshot.pods_by_app[app] == pods).all() for app, pods in pods_before.items())


def test_nodes_describe_the_tape(world):
    nodes = nodes_of(world.tape)
    unknown = [node.name for node in nodes if node.nic_mbps is None]
    assert len(unknown) == (~world.tape.node_nic_known).sum()
    assert nodes[3].cpu_allocatable_millicores == world.tape.node_cpu_millicores[3]
    assert nodes[3].labels["topology.kubernetes.io/zone"] == nodes[3].zone


def test_every_pod_of_the_simulation_is_decided_by_the_same_decider(start, counted):
    start(speed=100)
    wait_for(lambda: len(counted) >= 50)
    assert {ranking.scores.source for ranking in counted} <= {"expected_utilisation", "least_allocated"}


def test_pods_arrive_in_real_time_and_not_as_fast_as_the_simulator_can(start, counted):
    simulation = start(speed=0.001)
    wait_for(lambda: simulation.snapshot() is not None)
    time.sleep(0.3)
    assert len(counted) < 30, "the pods of the first second at most; the whole episode has hundreds"


def test_snapshots_are_replaced_as_time_passes(start):
    simulation = start(speed=50)
    wait_for(lambda: simulation.snapshot() is not None)
    first = simulation.snapshot()
    wait_for(lambda: simulation.snapshot().taken_at_s > first.taken_at_s + 0.2)
    assert simulation.snapshot().state is not first.state


def test_the_next_episode_begins_when_one_ends(start, tmp_path, caplog):
    content = load_scenario("microservices").model_dump(mode="json") | {"horizon_s": 200.0}
    path = tmp_path / "short.yaml"
    path.write_text(yaml.safe_dump(content))
    caplog.set_level("INFO")
    start(scenario=str(path), speed=100)
    wait_for(lambda: "episode 1" in caplog.text)


def test_a_defect_of_the_simulator_does_not_end_the_thread(start, monkeypatch, caplog, counted):
    monkeypatch.setattr("serving.embedded.RETRY_AFTER_S", 0.01)
    monkeypatch.setattr(World, "step", lambda *_: 1 / 0)
    start(speed=100)
    wait_for(lambda: caplog.text.count("ended early") >= 2)


def test_stop_returns_at_once_while_the_next_pod_is_awaited(start):
    simulation = start(speed=0.001)
    wait_for(lambda: simulation.snapshot() is not None)
    began_s = time.monotonic()
    simulation.stop()
    assert time.monotonic() - began_s < 0.5
    assert "simulation" not in {thread.name for thread in threading.enumerate()}


def test_an_unknown_scenario_is_refused_before_anything_starts(live_decider):
    with pytest.raises(InputError, match=r"choose one of .*microservices"):
        EmbeddedSimulation(SimulationSettings(scenario="nowhere"), live_decider, time.monotonic)


def test_decisions_of_the_simulation_are_noted_with_the_node_that_the_pod_really_got(start, live_decider):
    start(speed=100)
    wait_for(lambda: len(live_decider.decisions) >= 200)
    listed = [noted.summary() for noted in live_decider.decisions.last(200)][1:]  # the newest may wait for its binding
    assert all(each["bound"] for each in listed)
    elsewhere = sum(each["bound"] != each["best"] for each in listed)
    assert 0 < elsewhere < 60, "other plugins' scores win now and then"

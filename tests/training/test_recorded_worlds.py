"""From a recording to worlds: what was recorded comes back on the tapes."""

from __future__ import annotations

import numpy as np
import pytest

from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from agent.heuristics.registry import scorer_by_name
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import Bound, Decision, Ended, Nodes, NodeSpec, PodDemand, Sample
from envs.workloads.recording_writer import RecordingWriter
from envs.workloads.synthetic import sizes_of
from training.config import load_config
from training.play import play
from training.record import pack
from training.record_simulation import record_simulation
from training.recorded_cluster import read_cluster
from training.recorded_worlds import _begin, recorded_config, recorded_scenario, recorded_stack
from training.vec_env import BatchVecEnv
from training.worlds import make_world

pytestmark = pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator

BEGAN_S = 1_000_000.0
SPAN_S = 600.0


def spec(name: str, **known) -> NodeSpec:
    return NodeSpec(name=name, cpu_allocatable_millicores=4000, memory_allocatable_mib=8192, **known)


def sample(at_s: float, cpu: list[float | None], rx: list[float | None]) -> Sample:
    nodes = ("a", "b")
    same = dict.fromkeys(("cpu_std_millicores", "connections", "tx_mbps"), (0.0, 0.0))
    ages = dict.fromkeys(("cpu_age_s", "memory_age_s", "network_age_s"), (7.5, 7.5))
    metrics = {"cpu_used_millicores": tuple(cpu), "rx_mbps": tuple(rx), "memory_used_mib": (1000.0, 2000.0)}
    return Sample(at_s=at_s, nodes=nodes, **same, **ages, **metrics)


def decision(at_s: float, uid: str, chosen: str = "a", **demand) -> Decision:
    known = {"app": "web", "cpu_request_millicores": 500.0, "memory_request_mib": 512.0} | demand
    return Decision(
        at_s=at_s,
        pod_uid=uid,
        demand=PodDemand(**known),
        candidates=("a", "b"),
        scores=(1.0, 0.5),
        source="policy",
        chosen=chosen,
    )


def pod(uid: str, from_s: float, to_s: float | None, node: str = "a", **demand) -> list:
    life = [decision(BEGAN_S + from_s, uid, **demand), Bound(at_s=BEGAN_S + from_s, pod_uid=uid, node=node)]
    return life if to_s is None else [*life, Ended(at_s=BEGAN_S + to_s, pod_uid=uid)]


def written(folder, records, nodes=None):
    """The records in order of time, as one recording."""
    first = [spec("a", zone="z1", nic_mbps=1000.0), spec("b", zone="z2")] if nodes is None else nodes
    with RecordingWriter(folder, SCHEMA_VERSION, lambda: BEGAN_S, first) as writer:
        for record in sorted(records, key=lambda record: record.at_s):
            writer.write(record)
    return folder


def samples(cpu=(300.0, 900.0), rx=(100.0, 10.0)) -> list[Sample]:
    return [sample(BEGAN_S + at_s, list(cpu), list(rx)) for at_s in np.arange(0.0, SPAN_S + 1.0, 15.0)]


# --- reading


def test_pods_have_their_lives_and_those_nobody_decided_about_are_left_out(tmp_path):
    records = [*samples(), *pod("one", 30, 90), *pod("two", 60, None, node="b")]
    records.append(Ended(at_s=BEGAN_S + 45, pod_uid="unknown"))
    pods = read_cluster(written(tmp_path / "r", records)).pods
    assert (pods.arrived_s - BEGAN_S).tolist() == [30.0, 60.0]
    assert (pods.ended_s - BEGAN_S).tolist() == [60.0 + 30.0, np.inf]
    assert pods.node.tolist() == [0, 1]
    assert pods.followed.tolist() == [1.0, 0.0]


def test_a_pod_that_was_asked_about_again_arrived_the_first_time(tmp_path):
    records = [*samples(), decision(BEGAN_S + 10, "one"), *pod("one", 40, 90)]
    pods = read_cluster(written(tmp_path / "r", records)).pods
    assert (pods.arrived_s - BEGAN_S).tolist() == [10.0]


def test_background_is_what_known_pods_are_not_expected_to_use(tmp_path):
    known = pod("one", 100, 300, expected_cpu_millicores=200.0, expected_rx_mbps=130.0)
    cluster = read_cluster(written(tmp_path / "r", [*samples(), *known]))
    during = (cluster.sample_s >= BEGAN_S + 100) & (cluster.sample_s < BEGAN_S + 300)
    cpu, rx = cluster.background["cpu_used_millicores"], cluster.background["rx_mbps"]
    assert set(cpu[during, 0]) == {100.0}
    assert set(cpu[~during, 0]) == {300.0}
    assert set(rx[during, 0]) == {0.0}  # never below nothing
    assert set(cpu[:, 1]) == {900.0}


def test_gaps_in_the_metrics_repeat_what_was_before_and_a_blind_node_has_none(tmp_path):
    gappy = [sample(BEGAN_S, [300.0, None], [1.0, None]), sample(BEGAN_S + 15, [None, None], [None, None])]
    cluster = read_cluster(written(tmp_path / "r", [*gappy, *pod("one", 5, 9)]))
    assert cluster.background["cpu_used_millicores"].tolist() == [[300.0, 0.0], [300.0, 0.0]]
    assert cluster.missing == 0.75


def test_a_packed_recording_reads_the_same(tmp_path):
    folder = written(tmp_path / "r", [*samples(), *pod("one", 30, 90), *pod("two", 60, None)])
    pack(folder, tmp_path / "packed")
    one, other = read_cluster(folder), read_cluster(tmp_path / "packed")
    assert one.nodes == other.nodes
    np.testing.assert_array_equal(one.pods.ended_s, other.pods.ended_s)
    np.testing.assert_array_equal(one.background["rx_mbps"], other.background["rx_mbps"])


def test_too_little_is_said_and_not_guessed(tmp_path):
    with pytest.raises(InputError, match="2 nodes, 0 decided pods and 41 samples: too little"):
        recorded_scenario(written(tmp_path / "r", samples()))
    short = [sample(BEGAN_S, [1.0, 1.0], [1.0, 1.0]), sample(BEGAN_S + 15, [1.0, 1.0], [1.0, 1.0])]
    with pytest.raises(InputError, match="covers 15 s: at least 60 s"):
        recorded_scenario(written(tmp_path / "s", [*short, *pod("one", 5, 9)]))


# --- tapes


@pytest.fixture
def busy(tmp_path):
    """Ten minutes: a pod every ten seconds that runs for a minute, on nodes a and b in turn."""
    lives = [
        record
        for number in range(58)
        for record in pod(
            f"p{number}",
            10.0 * number,
            10.0 * number + 60.0,
            node="ab"[number % 2],
            app=f"app{number % 3}",
            expected_cpu_millicores=250.0,
            expected_rx_mbps=20.0,
            expected_tx_mbps=30.0,
        )
    ]
    return written(tmp_path / "busy", [*samples(), *lives])


def test_tape_has_the_recorded_nodes_and_fills_in_what_is_unknown_by_their_size(busy):
    scenario, make = recorded_scenario(busy)
    tape = make(scenario, 0, 0)
    assert tape.node_cpu_millicores.tolist() == [4000.0, 4000.0]
    assert tape.node_nic_mbps.tolist() == [1000.0, 1250.0]
    assert tape.node_nic_known.tolist() == [True, False]
    assert tape.node_zone.tolist() == [0, 1]


def test_arrivals_requests_and_lives_are_the_recorded_ones(busy):
    scenario, make = recorded_scenario(busy)
    tape = make(scenario, 0, 0)
    coming = ~tape.pod_initial
    np.testing.assert_allclose(np.diff(tape.pod_arrival_s[coming]), 10.0, atol=0.01)
    np.testing.assert_allclose(tape.pod_duration_s[coming], 60.0, atol=0.01)
    assert set(tape.pod_cpu_request_millicores) == {500.0}
    assert set(tape.pod_cpu_use_ratio) == {0.5}
    assert (set(tape.pod_rx_mbps), set(tape.pod_tx_mbps)) == ({20.0}, {30.0})
    assert tape.pod_arrival_s[coming].min() >= scenario.scraping.first_rate_s
    assert scenario.apps.count == 3


def test_pods_that_ran_when_the_stretch_begins_run_where_they_ran(busy):
    scenario, make = recorded_scenario(busy)
    longer = scenario.model_copy(update={"horizon_s": scenario.scraping.first_rate_s + 200.0})
    tape = make(longer, 0, 1)  # a stretch that begins in the middle
    assert 4 <= tape.pod_initial.sum() <= 6
    where = (tape.pod_start[tape.pod_initial] * 2).astype(int)
    assert sorted(np.bincount(where)) in ([2, 2], [2, 3], [3, 3])
    left_s = tape.pod_duration_s[tape.pod_initial] - scenario.scraping.first_rate_s
    assert (left_s > 0).all()
    assert (left_s <= 60.0).all()


def test_nodes_that_come_and_go_take_pods_only_while_they_are_there(tmp_path):
    lives = [record for number in range(55) for record in pod(f"p{number}", 10.0 * number, 10.0 * number + 30.0)]
    late, gone = Nodes(at_s=BEGAN_S + 300, nodes=(spec("c"),)), Nodes(at_s=BEGAN_S + 400, removed=("b",))
    scenario, make = recorded_scenario(written(tmp_path / "r", [*samples(), *lives, late, gone]))
    tape = make(scenario, 0, 0)
    first_s = scenario.scraping.first_rate_s
    assert tape.node_maintenance_start_s[0] == np.inf
    assert tape.node_maintenance_start_s[1] == pytest.approx(400 + first_s, abs=1)
    assert (tape.node_maintenance_start_s[2], tape.node_maintenance_end_s[2]) == pytest.approx(
        (0, 300 + first_s), abs=1
    )


def test_same_seed_and_number_give_the_same_tape_and_another_number_another(busy):
    scenario, make = recorded_scenario(busy)
    shorter = scenario.model_copy(update={"horizon_s": scenario.scraping.first_rate_s + 120.0})
    one, same, other = make(shorter, 3, 0), make(shorter, 3, 0), make(shorter, 3, 1)
    np.testing.assert_array_equal(one.pod_arrival_s, same.pod_arrival_s)
    assert not np.array_equal(one.pod_arrival_s[:9], other.pod_arrival_s[:9])


def test_training_and_evaluation_replay_different_stretches(busy):
    scenario, make = recorded_scenario(busy)
    shorter = scenario.model_copy(update={"horizon_s": scenario.scraping.first_rate_s + 120.0})

    begins = {seed: [_begin_of(make, shorter, seed, number) for number in range(20)] for seed in (0, 1_000_000)}
    assert max(begins[0]) <= min(begins[1_000_000])


def _begin_of(make, scenario, seed, number) -> float:
    """Seconds of the recording at which the stretch begins."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, number), spawn_key=(1,)))
    return _begin(make.cluster, scenario.horizon_s - scenario.scraping.first_rate_s, seed, rng) - BEGAN_S


def test_every_stretch_fits_the_room_that_the_scenario_gives(busy):
    scenario, make = recorded_scenario(busy)
    needed = max(make(scenario, seed, number).pod_slots for seed in (0, 1_000_000) for number in range(10))
    assert needed <= sizes_of(scenario).pods


# --- whole worlds


@pytest.fixture(scope="module")
def recording(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording") / "own"
    long = small.model_copy(update={"horizon_s": 600.0})
    record_simulation(make_world(long, 1, 0), scorer_by_name("expected_utilisation"), folder)
    return folder


def test_a_simulated_cluster_is_recorded_as_a_sidecar_would(recording):
    records = list(read_recording(recording))
    kinds = {record.kind for record in records}
    assert kinds == {"header", "sample", "decision", "bound", "ended"}
    times_s = [record.at_s for record in records]
    assert times_s == sorted(times_s)
    decided = {record.pod_uid for record in records if record.kind == "decision"}
    bound = {record.pod_uid for record in records if record.kind == "bound"}
    assert decided <= bound
    assert len(decided) > 50


def test_policies_play_on_a_recording_and_meet_the_same_pods(recording):
    scenario, make = recorded_scenario(recording)
    tape = recorded_stack(scenario, make, 1_000_000, 3)
    one, other = (play(scorer_by_name(name), tape) for name in ("random", "expected_utilisation"))
    assert one.decisions.tolist() == other.decisions.tolist()
    assert one.decisions.min() > 20
    assert np.isfinite(one.terms).all()


def test_learners_step_over_a_recording(recording):
    scenario, make = recorded_scenario(recording)
    worlds = BatchVecEnv(scenario, 4, group_size=2, make=make, threads=1)
    worlds.reset()
    for _ in range(40):
        _, rewards, _, _ = worlds.step(worlds.action_masks().argmax(axis=1))
        assert np.isfinite(rewards).all()


def test_configuration_names_the_twin_that_it_wrote(recording, tmp_path):
    base = load_config("default")
    config, make = recorded_config(recording, tmp_path, base)
    assert [scenario.name for scenario in config.scenarios()] == ["own"]
    assert config.scenarios()[0] == recorded_scenario(recording)[0]
    assert make(config.scenarios()[0], 0, 0).node_slots == 4

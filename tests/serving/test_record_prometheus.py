"""A day-old past, filled into a real Prometheus, recorded, read by the importer and played."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pilotfish
from agent.errors import InputError
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from envs.dynamics.world import World
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import Bound, Decision, Ended, Header, Record, Sample
from tests.prometheus import Exporters, Prometheus, answering, binary
from training.recorded_cluster import read_cluster
from training.recorded_worlds import recorded_scenario

NODES = ("node-a", "node-b", "node-c")
STEP_S, SPAN_S, HOUR_S = 15, 900, 3600
GIB = 1 << 30


def past(began_s: int) -> str:
    """Node exporters of three nodes every 15 s; an hour later the same with kube-state-metrics and cAdvisor."""
    lines = exported(began_s - HOUR_S) + exported(began_s)
    for at_s in range(began_s - 120, began_s + SPAN_S + 1, STEP_S):
        lines += [*state_at(at_s), *pods_at(at_s, began_s)]
    return "\n".join(sorted(lines, key=lambda line: line.partition("{")[0])) + "\n# EOF\n"


def state_at(at_s: int) -> list[str]:
    lines = []
    for place, node in enumerate(NODES):
        lines += [
            f'kube_node_info{{node="{node}",internal_ip="10.0.0.{place}"}} 1 {at_s}',
            f'kube_node_status_allocatable{{node="{node}",resource="cpu"}} 3.9 {at_s}',
            f'kube_node_status_allocatable{{node="{node}",resource="memory"}} {15 * GIB} {at_s}',
            f'kube_node_status_allocatable{{node="{node}",resource="pods"}} 50 {at_s}',
            f'kube_node_labels{{node="{node}",label_topology_kubernetes_io_zone="zone-{place % 2}"}} 1 {at_s}',
        ]
    return lines


def exported(began_s: int) -> list[str]:
    lines: list[str] = []
    for at_s in range(began_s - 120, began_s + SPAN_S + 1, STEP_S):
        age_s = at_s - began_s + 1000
        for place in range(len(NODES)):
            target = f'instance="10.0.0.{place}:9100"'
            rx_bytes = 1e6 * (place + 1) * age_s
            lines += [
                f'node_network_receive_bytes_total{{device="eth0",{target}}} {rx_bytes} {at_s}',
                f'node_network_transmit_bytes_total{{device="eth0",{target}}} {rx_bytes / 2} {at_s}',
                f'node_network_speed_bytes{{device="eth0",{target}}} 125000000 {at_s}',
                f"node_memory_MemTotal_bytes{{{target}}} {16 * GIB} {at_s}",
                f"node_memory_MemAvailable_bytes{{{target}}} {12 * GIB} {at_s}",
                f"node_netstat_Tcp_CurrEstab{{{target}}} 10 {at_s}",
            ]
            lines += [
                f'node_cpu_seconds_total{{cpu="{cpu}",mode="idle",{target}}} {0.75 * age_s} {at_s}' for cpu in range(4)
            ]
    return lines


def pods_at(at_s: int, began_s: int) -> list[str]:
    """web-0 runs all the time, one more web pod comes every minute for five; batch ends; logs is a daemon's."""
    pods = [(f"web-{number}", "ReplicaSet", "web-5d4f8c7b9", 60 * number - 60, 10**9) for number in range(6)]
    pods += [("batch-x", "Job", "batch-28900000", 200, 500), ("logs-1", "DaemonSet", "logs", -(10**6), 10**9)]
    lines = []
    for number, (pod, kind, owner, from_s, to_s) in enumerate(pods):
        created_s = began_s + from_s - 2
        if not began_s + from_s <= at_s < began_s + to_s:
            continue
        name = f'namespace="shop",pod="{pod}",uid="uid-{pod}"'
        placed = f'node="{NODES[number % 3]}"'
        lines += [
            f'kube_pod_info{{{name},{placed},created_by_kind="{kind}",created_by_name="{owner}"}} 1 {at_s}',
            f"kube_pod_created{{{name}}} {created_s} {at_s}",
            f'kube_pod_container_resource_requests{{{name},container="main",resource="cpu"}} 0.25 {at_s}',
            f'kube_pod_container_resource_requests{{{name},container="side",resource="cpu"}} 0.05 {at_s}',
            f'kube_pod_container_resource_requests{{{name},container="main",resource="memory"}} {GIB // 4} {at_s}',
            f'container_network_receive_bytes_total{{{name},interface="eth0"}} {250000 * (at_s - created_s)} {at_s}',
            f'container_memory_working_set_bytes{{{name},container="main"}} {GIB // 8} {at_s}',
        ]
    return lines


@pytest.fixture(scope="module")
def began_s() -> int:
    return (int(time.time()) - 86400) // 60 * 60


@pytest.fixture(scope="module")
def server(tmp_path_factory, began_s):
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (folder / "past.txt").write_text(past(began_s), encoding="utf-8")
    command = [binary("promtool"), "tsdb", "create-blocks-from", "openmetrics", folder / "past.txt", folder / "data"]
    subprocess.run(command, check=True, capture_output=True)
    exporters = Exporters({})
    server = Prometheus(folder, exporters, {})
    yield server.start()
    server.kill()
    exporters.close()


def recorded(server: Prometheus, out: Path, began_s: int, *more: str):
    times = ("--from", str(began_s), "--to", str(began_s + SPAN_S), "--step", str(STEP_S))
    given = ("--set", "prometheus.window_s=60", *more)
    return CliRunner().invoke(
        pilotfish.app, ["record", "prometheus", str(out), "--prometheus", server.address, *times, *given]
    )


@pytest.fixture(scope="module")
def recording(server, began_s, tmp_path_factory):
    out = tmp_path_factory.mktemp("recording") / "shop"
    outcome = recorded(server, out, began_s)
    assert outcome.exit_code == 0, outcome.output
    return out, outcome.output, list(read_recording(out))


def of_kind(records: list[Record], kind: type) -> list:
    return [record for record in records if isinstance(record, kind)]


def test_nodes_have_what_kube_state_metrics_say_of_them(recording):
    header = of_kind(recording[2], Header)[0]
    spec = {spec.name: spec for spec in header.nodes}["node-b"]
    assert (spec.cpu_allocatable_millicores, spec.memory_allocatable_mib, spec.pods_allocatable) == (3900, 15360, 50)
    assert (spec.zone, spec.nic_mbps) == ("zone-1", 1000.0)


def test_every_step_has_a_sample_with_rates_and_ages(recording, began_s):
    samples = of_kind(recording[2], Sample)
    assert [sample.at_s for sample in samples] == list(range(began_s, began_s + SPAN_S + 1, STEP_S))
    last = samples[-1]
    assert last.nodes == NODES
    assert last.rx_mbps == pytest.approx((8.0, 16.0, 24.0))
    assert last.tx_mbps == pytest.approx((4.0, 8.0, 12.0))
    assert last.cpu_used_millicores == pytest.approx((1000.0,) * 3)
    assert last.memory_used_mib == (4096.0,) * 3
    assert last.network_age_s == (0.0,) * 3


def test_pods_come_run_and_end_as_they_did(recording, began_s):
    records = recording[2]
    arrived = {record.pod_uid: record.at_s - began_s for record in of_kind(records, Decision)}
    assert arrived["uid-web-0"] == 0
    assert [arrived[f"uid-web-{number}"] for number in range(2, 6)] == [58, 118, 178, 238]  # as they were created
    assert {record.pod_uid: record.node for record in of_kind(records, Bound)}["uid-web-2"] == "node-c"
    assert [(record.pod_uid, record.at_s - began_s) for record in of_kind(records, Ended)] == [("uid-batch-x", 510)]
    assert "uid-logs-1" not in arrived


def test_demands_are_requests_and_measured_use(recording):
    (demand,) = [one.demand for one in of_kind(recording[2], Decision) if one.pod_uid == "uid-web-3"]
    assert (demand.namespace, demand.app) == ("shop", "web")
    assert (demand.cpu_request_millicores, demand.memory_request_mib) == (pytest.approx(300.0), 256.0)
    assert demand.expected_rx_mbps == pytest.approx(2.0, rel=0.05)  # its first rates are of a part of the window
    assert (demand.expected_memory_mib, demand.expected_tx_mbps, demand.expected_cpu_millicores) == (128.0, None, None)


def test_records_are_in_the_order_of_their_times(recording):
    times_s = [record.at_s for record in recording[2]]
    assert times_s == sorted(times_s)


def test_what_prometheus_does_not_have_is_said(recording):
    assert "not in Prometheus (all of the time): container metrics for pod_cpu" in recording[1]
    assert "kube_pod_info" not in recording[1]


def test_the_recording_is_read_by_the_importer_and_played(recording):
    cluster = read_cluster(recording[0])
    assert (len(cluster.nodes), len(cluster.pods.arrived_s), cluster.missing) == (3, 7, 0.0)
    scenario, make = recorded_scenario(recording[0])
    world, scorer, placed = World(make(scenario, 0, 0)), ExpectedUtilisation(), 0
    while not world.done:
        values = scorer.score(world.state(), world.demand(), world.candidates())
        world.step(int(np.argmax(np.where(world.candidates(), values, -np.inf))))
        placed += 1
    assert placed > 0


def test_without_kube_state_metrics_nodes_and_metrics_are_recorded_and_the_rest_is_said(server, began_s, tmp_path):
    outcome = recorded(server, tmp_path / "bare", began_s - HOUR_S)
    assert outcome.exit_code == 0
    assert "not in Prometheus (all of the time): kube_pod_info: which pods ran where" in outcome.output
    assert "not in Prometheus (all of the time): kube_node_status_allocatable of cpu" in outcome.output
    records = list(read_recording(tmp_path / "bare"))
    spec = of_kind(records, Header)[0].nodes[1]
    assert (spec.name, spec.cpu_allocatable_millicores, spec.memory_allocatable_mib) == ("10.0.0.1", 4000, 16384)
    assert of_kind(records, Sample)[-1].rx_mbps == pytest.approx((8.0, 16.0, 24.0))


def test_a_time_of_which_prometheus_knows_nothing_gives_nothing_and_says_so(server, began_s, tmp_path):
    outcome = recorded(server, tmp_path / "nothing", began_s - 80000)
    assert outcome.output.startswith("recorded nothing")
    assert "not in Prometheus (all of the time): rx_mbps" in outcome.output


def test_many_chunks_give_one_life_for_each_pod(server, began_s, tmp_path, recording):
    outcome = recorded(server, tmp_path / "long", began_s, "--step", "5")
    assert outcome.exit_code == 0, outcome.output
    records = list(read_recording(tmp_path / "long"))
    assert len(of_kind(records, Sample)) == SPAN_S // 5 + 1 > 120  # more than one chunk
    lives = [record.pod_uid for record in of_kind(records, Decision)]
    assert sorted(lives) == sorted(record.pod_uid for record in of_kind(recording[2], Decision))
    assert [record.pod_uid for record in of_kind(records, Ended)] == ["uid-batch-x"]
    assert {record.network_age_s[0] for record in of_kind(records, Sample)} == {0.0, 5.0, 10.0}


def test_a_reply_that_is_too_long_is_asked_for_in_parts(server, began_s, tmp_path):
    outcome = recorded(server, tmp_path / "parts", began_s, "--set", "prometheus.max_reply_bytes=4000")
    assert outcome.exit_code == 0, outcome.output
    samples = of_kind(list(read_recording(tmp_path / "parts")), Sample)
    assert len(samples) == SPAN_S // STEP_S + 1
    assert samples[-1].rx_mbps == pytest.approx((8.0, 16.0, 24.0))


def test_a_folder_with_a_recording_is_not_written_into(server, began_s, recording):
    outcome = recorded(server, recording[0], began_s)
    assert "holds a recording already" in str(outcome.exception)


@pytest.mark.parametrize(
    ("times", "complaint"),
    [
        (("--from", "yesterday"), "'yesterday' is no time"),
        (("--from", "2026-08-16T10:00:00Z", "--to", "2026-08-16T09:00:00Z"), "is not after"),
        (("--from", "0", "--to", "now", "--step", "1"), "give a longer --step"),
    ],
)
def test_times_that_make_no_sense_are_refused(tmp_path, times, complaint):
    arguments = ["record", "prometheus", str(tmp_path / "out"), "--prometheus", "http://127.0.0.1:1", *times]
    outcome = CliRunner().invoke(pilotfish.app, arguments)
    assert isinstance(outcome.exception, InputError)
    assert complaint in str(outcome.exception)


def test_a_server_that_is_no_prometheus_is_one_line(tmp_path):
    with answering(500, b"boom") as address:
        arguments = ["record", "prometheus", str(tmp_path / "out"), "--prometheus", address, "--from", "-1h"]
        outcome = CliRunner().invoke(pilotfish.app, arguments)
    assert isinstance(outcome.exception, InputError)
    assert "500" in str(outcome.exception)

"""``pilotfish doctor`` beside a real Prometheus with one exporter for each thing that goes wrong."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import pilotfish
from agent.errors import InputError
from tests.envs.live.scripted_api import ScriptedApi, api_node
from tests.prometheus import Counters, answering, free_port, prometheus_over, wait_for
from tests.serving.test_live import kubeconfig  # noqa: F401  (a fixture)

NODES = ("healthy", "untargeted", "down", "behind", "ahead", "loopback", "virtual", "collectorless")
STATE = "\n".join(f'kube_node_info{{node="{name}",internal_ip="10.0.0.{n}"}} 1' for n, name in enumerate(NODES)) + "\n"
QUICK = ("--set", "prometheus.window_s=6", "--set", "prometheus.interval_s=1", "--set", "assumed.window_s=6")


def exporter_pages() -> dict[str, Counters | str]:
    pages = {name: Counters() for name in NODES if name not in ("untargeted", "collectorless")}
    pages["down"].answers = False
    pages["behind"].clock_ahead_s = -120.0
    pages["ahead"].clock_ahead_s = 300.0
    pages["virtual"].speed_bytes = -125000.0
    bare = "node_memory_MemTotal_bytes 4e9\nnode_memory_MemAvailable_bytes 1e9\n"
    loopback = bare + 'node_network_receive_bytes_total{device="lo"} 1\nnode_cpu_seconds_total{cpu="0",mode="idle"} 1\n'
    return {**pages, "loopback": loopback, "collectorless": bare, "state": STATE}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pages = exporter_pages()
    labels = {page: {"instance": f"10.0.0.{NODES.index(page)}:9100"} for page in pages if page != "state"}
    labels["state"] = {"instance": "state", "job": "kube-state-metrics"}
    with prometheus_over(tmp_path_factory.mktemp("prometheus"), pages, labels) as server:
        wait_for(lambda: server.count('rate(node_network_receive_bytes_total{device="eth0"}[6s])') >= 2)
        wait_for(lambda: server.count("kube_node_info") == len(NODES))
        yield server


def doctor(*arguments: str):
    return CliRunner().invoke(pilotfish.app, ["doctor", *arguments])


@pytest.fixture(scope="module")
def report(server):
    outcome = doctor("--prometheus", server.address, "--json", *QUICK)
    assert outcome.exit_code == 1
    return json.loads(outcome.output)


@pytest.mark.parametrize(
    ("node", "group", "reason"),
    [
        ("untargeted", "network", "no target: Prometheus scrapes no node exporter there"),
        ("down", "network", "its exporter is not scraped: server returned HTTP status 503"),
        ("behind", "memory", "although it is scraped: the clock of the exporter is behind"),
        ("ahead", "memory", "its samples are of the future: the clock of the exporter is ahead"),
        ("loopback", "network", "no interface matches: it has lo; set PROMETHEUS__DEVICE"),
        ("collectorless", "cpu", "no node_cpu_seconds_total: that collector of its exporter is off"),
    ],
)
def test_each_node_without_series_is_named_with_its_reason(report, node, group, reason):
    (found,) = [one for one in report["nodes"] if one["name"] == node]
    assert not found["ok"]
    assert reason in found["wrong"][group]


def test_a_healthy_node_has_no_complaint_and_its_values_are_shown(report):
    (found,) = [one for one in report["nodes"] if one["name"] == "healthy"]
    assert found["ok"]
    assert found["wrong"] == {}
    assert found["values"]["nic_mbps"] == 1000.0
    assert found["ages_s"]["network"] < 4.0
    assert report["label"] == "instance"


def test_an_unknown_speed_is_a_note_and_no_fault(report):
    (found,) = [one for one in report["nodes"] if one["name"] == "virtual"]
    assert found["ok"]
    assert "NIC speed unknown (not above 0, as on virtual NICs)" in found["notes"][0]


def test_the_table_has_every_node_and_the_reasons(server):
    outcome = doctor("--prometheus", server.address, *QUICK)
    assert outcome.exit_code == 1
    assert all(name in outcome.output for name in NODES)
    assert "8 nodes, 6 without fresh series" in outcome.output


def test_the_observations_of_the_thesis_are_asked_by_its_queries(server):
    given = ("--observations", "--json", "--set", "prometheus.device=eth0")
    nodes = json.loads(doctor("--prometheus", server.address, *QUICK, *given).output)["nodes"]
    (observed,) = [one["observations"] for one in nodes if one["name"] == "healthy"]
    assert observed["memory_available_gb"] == pytest.approx((12 << 30) / 1e9)
    assert -100.0 < observed["cpu_percent"] < 100.0  # of the last two samples alone: it jumps on a busy machine
    assert observed["network_rx_bytes_per_s"] > 0.0  # of 5 minutes, of which there are seconds
    assert observed["connections"] == 42.0
    assert observed["pods"] == 0.0
    assert observed["disk_percent"] is None  # this exporter shows no file systems


def test_a_label_that_no_series_has_is_said_with_those_they_have(server):
    outcome = doctor("--prometheus", server.address, "--json", "--set", "prometheus.node_label=machine", *QUICK)
    reasons = {why for node in json.loads(outcome.output)["nodes"] for why in node["wrong"].values()}
    assert reasons == {"no label machine: the series have instance; set PROMETHEUS__NODE_LABEL"}
    assert outcome.exit_code == 1


def test_a_healthy_cluster_ends_with_exit_code_0(tmp_path):
    with prometheus_over(tmp_path / "prometheus", {"node-a": Counters()}) as server:
        wait_for(lambda: server.count('rate(node_network_receive_bytes_total{device="eth0"}[6s])') == 1)
        outcome = doctor("--prometheus", server.address, *QUICK)
    assert outcome.exit_code == 0, outcome.output
    assert "1 nodes, 0 without fresh series" in outcome.output


def test_the_nodes_are_those_of_the_api_server_where_there_is_one(server, kubeconfig):  # noqa: F811
    api = ScriptedApi()
    for name, address in (("first", "10.0.0.0"), ("second", "10.9.9.9")):
        node = api_node(name)
        node["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
        api.put("nodes", node)
    cluster = ("--set", "cluster.source=kubernetes", "--set", f"cluster.kubeconfig={kubeconfig(api.url)}")
    nodes = json.loads(doctor("--prometheus", server.address, "--json", *QUICK, *cluster).output)["nodes"]
    api.stop()
    assert [(node["name"], node["ok"]) for node in nodes] == [("first", True), ("second", False)]
    away = json.loads(doctor("--prometheus", server.address, "--json", *QUICK, *cluster).output)
    assert "Kubernetes: " in away["advice"][0]
    assert [node["name"] for node in away["nodes"]] == sorted(NODES)


def test_windows_that_differ_are_advised_about(server):
    outcome = doctor("--prometheus", server.address, "--json", "--set", "prometheus.window_s=30")
    assert "set them equal" in json.loads(outcome.output)["advice"][0]


def test_nobody_at_the_address_is_one_line_and_exit_code_1():
    outcome = doctor("--prometheus", f"http://127.0.0.1:{free_port()}")
    assert outcome.exit_code == 1
    assert outcome.output.count("\n") == 1
    assert "does not answer" in outcome.output


def test_something_else_at_the_address_is_one_line_and_exit_code_1():
    with answering(200, b"<html>") as address:
        outcome = doctor("--prometheus", address)
    assert (outcome.exit_code, outcome.output.count("\n")) == (1, 1)
    assert "does not answer like Prometheus" in outcome.output


@pytest.mark.parametrize("address", ["prometheus:9090", ""])
def test_an_address_that_is_none_is_bad_input(address):
    outcome = doctor("--prometheus", address)
    assert isinstance(outcome.exception, InputError)
    assert "address" in str(outcome.exception).lower()

"""Readings from a real Prometheus that scrapes real exporters every second."""

from __future__ import annotations

import time

import pytest

from envs.live.prometheus import PrometheusSource, clock_problem
from envs.live.prometheus_settings import PrometheusSettings
from tests.prometheus import Counters, prometheus_over, wait_for

NODES = {f"node-{letter}": (f"10.0.0.{number}",) for number, letter in enumerate("abcdefgh", 1)}
CADVISOR = """container_network_receive_bytes_total{namespace="shop",pod="web-1",interface="eth0"} 100
container_cpu_usage_seconds_total{namespace="shop",pod="web-1",container="web"} 5
container_memory_working_set_bytes{namespace="shop",pod="web-1",container="web"} 104857600
container_memory_working_set_bytes{namespace="shop",pod="web-1",container=""} 904857600
container_memory_working_set_bytes{id="/"} 9e9
"""


def exporters() -> dict[str, Counters]:
    pages = {name: Counters(rx_bytes_per_s=1e6 * number) for number, name in enumerate(NODES, 1)}
    pages["node-b"].speed_bytes = -125000.0  # a virtual NIC
    pages["node-c"].speed_bytes = None
    pages["node-d"].connections = "NaN"
    pages["node-e"].connections = "+Inf"
    pages["node-f"].connections = -1
    pages["node-g"].clock_ahead_s = -40.0
    pages["node-a"].extra = CADVISOR
    del pages["node-h"]  # no exporter at all
    return pages


def instances(pages: dict[str, Counters]) -> dict[str, dict[str, str]]:
    return {name: {"instance": f"{NODES[name][0]}:9100"} for name in pages}


def settings_for(address: str, **changed: object) -> PrometheusSettings:
    given = {"address": address, "interval_s": 1.0, "window_s": 6.0, "pods_interval_s": 1.0}
    return PrometheusSettings(**{**given, **changed})


def value(source: PrometheusSource, column: str, node: str) -> float | None:
    reading = source.newest().columns.get(column, {}).get(node)
    return None if reading is None else reading.value


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pages = exporters()
    labels = {**instances(pages), "twin": {"instance": "node-a:9100"}, "stranger": {"instance": "10.7.7.7:9100"}}
    labels["again"] = {"instance": "10.0.0.5:9100", "job": "again"}
    pages |= {"twin": Counters(rx_bytes_per_s=1.0), "stranger": Counters(), "again": Counters(rx_bytes_per_s=5e6)}
    with prometheus_over(tmp_path_factory.mktemp("prometheus"), pages, labels) as server:
        wait_for(lambda: server.count("irate(node_network_receive_bytes_total[10s])") >= 16)
        yield server


@pytest.fixture(scope="module")
def source(server):
    source = PrometheusSource(settings_for(server.address), lambda: NODES)

    def complete() -> bool:
        known = source.read().columns
        near = {"rx_mbps": (8.0, 40.0), "cpu_used_millicores": (1000.0, 1000.0)}
        return len(known["cpu_std_millicores"]) >= 6 and all(
            abs((value(source, column, node) or 0.0) / wanted - 1.0) < 0.08
            for column, both in near.items()
            for node, wanted in zip(("node-a", "node-e"), both, strict=True)
        )

    wait_for(complete, 20.0, "a rate for every node")
    return source


def test_rates_gauges_and_speeds_have_the_units_of_the_cluster_state(source):
    assert value(source, "rx_mbps", "node-a") == pytest.approx(8.0, rel=0.1)
    assert value(source, "rx_mbps", "node-e") == pytest.approx(40.0, rel=0.1)
    assert value(source, "tx_mbps", "node-a") == pytest.approx(4.0, rel=0.1)
    assert value(source, "cpu_used_millicores", "node-a") == pytest.approx(1000.0, rel=0.1)
    assert value(source, "memory_used_mib", "node-a") == 4096.0
    assert value(source, "nic_mbps", "node-a") == 1000.0
    assert value(source, "connections", "node-a") == 42.0
    assert value(source, "cpu_std_millicores", "node-a") < 300.0


def test_the_speed_of_a_virtual_nic_is_unknown(source):
    assert value(source, "nic_mbps", "node-b") is None
    assert value(source, "nic_mbps", "node-c") is None


@pytest.mark.parametrize("node", ["node-d", "node-e", "node-f"])
def test_a_value_that_is_no_number_leaves_the_other_metrics_of_the_node_alone(source, node):
    assert value(source, "connections", node) is None
    assert value(source, "rx_mbps", node) > 0.0
    assert any("connections: values of" in problem for problem in source.newest().problems)


def test_a_node_without_series_is_counted_and_not_invented(source):
    problems = source.newest().problems
    assert any("no fresh series: node-h" in problem for problem in problems), problems
    assert all("node-h" not in readings for readings in source.newest().columns.values())


def test_a_series_of_no_node_is_left_out_and_said(source):
    assert any("10.7.7.7:9100 belongs to no node" in problem for problem in source.newest().problems)
    assert all("10.7.7.7" not in name for readings in source.newest().columns.values() for name in readings)


def test_of_two_series_for_one_node_the_busier_counts_and_it_is_said(source):
    assert value(source, "rx_mbps", "node-a") > 7.0
    assert any("several series for node-a" in problem for problem in source.newest().problems)


def test_an_exporter_that_two_jobs_scrape_counts_once(server, source):
    assert server.count('up{instance="10.0.0.5:9100"}') == 2
    assert value(source, "rx_mbps", "node-e") == pytest.approx(40.0, rel=0.2)
    assert value(source, "cpu_used_millicores", "node-e") == pytest.approx(1000.0, rel=0.2)
    assert value(source, "nic_mbps", "node-e") == 1000.0


def test_ages_are_those_of_the_samples_not_of_the_answer(source):
    metrics, now_s = source.read(), time.time()
    ages = {node: now_s - reading.sampled_at_s for node, reading in metrics.columns["memory_used_mib"].items()}
    assert 0.0 <= ages["node-a"] < 3.0
    assert 39.0 < ages["node-g"] < 43.0  # its exporter stamps its samples with a clock that is 40 s behind
    assert value(source, "rx_mbps", "node-g") is None  # nothing of the last 6 s: no rate


def test_a_wrong_clock_of_ours_changes_no_age_and_is_said(server):
    ahead_s = 500.0
    wrong = PrometheusSource(settings_for(server.address), lambda: NODES, wall=lambda: time.time() + ahead_s)
    reading = wrong.read().columns["memory_used_mib"]["node-a"]
    assert 0.0 <= time.time() + ahead_s - reading.sampled_at_s < 3.0
    assert any("differ by 500 s" in problem for problem in wrong.newest().problems)


def test_clocks_that_agree_are_no_problem():
    assert clock_problem(100.0, 101.0, [100.5]) == clock_problem(100.0, 101.0, [99.0]) == []
    assert clock_problem(100.0, 101.0, [110.0]) == ["its clock and ours differ by 9 s"]


def test_pods_are_known_where_the_series_have_a_pod_label(source):
    use = source.newest().pods["shop", "web-1"]
    assert use.memory_mib == 100.0
    assert use.rx_mbps == 0.0
    assert use.tx_mbps != use.tx_mbps  # no such series: unknown, not 0
    assert list(source.newest().pods) == [("shop", "web-1")]
    assert "pods: no series with a pod label for tx_mbps" in source.newest().problems


def test_pods_are_not_asked_for_where_that_is_off(server):
    source = PrometheusSource(settings_for(server.address, pods=False), lambda: NODES)
    assert source.read().pods == {}
    assert source.newest().columns["memory_used_mib"]


def test_each_metric_is_one_question_for_all_nodes_in_a_round(server, source):
    client = source._client
    questions: list[str] = []
    original, client.vector = client.vector, lambda query, *rest: questions.append(query) or original(query, *rest)
    source.settings = source.settings.model_copy(update={"pods": False})
    source.read()
    source.settings = settings_for(server.address)
    client.vector = original
    assert len(questions) == len(set(questions)) == 10, questions  # 7 columns, 3 times


def test_own_queries_and_the_legacy_sum_are_asked_as_named(server):
    queries = {"rx": "legacy_sum_over_time", "connections": "max by (<label>) (node_memory_MemTotal_bytes) * 0 + 7"}
    source = PrometheusSource(settings_for(server.address, queries=queries), lambda: NODES)
    source.read()
    assert value(source, "connections", "node-d") == 7.0
    assert value(source, "rx_mbps", "node-a") > 1000.0  # the sum of a counter: it grows with the uptime


def test_one_bad_query_costs_only_its_own_column(server):
    source = PrometheusSource(settings_for(server.address, queries={"rx": "rate("}), lambda: NODES)
    metrics = source.read()
    assert metrics.columns["rx_mbps"] == {}
    assert metrics.columns["tx_mbps"]["node-a"].value > 0.0
    assert metrics.columns["memory_used_mib"]["node-a"].value == 4096.0
    assert any(problem.startswith("rx_mbps: ") and "parse error" in problem for problem in metrics.problems)


def test_values_without_the_time_of_their_sample_are_not_taken_for_fresh(server):
    queries = {"network_time": "node_nothing"}
    source = PrometheusSource(settings_for(server.address, queries=queries), lambda: NODES)
    assert source.read().columns["rx_mbps"] == {}
    assert any("network: 8 nodes have no fresh series" in problem for problem in source.newest().problems)
    replying = PrometheusSource(settings_for(server.address, queries={"network_time": "reply"}), lambda: NODES)
    assert replying.read().columns["rx_mbps"]


def test_the_interface_can_be_chosen(server):
    source = PrometheusSource(settings_for(server.address, device="lo"), lambda: NODES)
    source.read()
    assert value(source, "rx_mbps", "node-a") == pytest.approx(24.0, rel=0.2)

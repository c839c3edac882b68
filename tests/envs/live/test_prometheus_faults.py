"""A Prometheus that goes wrong: nothing raises, readings only grow older, and all comes back by itself."""

from __future__ import annotations

import time

import pytest

from envs.live.prometheus import PrometheusSource
from envs.live.prometheus_settings import PrometheusSettings
from tests.prometheus import Counters, DelayingProxy, answering, free_port, prometheus_over, wait_for

NODES = {"node-a": ("10.0.0.1",), "node-b": ("10.0.0.2",)}
LABELS = {"node-a": {"instance": "10.0.0.1:9100"}, "node-b": {"instance": "10.0.0.2:9100"}}
RATES = "irate(node_network_receive_bytes_total[10s])"


def settings_for(address: str, **changed: object) -> PrometheusSettings:
    given = {"address": address, "interval_s": 0.5, "window_s": 6.0, "timeout_s": 1.0}
    return PrometheusSettings(**{**given, **changed})


def age_s(source: PrometheusSource, node: str, column: str = "rx_mbps") -> float:
    reading = source.newest().columns.get(column, {}).get(node)
    return float("inf") if reading is None else time.time() - reading.sampled_at_s


@pytest.fixture(scope="module")
def exporters():
    return {"node-a": Counters(), "node-b": Counters(rx_bytes_per_s=5e6)}


@pytest.fixture(scope="module")
def server(tmp_path_factory, exporters):
    with prometheus_over(tmp_path_factory.mktemp("prometheus"), exporters, LABELS) as server:
        wait_for(lambda: server.count(RATES) == 4)
        yield server


@pytest.fixture
def source(server):
    source = PrometheusSource(settings_for(server.address), lambda: NODES)
    source.start()
    wait_for(lambda: age_s(source, "node-a") < 2 and age_s(source, "node-b") < 2, what="a fresh reading")
    yield source
    source.stop()


def test_killed_it_leaves_readings_that_grow_old_and_after_its_return_they_are_fresh_again(server, source):
    server.kill()
    wait_for(lambda: age_s(source, "node-a") > 3.0, what="an old reading")
    assert any("does not answer" in problem for problem in source.newest().problems)
    assert source.newest().columns["rx_mbps"]["node-a"].value > 0.0  # the last one, with its true age
    server.start()
    wait_for(lambda: age_s(source, "node-a") < 2.0, 25.0, "a fresh reading after the restart")
    wait_for(lambda: not any("does not answer" in problem for problem in source.newest().problems))


def test_an_exporter_that_stops_makes_one_node_old_and_leaves_the_other_fresh(exporters, source):
    exporters["node-b"].answers = False
    try:
        wait_for(lambda: age_s(source, "node-b") > 3.0, what="an old reading")
        assert age_s(source, "node-a") < 2.5
        assert any("1 nodes have no fresh series: node-b" in problem for problem in source.newest().problems)
    finally:
        exporters["node-b"].answers = True
    wait_for(lambda: age_s(source, "node-b") < 2.0, what="a fresh reading")


def test_a_counter_that_begins_again_is_no_burst_and_no_negative_rate(exporters, source):
    exporters["node-b"].reset()
    until_s, seen = time.monotonic() + 5.0, []
    while time.monotonic() < until_s:
        seen.append(source.newest().columns["rx_mbps"]["node-b"].value)
        time.sleep(0.25)
    assert max(seen) < 60.0  # the counter itself fell by some 8,000 Mbit
    assert min(seen) > 10.0


def test_slow_answers_that_are_in_time_are_used_and_slower_ones_are_not(server):
    proxy = DelayingProxy(server.port, delay_s=0.2)
    slow = PrometheusSource(settings_for(proxy.address, interval_s=3.0, pods=False), lambda: NODES)
    try:
        slow.read()
        assert age_s(slow, "node-a") < 4.0
        proxy.delay_s = 5.0
        began_s = time.monotonic()
        slow.read()
        assert time.monotonic() - began_s < 2.0  # one question timed out: the others were not asked
        assert any("does not answer" in problem for problem in slow.newest().problems)
        proxy.delay_s = 0.0
        slow.read()
        assert age_s(slow, "node-a") < 2.0
    finally:
        proxy.close()


def test_a_round_that_is_too_long_goes_on_where_it_ended(server):
    proxy = DelayingProxy(server.port, delay_s=0.25)
    slow = PrometheusSource(settings_for(proxy.address, interval_s=1.0, pods=False), lambda: NODES)
    try:
        began_s = time.monotonic()
        slow.read()
        assert time.monotonic() - began_s < 1.6
        assert any("took too long" in problem or "within" in problem for problem in slow.newest().problems)
        missing = {"rx_mbps", "cpu_used_millicores", "memory_used_mib"} - set(slow.newest().columns)
        assert missing
        for _ in range(5):
            slow.read()
        assert missing <= set(slow.newest().columns)
    finally:
        proxy.close()


def test_stop_does_not_wait_for_an_answer(server):
    proxy = DelayingProxy(server.port, delay_s=10.0)
    source = PrometheusSource(settings_for(proxy.address, timeout_s=8.0, interval_s=1.0), lambda: NODES)
    source.start()
    time.sleep(0.3)
    began_s = time.monotonic()
    source.stop()
    assert time.monotonic() - began_s < 1.0
    proxy.close()


def test_renamed_labels_are_found_again(server, source):
    try:
        server.configure({name: {"instance": "exporter:1", "kubernetes_node": name} for name in NODES})
        server.reload()
        wait_for(lambda: server.count(f'{RATES} and on (kubernetes_node) up{{kubernetes_node="node-a"}}') == 2)
        wait_for(lambda: source._mapping.label == "kubernetes_node", 20.0, "the new label")
        wait_for(lambda: age_s(source, "node-a") < 2.0 and age_s(source, "node-b") < 2.0, what="fresh readings")
    finally:
        server.configure(LABELS)
        server.reload()


def test_an_exporter_whose_clock_is_ahead_is_never_younger_than_now(tmp_path):
    ahead = Counters()
    ahead.clock_ahead_s = 1.5
    with prometheus_over(tmp_path / "prometheus", {"node-a": ahead}, {"node-a": LABELS["node-a"]}) as server:
        wait_for(lambda: server.count(RATES) == 2)
        source = PrometheusSource(settings_for(server.address), lambda: NODES)
        source.read()
        assert 0.0 <= age_s(source, "node-a", "memory_used_mib") < 3.0


def test_an_empty_prometheus_gives_no_reading_and_says_so(tmp_path):
    with prometheus_over(tmp_path / "prometheus", {}) as server:
        metrics = PrometheusSource(settings_for(server.address), lambda: NODES).read()
    assert all(readings == {} for readings in metrics.columns.values())
    assert "no series of a node exporter (node_memory_MemTotal_bytes)" in metrics.problems


@pytest.mark.parametrize(("status", "body"), [(500, b"boom"), (200, b"garbage"), (200, b" " * (2 << 20)), (200, b"{}")])
def test_any_other_server_behind_the_address_is_said_and_not_believed(status, body):
    with answering(status, body) as address:
        source = PrometheusSource(settings_for(address, max_reply_bytes=1 << 20), lambda: NODES)
        assert source.read().columns == {}
        assert source.newest().problems


def test_nobody_behind_the_address_is_said_once_in_the_log(caplog):
    source = PrometheusSource(settings_for(f"http://127.0.0.1:{free_port()}"), lambda: NODES)
    for _ in range(3):
        source.read()
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1

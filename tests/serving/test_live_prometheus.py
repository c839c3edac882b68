"""The sidecar as a process beside a real Prometheus; the API server is scripted."""

from __future__ import annotations

import sys
import time
import urllib.request

import pytest

from tests.envs.live.scripted_api import ScriptedApi, api_node, api_pod
from tests.prometheus import Counters, answering, prometheus_over, wait_for
from tests.serving.test_live import kubeconfig, serve  # noqa: F401  (fixtures)
from tests.serving.test_run import ask, wait_until_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # a process, a Prometheus and waiting for both

POD = {"requirements": {"cpu": "100m", "memory": "64Mi", "network_mbps": 10}}
BUSY, IDLE = 100e6, 1e6  # bytes in a second, of a NIC that carries 125e6
SCRAPE_S = 1.0


@pytest.fixture(scope="module")
def exporters():
    return {"a": Counters(rx_bytes_per_s=IDLE), "b": Counters(rx_bytes_per_s=BUSY)}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory, exporters):
    labels = {"a": {"instance": "10.0.0.1:9100"}, "b": {"instance": "10.0.0.2:9100"}}
    with prometheus_over(tmp_path_factory.mktemp("prometheus"), exporters, labels) as server:
        wait_for(lambda: server.count('rate(node_network_receive_bytes_total{device="eth0"}[4s])') == 2)
        yield server


@pytest.fixture
def sidecar(prometheus, serve):  # noqa: F811
    api = ScriptedApi()
    for number, name in enumerate(("a", "b"), 1):
        node = api_node(name, cpu="4")
        node["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{number}"}]
        api.put("nodes", node)
    with answering(200, b"12.50") as probe:
        port, process = serve(
            api.url,
            PILOTFISH_CLUSTER__METRICS="prometheus",
            PILOTFISH_MODEL__FOLDER="none",
            PILOTFISH_LADDER__STALE_AFTER_S="4",
            PILOTFISH_PROMETHEUS__ADDRESS=prometheus.address,
            PILOTFISH_PROMETHEUS__INTERVAL_S=str(SCRAPE_S),
            PILOTFISH_PROMETHEUS__WINDOW_S="4",
            PILOTFISH_ASSUMED__WINDOW_S="4",
            PILOTFISH_PROBE__URL=f"{probe}/",
        )
        wait_until_ready(process, port)
        wait_for(lambda: known(port, "network"), 20.0, "metrics in the state")
        yield port
    api.stop()


def known(port: int, group: str) -> bool:
    age_s = ask(port, "/v1/score", POD)["ages_s"][group]
    return age_s is not None and age_s < 4.0


def best(port: int) -> str:
    return ask(port, "/v1/score", POD)["best"]


def exposition(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
        return reply.read().decode()


def busiest(prometheus, instance: str) -> bool:
    """Whether that is so for Prometheus by now."""
    rates = 'max by (instance) (rate(node_network_receive_bytes_total{device="eth0"}[4s]))'
    return prometheus.count(f'topk(1, {rates}) and on (instance) up{{instance="{instance}"}}') == 1


def delay_s(port: int, prometheus, instance: str, idle: str) -> float:
    """How long after Prometheus the scores know that this instance is the busiest."""
    wait_for(lambda: busiest(prometheus, instance), what=f"traffic at {instance}")
    scraped_s = time.monotonic()
    wait_for(lambda: best(port) == idle, what=f"{idle} is best")
    return time.monotonic() - scraped_s


def test_a_change_of_traffic_is_in_the_scores_within_one_scrape(sidecar, prometheus, exporters, capsys):
    wait_for(lambda: best(sidecar) == "a", what="the idle node is best")
    delays_s = []
    for idle, busy, instance in (("b", "a", "10.0.0.1:9100"), ("a", "b", "10.0.0.2:9100")) * 2:
        exporters[idle].rx_bytes_per_s, exporters[busy].rx_bytes_per_s = IDLE, BUSY
        delays_s.append(delay_s(sidecar, prometheus, instance, idle))
    with capsys.disabled():
        sys.stdout.write(f"seconds from Prometheus to the scores: {[round(delay, 2) for delay in delays_s]}\n")
    assert max(delays_s) < SCRAPE_S + 0.5, delays_s  # half a second for a busy machine


def test_prometheus_killed_leaves_pods_schedulable_and_its_return_is_noticed(sidecar, prometheus):
    assert ask(sidecar, "/v1/score", POD)["source"] == "expected_utilisation"
    prometheus.kill()
    wait_for(lambda: ask(sidecar, "/v1/score", POD)["source"] == "least_allocated", 20.0, "the next step of the ladder")
    began_s = time.monotonic()
    reply = ask(sidecar, "/v1/score", POD)
    assert time.monotonic() - began_s < 1.0
    assert {score["node"] for score in reply["scores"]} == {"a", "b"}
    assert all(isinstance(score["score"], int) for score in reply["scores"])
    assert any("does not answer" in problem for problem in ask(sidecar, "/v1/state")["problems"])
    prometheus.start()
    wait_for(lambda: ask(sidecar, "/v1/score", POD)["source"] == "expected_utilisation", 25.0, "traffic counts again")


def test_each_source_is_in_the_metrics_and_the_probe_filters_nodes_that_are_too_far(sidecar):
    wait_for(lambda: 'pilotfish_source_nodes{column="user_latency_ms",source="probe"} 2.0' in exposition(sidecar))
    text = exposition(sidecar)
    assert 'pilotfish_source_nodes{column="rx_mbps",source="prometheus"} 2.0' in text
    assert 'pilotfish_source_age_seconds{column="rx_mbps",source="prometheus"}' in text
    picky = {"pod": api_pod("picky", annotations={"latencyHardConstraint": "10"})}
    wait_for(lambda: set(ask(sidecar, "/v1/score", picky)["filtered"]) == {"a", "b"}, what="12.5 ms are too much")
    assert {node["nic_mbps"] for node in ask(sidecar, "/v1/state")["nodes"]} == {1000.0}


def test_another_address_in_the_settings_file_is_asked_without_a_restart(prometheus, serve, tmp_path):  # noqa: F811
    api, file = ScriptedApi(), tmp_path / "pilotfish.yaml"
    node = api_node("a", cpu="4")
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}]
    api.put("nodes", node)

    def write(address: str) -> None:
        file.write_text(f"reload: {{every_s: 0.2}}\nprometheus: {{address: '{address}', interval_s: 1, window_s: 4}}\n")

    write("http://127.0.0.1:9")
    port, process = serve(api.url, PILOTFISH_CONFIG=str(file), PILOTFISH_CLUSTER__METRICS="prometheus")
    wait_until_ready(process, port)
    wait_for(lambda: any("does not answer" in problem for problem in ask(port, "/v1/state")["problems"]))
    assert not known(port, "network")
    write(prometheus.address)
    wait_for(lambda: known(port, "network"), 20.0, "the metrics of the other Prometheus")
    write("nonsense")
    wait_for(lambda: "no address such as" in (ask(port, "/v1/state")["settings"]["problem"] or ""), what="the problem")
    assert known(port, "network"), "the old address is still asked"
    api.stop()

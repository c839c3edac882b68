"""Other sources of metrics while the sidecar runs: probes that answer over sockets, and a Prometheus that does not."""

from __future__ import annotations

import threading

import pytest

from agent.cluster import Node
from agent.errors import InputError
from envs.live.kubernetes.access import Access
from envs.live.kubernetes.api import ApiServer
from envs.live.ledger import Ledger
from serving.configuration import ConfigurationSource
from serving.measuring import Measuring, chosen
from serving.reloading import LiveSettings
from serving.settings import Settings
from tests.prometheus import answering, wait_for

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def ledger():
    ledger = Ledger()
    ledger.set_node(Node("a", 4000, 1 << 30), ("10.0.0.1",))
    return ledger


@pytest.fixture
def measure(ledger):
    running = []

    def start(**groups):
        measuring = Measuring(Settings(**groups), ApiServer(Access(NOBODY)), ledger)
        measuring.start()
        running.append(measuring)
        return measuring

    yield start
    for measuring in running:
        measuring.stop()


def latency_ms(measuring):
    reading = measuring.newest().columns.get("user_latency_ms", {}).get("a")
    return None if reading is None else reading.value


def test_another_probe_is_asked_and_until_it_answers_the_last_reading_stays(measure):
    groups = {"cluster": {"metrics": "none"}}
    with answering(200, b"12.50") as near, answering(200, b"80.00") as far:
        measuring = measure(**groups, probe={"url": f"{near}/"})
        wait_for(lambda: latency_ms(measuring) == 12.5)
        old = measuring.sources["probe"]
        measuring.apply(Settings(**groups, probe={"url": f"{NOBODY}/"}))
        wait_for(lambda: "do not answer" in str(measuring.newest().problems))
        assert latency_ms(measuring) == 12.5, "it grows old, as it would if the probe had gone"
        assert not old._thread.is_alive()
        measuring.apply(Settings(**groups, probe={"url": f"{far}/"}))
        wait_for(lambda: latency_ms(measuring) == 80.0)
    measuring.apply(Settings(**groups))
    assert (measuring.newest().columns, dict(measuring.sources)) == ({}, {})


def test_a_source_whose_settings_stay_is_left_alone(measure):
    prometheus = {"address": NOBODY, "timeout_s": 0.2}
    measuring = measure(prometheus=prometheus)
    before = measuring.sources["prometheus"]
    measuring.apply(Settings(prometheus=prometheus, probe={"url": f"{NOBODY}/"}))
    assert measuring.sources["prometheus"] is before
    assert list(measuring.sources) == ["prometheus", "probe"]
    measuring.apply(Settings(prometheus=prometheus | {"window_s": 120.0}))
    assert measuring.sources["prometheus"] is not before
    assert list(measuring.sources) == ["prometheus"]
    assert "Prometheus" in {thread.name for thread in threading.enumerate()}


def test_a_change_that_leaves_no_address_is_refused_and_the_old_source_stays(measure, tmp_path, monkeypatch):
    """Through the file, as a user changes it."""
    file = tmp_path / "pilotfish.yaml"
    file.write_text(f"cluster: {{metrics: prometheus}}\nprometheus: {{address: '{NOBODY}', timeout_s: 0.2}}\n")
    source = ConfigurationSource(file)
    live = LiveSettings(source.read().settings)
    measuring = measure(cluster={"metrics": "prometheus"}, prometheus={"address": NOBODY, "timeout_s": 0.2})
    live.check(chosen)
    live.on_change(measuring.apply)
    before = measuring.sources["prometheus"]
    file.write_text("cluster: {metrics: prometheus}\n")
    live.reload(source.read)
    assert "no Prometheus is named" in live.problem
    assert measuring.sources["prometheus"] is before
    assert live.current.prometheus.address == NOBODY
    file.write_text(f"cluster: {{metrics: prometheus}}\nprometheus: {{address: '{NOBODY}', timeout_s: 0.3}}\n")
    live.reload(source.read)
    assert live.problem == ""
    assert measuring.sources["prometheus"].settings.timeout_s == 0.3


def test_a_source_without_an_address_is_one_clear_error():
    with pytest.raises(InputError, match="PILOTFISH_PROMETHEUS__ADDRESS"):
        chosen(Settings(cluster={"metrics": "prometheus"}))

"""Latency probes: real servers on loopback, real connections."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress

import pytest
from pydantic import ValidationError

from agent.errors import InputError
from envs.live.joined import JoinedSources
from envs.live.metrics import LiveMetrics, PodUse, Reading
from envs.live.probe import LatencySource, Place, Probe, mean_ping_ms, parse_target
from envs.live.probe_settings import ProbeSettings
from tests.prometheus import answering, free_port, wait_for


@pytest.fixture
def target():
    """Something that listens; the kernel completes connections that nobody accepts."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def probe(target):
    probe = Probe(target, "127.0.0.1", 0, every_s=60.0)
    threading.Thread(target=probe.serve, daemon=True).start()
    yield f"http://127.0.0.1:{probe.server.server_port}/"
    probe.stop()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return reply.read().decode()


def test_a_probe_answers_with_milliseconds_and_two_decimals(probe):
    def known() -> bool:
        try:
            return bool(get(probe))
        except urllib.error.HTTPError as waiting:
            return waiting.code == 200

    wait_for(known)
    text = get(probe)
    assert text == f"{float(text):.2f}"
    assert 0.0 < float(text) < 50.0


def test_a_probe_without_an_answer_of_its_target_says_so():
    probe = Probe(f"127.0.0.1:{free_port()}", "127.0.0.1", 0)
    threading.Thread(target=probe.serve, daemon=True).start()
    time.sleep(0.2)
    with pytest.raises(urllib.error.HTTPError, match="503"):
        get(f"http://127.0.0.1:{probe.server.server_port}/")
    probe.stop()


def test_the_mean_is_of_fifty_pings_or_of_those_that_fit_into_the_time():
    came: list[object] = []

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                came.append(listener.accept())

    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        assert 0.0 < mean_ping_ms(listener.getsockname()) < 50.0
        wait_for(lambda: len(came) == 50)
        assert mean_ping_ms(listener.getsockname(), within_s=0.1) is not None
        time.sleep(0.2)
        assert 50 < len(came) < 70


@pytest.mark.parametrize("target", ["users.example", "", "host:port", ":80", "host:99999"])
def test_a_target_without_host_or_port_is_refused(target):
    with pytest.raises(InputError, match="host:port"):
        parse_target(target)


def test_nodes_get_the_latency_of_their_own_probe_their_zone_s_or_the_common_one():
    with answering(200, b"11.50") as own, answering(200, b"22.00") as zone, answering(200, b"33.25") as common:
        port = common.rpartition(":")[2]
        settings = ProbeSettings(url=f"http://<address>:{port}/", urls={"a": f"{own}/", "zone:far": f"{zone}/"})
        places = {
            "a": Place("127.0.0.1", "far"),
            "b": Place("127.0.0.1", "far"),
            "c": Place("127.0.0.1", "near"),
            "d": Place("", "near"),
        }
        metrics = LatencySource(settings, lambda: places).read()
    found = {name: reading.value for name, reading in metrics.columns["user_latency_ms"].items()}
    assert found == {"a": 11.5, "b": 22.0, "c": 33.25}
    assert metrics.problems == ()


@pytest.mark.parametrize(
    ("status", "body"), [(503, b"1.0"), (200, b"nan"), (200, b"-1"), (200, b"fast"), (200, b"1" * 100), (302, b"")]
)
def test_a_probe_that_talks_nonsense_leaves_the_latency_unknown(status, body):
    with answering(status, body) as address:
        source = LatencySource(ProbeSettings(url=address), lambda: {"a": Place("10.0.0.1", "")})
        assert source.read().columns["user_latency_ms"] == {}
    assert source.newest().problems == ("1 of 1 latency probes do not answer",)


def test_a_probe_that_falls_silent_leaves_its_last_reading_with_its_time():
    with answering(200, b"7.00") as address:
        source = LatencySource(ProbeSettings(url=address), lambda: {"a": Place("", "")})
        before = source.read().columns["user_latency_ms"]["a"]
    assert source.read().columns["user_latency_ms"]["a"] == before


def test_the_source_reads_in_the_background_and_stops_soon():
    with answering(200, b"7.00") as address:
        source = LatencySource(ProbeSettings(url=address, interval_s=0.2), lambda: {"a": Place("", "")})
        source.start()
        wait_for(lambda: source.newest().columns.get("user_latency_ms"))
        began_s = time.monotonic()
        source.stop()
    assert time.monotonic() - began_s < 1.0


@pytest.mark.parametrize("url", ["8100", "ftp://<address>/", "http://"])
def test_an_address_of_a_probe_that_is_none_is_refused(url):
    with pytest.raises(ValidationError, match="no address of a probe"):
        ProbeSettings(url=url)


def test_probes_are_off_by_default():
    assert not ProbeSettings().on
    assert ProbeSettings(urls={"zone:far": "http://probe:8100/"}).on


def test_joined_sources_have_what_each_of_them_knows_and_the_first_goes_before():
    class Still:
        def __init__(self, metrics: LiveMetrics) -> None:
            self.metrics = metrics

        def newest(self) -> LiveMetrics:
            return self.metrics

    first = LiveMetrics({"rx_mbps": {"a": Reading(1.0, 0.0)}}, {("x", "p"): PodUse(1, 1, 1, 1)}, ("one",))
    second = LiveMetrics(
        {"rx_mbps": {"a": Reading(9.0, 0.0), "b": Reading(2.0, 0.0)}, "user_latency_ms": {"a": Reading(5.0, 0.0)}},
        {},
        ("two",),
    )
    joined = JoinedSources([Still(first), Still(second)])
    metrics = joined.newest()
    assert {name: reading.value for name, reading in metrics.columns["rx_mbps"].items()} == {"a": 1.0, "b": 2.0}
    assert metrics.columns["user_latency_ms"]["a"].value == 5.0
    assert metrics.problems == ("one", "two")
    assert joined.newest() is metrics

"""The event stream on a real socket: what it tells, and that nobody can hold the sidecar up by reading it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from agent.cluster import Pod
from serving.app import create_app
from serving.settings import ConnectionSettings, ModelSettings, ServerSettings, Settings
from tests.serving.conftest import NAMES, StillSource, a_snapshot, without_metrics
from tests.serving.console.test_page import larger

MOST = 2


@pytest.fixture
def settings():
    return Settings(model=ModelSettings(folder="none"), server=ServerSettings(max_event_streams=MOST))


@pytest.fixture
def app(settings, source, decider, metrics):
    return create_app(settings, source, decider, metrics)


@pytest.fixture
def address(serve, app):
    return serve(app)


@contextmanager
def reading(address: str) -> Iterator[Iterator[tuple[str, Any]]]:
    with httpx.stream("GET", f"{address}/v1/events", timeout=10.0) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        yield parsed(reply.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def next_of(kind: str, told: Iterator[tuple[str, Any]]) -> Any:
    return next(content for name, content in told if name == kind)


def score(address: str, **requirements) -> None:
    httpx.post(f"{address}/v1/score", json={"requirements": requirements}).raise_for_status()


def wait_until(holds, within_s: float = 5.0) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def test_the_state_comes_first_and_again_as_a_heartbeat(address, source):
    source.current = without_metrics(a_snapshot(), "network")
    with reading(address) as told:
        state = next_of("state", told)
        began_s = time.monotonic()
        next_of("state", told)
    assert time.monotonic() - began_s < 4.0
    assert state["nodes"]["name"] == list(NAMES)
    assert state["nodes"]["network_age_s"] == [None] * len(NAMES)
    assert state["nodes"]["cpu_used_millicores"] == [400.0, 6000.0, 2000.0, 100.0, 100.0]
    assert [step["breaker"] for step in state["ladder"]] == ["closed", "closed"]


def test_before_there_is_a_cluster_the_state_says_so(address, source):
    source.current = None
    with reading(address) as told:
        state = next_of("state", told)
    assert (state["age_s"], state["nodes"]) == (None, {})


def test_decisions_and_bindings_are_told_once_within_a_second(address, decider):
    score(address, name="before")
    with reading(address) as told:
        assert [each["name"] for each in next_of("decisions", told)["decisions"]] == ["before"]
        score(address, name="after", uid="u1")
        began_s = time.monotonic()
        assert [each["name"] for each in next_of("decisions", told)["decisions"]] == ["after"]
        assert time.monotonic() - began_s < 1.0
        decider.decisions.on_bound("u1", "small")
        content = next_of("decisions", told)
    assert content["decisions"] == []
    assert [each["bound"] for each in content["bound"]] == ["small"]


def test_a_flood_of_decisions_is_told_in_part_and_the_numbers_show_the_gap(address, app):
    with reading(address) as told:
        next_of("state", told)
        decider, snapshot = app.state.sidecar.decider, app.state.sidecar.source.snapshot()
        for number in range(300):
            decider.decide(snapshot, Pod(name=f"p{number}", uid=f"u{number}"))
        received: list[int] = []
        while 300 not in received:
            received += [each["number"] for each in next_of("decisions", told)["decisions"]]
    assert received == sorted(set(received))
    assert len(received) < 300


def test_more_readers_than_allowed_are_told_so_and_a_place_becomes_free_again(address, app):
    with reading(address) as one, reading(address) as other:
        next_of("state", one)
        next_of("state", other)
        refused = httpx.get(f"{address}/v1/events")
        assert refused.status_code == 503
        assert f"{MOST} event streams" in refused.json()["error"]
    wait_until(lambda: app.state.sidecar.streams.open == 0)
    with reading(address) as told:
        next_of("state", told)


def test_streams_end_at_once_when_the_sidecar_stops(address, app):
    with reading(address) as told:
        next_of("state", told)
        app.state.sidecar.streams.stop()
        began_s = time.monotonic()
        assert [name for name, _ in told if name != "state"] == []
    assert time.monotonic() - began_s < 1.0


class TestSlowReader:
    @pytest.fixture
    def source(self):
        return StillSource(larger(a_snapshot(), copies=1000))

    @pytest.fixture
    def settings(self, settings):
        return settings.model_copy(update={"connections": ConnectionSettings(slow_client_s=1.0)})

    def test_is_dropped_and_nobody_waits_for_it(self, address, app):
        host, port = address.removeprefix("http://").split(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((host, int(port)))
            deaf.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: app.state.sidecar.streams.open == 1)
            began_s = time.monotonic()
            score(address, name="meanwhile")
            assert time.monotonic() - began_s < 2.0
            wait_until(lambda: app.state.sidecar.streams.open == 0, within_s=30.0)

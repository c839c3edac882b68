"""Sidecars on real sockets, and the certificates to speak to them."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from serving.app import create_app
from serving.decide import new_decider
from serving.listening import Server, listen
from serving.observability import Metrics
from serving.settings import ConnectionSettings, ModelSettings, SecuritySettings, ServerSettings, Settings
from tests.serving.conftest import ManualClock, StillSource, a_snapshot
from tests.serving.security.authority import Authority

TOKENS = ("the-first-token-of-the-tests", "the-second-token-of-the-tests")

Start = Callable[..., int]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def a_sidecar(settings: Settings) -> Server:
    clock, metrics = ManualClock(), Metrics()
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    return Server(create_app(settings, StillSource(a_snapshot()), decider, metrics), settings)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a sidecar with these security and connection settings, and gives its port."""
    running: list[tuple[Server, threading.Thread]] = []

    def begin(connections: ConnectionSettings | None = None, **security: str) -> int:
        settings = Settings(
            server=ServerSettings(port=free_port()),
            security=SecuritySettings(**security),
            connections=connections or ConnectionSettings(),
            model=ModelSettings(folder="none"),
        )
        listener, server = listen(settings), a_sidecar(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return settings.server.port

    yield begin
    for server, thread in running:
        server.should_exit = True
        thread.join(timeout=5)


@pytest.fixture
def ours(tmp_path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def theirs(tmp_path) -> Authority:
    return Authority(tmp_path, "theirs")


@pytest.fixture
def token_file(tmp_path) -> str:
    file = tmp_path / "tokens"
    file.write_text("# operators\n{}\n\n{}\n".format(*TOKENS))
    return str(file)


@pytest.fixture
def log(caplog) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog

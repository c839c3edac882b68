"""Sidecars on real sockets, and the certificates to speak to them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from serving.settings import ConnectionSettings, ModelSettings, SecuritySettings, ServerSettings, Settings
from tests.serving.listening_sidecar import listening_sidecar
from tests.serving.security.authority import Authority

TOKENS = ("the-first-token-of-the-tests", "the-second-token-of-the-tests")

Start = Callable[..., int]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a sidecar with these security and connection settings, and gives its port."""
    with ExitStack() as running:

        def begin(connections: ConnectionSettings | None = None, **security: str) -> int:
            settings = Settings(
                server=ServerSettings(port=free_port()),
                security=SecuritySettings(**security),
                connections=connections or ConnectionSettings(),
                model=ModelSettings(folder="none"),
            )
            running.enter_context(listening_sidecar(settings))
            return settings.server.port

        yield begin


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

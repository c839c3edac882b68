"""A sidecar over five still nodes, listening on a real socket, in a thread of the test."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from serving.app import create_app
from serving.decide import new_decider
from serving.listening import Server, listen
from serving.observability import Metrics
from serving.settings import Settings
from tests.serving.conftest import ManualClock, StillSource, a_snapshot

STOPPED_WITHIN_S = 5


def a_sidecar(settings: Settings) -> Server:
    clock, metrics = ManualClock(), Metrics()
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    app = create_app(settings, StillSource(a_snapshot()), decider, metrics)
    return Server(app, settings, at_once=app.at_once)


@contextmanager
def listening_sidecar(settings: Settings) -> Iterator[Server]:
    with listening(a_sidecar(settings), listen(settings)) as server:
        yield server


@contextmanager
def listening(server: Server, listener: socket.socket) -> Iterator[Server]:
    """In a thread."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(timeout=STOPPED_WITHIN_S)

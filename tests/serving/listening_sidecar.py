"""A sidecar over five still nodes, listening on a real socket, in a thread of the test."""

from __future__ import annotations

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
    return Server(create_app(settings, StillSource(a_snapshot()), decider, metrics), settings)


@contextmanager
def listening_sidecar(settings: Settings) -> Iterator[Server]:
    listener, server = listen(settings), a_sidecar(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(timeout=STOPPED_WITHIN_S)

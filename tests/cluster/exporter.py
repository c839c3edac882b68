"""Node metrics that answer to placement: reads the bindings from the API server and serves a page for every node.

Prometheus scrapes it, Pilotfish reads Prometheus, kube-scheduler asks Pilotfish, and where the pods go is seen here:
the loop is closed with real parts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.cluster.api import Api, Refused
from tests.cluster.apiserver import LOOPBACK
from tests.cluster.tape_objects import node_number, pod_number
from tests.cluster.truth import Truth

LOOK_EVERY_S = 0.2


class Exporter:
    """Ticks and listens in threads of its own from ``start`` to ``stop``."""

    def __init__(self, truth: Truth, admin: Api, namespace: str) -> None:
        self.truth = truth
        self.clock_ahead_s: float | None = None  # set: samples carry the time of a clock that is so wrong
        self._admin = admin
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._tick_every_s = float(truth.tape.tick_s) / truth.speed
        self._running: set[int] = set()
        self._stopping = threading.Event()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler_of(self.page))
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=self._repeat, args=(self._look, LOOK_EVERY_S), daemon=True),
            threading.Thread(target=self._repeat, args=(self._tick, self._tick_every_s), daemon=True),
        ]

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._server.server_port}"

    def page(self, node: int) -> str:
        page = self.truth.page(node)
        if self.clock_ahead_s is None:
            return page
        stamp_ms = round((time.time() + self.clock_ahead_s) * 1000)
        return "".join(f"{line} {stamp_ms}\n" for line in page.splitlines())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()

    def _look(self) -> None:
        """Which pods are bound where, and which are gone."""
        try:
            listed = self._admin.get(self._pods, resourceVersion="0")["items"]
        except (httpx.TransportError, Refused):
            return  # an API server that is away: pods run on where they are
        bound = {
            pod_number(pod["metadata"]["name"]): node_number(pod["spec"]["nodeName"])
            for pod in listed
            if "nodeName" in pod["spec"]
        }
        for pod, node in bound.items():
            self.truth.bound(pod, node)
        for pod in self._running - bound.keys():
            self.truth.gone(pod)
        self._running = set(bound)

    def _tick(self) -> None:
        """Nobody's time is over: a test that wants pods to end deletes them (or see tests.cluster.following)."""
        self.truth.advance()

    def _repeat(self, act: Callable[[], None], every_s: float) -> None:
        due_s = time.monotonic()
        while not self._stopping.wait(max(due_s - time.monotonic(), 0.0)):
            act()
            due_s += every_s


def _handler_of(page: Callable[[int], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(node_number(self.path.strip("/"))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who asked may be gone: Prometheus is killed, too
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads that a scrape has come."""

    return Handler

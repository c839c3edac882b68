"""Latency to the users as probes on the nodes measure it: they answer ``GET /`` with milliseconds (S1.34).

``Probe`` is such a probe: it times connections to a target and keeps the mean. ``LatencySource`` asks the probes of all
nodes in the background and fills ``user_latency_ms``. A node without a probe, or whose probe does not answer, is
simply of unknown latency.
"""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from agent.breaker import Clock
from agent.errors import InputError
from envs.live.metrics import LiveMetrics, Reading
from envs.live.probe_settings import ProbeSettings
from envs.live.rounds import RoundsSource

logger = logging.getLogger(__name__)

COLUMN = "user_latency_ms"
PINGS = 50
PAUSE_S = 0.02  # a burst of connections fills the queue of a busy target, and would measure that
PORT = 8100
ROUND_WITHIN_S = 10.0  # 50 pings of a far target must not take for ever: the mean of fewer is as good
REPLY_BYTES = 64
MOST_MS = 1e6
AT_ONCE = 8  # probes asked at the same time


class Place(NamedTuple):
    address: str  # of the node, "" if unknown
    zone: str


Places = Callable[[], Mapping[str, Place]]  # by node name


class LatencySource(RoundsSource):
    """One column."""

    def __init__(self, settings: ProbeSettings, places: Places, wall: Clock = time.time) -> None:
        super().__init__("latency probes", settings.interval_s)
        self._settings = settings
        self._places = places
        self._wall = wall

    def _has_begun(self) -> bool:
        return bool(self._places())

    def read(self) -> LiveMetrics:
        """Ask every probe once; each URL only once, however many nodes share it."""
        places = self._places()
        url_of = {name: self._settings.url_of(name, place.zone, place.address) for name, place in places.items()}
        urls = sorted(set(url_of.values()) - {""})
        with ThreadPoolExecutor(AT_ONCE, "probe") as pool:
            answers = dict(zip(urls, pool.map(self._ask, urls), strict=True))
        known = dict(self._newest.columns.get(COLUMN, {}))
        known |= {name: answers[url] for name, url in url_of.items() if (url and answers[url] is not None)}  # type: ignore[misc]
        silent = sum(answer is None for answer in answers.values())
        problems = (f"{silent} of {len(urls)} latency probes do not answer",) if silent else ()
        kept = {name: reading for name, reading in known.items() if name in places}
        self._newest = LiveMetrics({COLUMN: kept}, {}, problems)
        return self._newest

    def _ask(self, url: str) -> Reading | None:
        if self._stopping.is_set():
            return None
        try:
            return Reading(ask_probe(url, self._settings.timeout_s), self._wall())
        except (OSError, http.client.HTTPException, ValueError) as why:
            logger.debug("latency probe %s: %s", url, why)
            return None


def ask_probe(url: str, timeout_s: float) -> float:
    """Milliseconds; raises OSError, HTTPException or ValueError."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout_s)
    try:
        connection.request("GET", parts.path or "/")
        reply = connection.getresponse()
        text = reply.read(REPLY_BYTES + 1)
    finally:
        connection.close()
    latency_ms = float(text.decode("ascii")) if reply.status == 200 and len(text) <= REPLY_BYTES else -1.0
    if not 0.0 <= latency_ms <= MOST_MS:
        raise ValueError(f"status {reply.status}, {text[:REPLY_BYTES]!r}")
    return latency_ms


class Probe:
    """Measures in the background; ``GET /`` answers with the newest mean, 503 while there is none."""

    def __init__(self, target: str, host: str, port: int, every_s: float = 10.0) -> None:
        self._target = parse_target(target)
        self._every_s = every_s
        self.latency_ms: float | None = None
        self._stopping = threading.Event()
        self.server = ThreadingHTTPServer((host, port), _handler(self))
        self.server.daemon_threads = True

    def serve(self) -> None:
        """Until ``stop``."""
        threading.Thread(target=self._measure, name="pings", daemon=True).start()
        self.server.serve_forever(0.1)
        self.server.server_close()

    def stop(self) -> None:
        self._stopping.set()
        self.server.shutdown()

    def _measure(self) -> None:
        while not self._stopping.is_set():
            self.latency_ms = mean_ping_ms(self._target)
            self._stopping.wait(self._every_s)


def mean_ping_ms(target: tuple[str, int], pings: int = PINGS, within_s: float = ROUND_WITHIN_S) -> float | None:
    """Mean time to connect: one round trip, to anything that listens, without the rights that ICMP needs."""
    ends_at_s = time.monotonic() + within_s
    taken_ms: list[float] = []
    while len(taken_ms) < pings and (left_s := ends_at_s - time.monotonic()) > 0:
        began_s = time.perf_counter()
        try:
            socket.create_connection(target, timeout=left_s).close()
        except OSError:
            return None
        taken_ms.append((time.perf_counter() - began_s) * 1000.0)
        time.sleep(PAUSE_S)
    return sum(taken_ms) / len(taken_ms) if taken_ms else None


def parse_target(target: str) -> tuple[str, int]:
    parts = urlsplit(f"//{target}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise InputError(f"{target[:80]!r} is no target: give host:port, such as users.example:443")
    return host, port


def _handler(probe: Probe) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            latency_ms = probe.latency_ms
            body = b"not known yet\n" if latency_ms is None else f"{latency_ms:.2f}".encode()
            self.send_response(503 if latency_ms is None else 200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            logger.debug(format, *args)

    return Handler

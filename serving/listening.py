"""The HTTP server: uvicorn, with TLS that reloads and with clients that may not keep it waiting.

uvicorn bounds neither the time in which a request arrives nor that in which an answer is taken. Both are looked at
twice a second from outside, which costs a request nothing.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from agent.errors import InputError
from serving.connection import AtOnce, Connection
from serving.security.certificates import certificates_of
from serving.security.exposure import check_exposure
from serving.settings import ConnectionSettings, Settings

logger = logging.getLogger(__name__)

SHUTDOWN_S = 1  # for requests under way; a scheduler that loses one simply asks again
LOOK_EVERY_TICKS = 5  # of 0.1 s

# How long a thread that reads the watch or the metrics may go on while an answer waits; Python's own 5 ms are as long
# as all that kube-scheduler does for a pod.
SWITCH_INTERVAL_S = 0.0005


class Server(uvicorn.Server):
    """uvicorn on a socket of our own."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        on_stop: Callable[[], None] = lambda: None,
        at_once: Mapping[bytes, AtOnce] | None = None,
    ) -> None:
        """``at_once``: by path, what need not go through the application."""
        limits = settings.connections
        config = uvicorn.Config(
            app,
            loop="asyncio",  # uvloop takes one new connection a round: under load the others wait for seconds
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            proxy_headers=False,  # nobody here asks where a request came from
            limit_concurrency=limits.max_open,
            timeout_keep_alive=limits.keep_alive_s,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        super().__init__(config)
        self._certificates = certificates_of(settings.security)
        self._handshake_s = limits.slow_client_s if self._certificates else None
        self._waiting = Waiting(limits, time.monotonic)
        self._on_stop = on_stop
        self._connection = partial(Connection, at_once=at_once or {})

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, but for the certificates and the time that a handshake may take."""
        await super().startup(sockets=[])
        gc.collect()
        gc.freeze()  # what is loaded stays: looking through it again and again would only make single answers late
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        context = self._certificates.context if self._certificates else None
        for listener in sockets or []:
            server = await asyncio.get_running_loop().create_server(
                self._new_connection, sock=listener, ssl=context, ssl_handshake_timeout=self._handshake_s
            )
            self.servers.append(server)

    def _new_connection(self) -> asyncio.Protocol:
        return self._connection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams end first: it waits for requests under way, and these would go on for ever."""
        self._on_stop()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % LOOK_EVERY_TICKS == 0:
            for connection in self._waiting.overdue(self.server_state.connections):
                logger.debug("a client was too slow: its connection is closed")
                connection.transport.abort()
        return await super().on_tick(counter)


class Waiting:
    """How long each connection has kept us waiting: for a request, for the rest of one, or to take an answer."""

    def __init__(self, limits: ConnectionSettings, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._since_s: dict[Any, tuple[object, float]] = {}  # what for, and from when

    def overdue(self, connections: Iterable[Any]) -> list[Any]:
        now_s, since_s, late = self._clock(), {}, []
        for connection in connections:
            what, limit_s = self._awaited(connection)
            if what is None:
                continue
            before, began_s = self._since_s.get(connection, (None, now_s))
            since_s[connection] = (what, began_s if before == what else now_s)
            if now_s - since_s[connection][1] > limit_s:
                late.append(connection)
        self._since_s = since_s
        return late

    def _awaited(self, connection: Any) -> tuple[object, float]:
        """What this connection is awaited for, another value for another request (cycle), and how long it may last."""
        cycle, slow_s = connection.cycle, self._limits.slow_client_s
        if connection.held is not None:
            return ("body", connection.held), slow_s
        if cycle is None:
            return "first request", slow_s
        if connection.transport.get_write_buffer_size():
            return ("answer taken", cycle), slow_s
        if cycle.response_complete:
            return ("next request", cycle), self._limits.keep_alive_s
        return (("body", cycle), slow_s) if cycle.more_body else (None, 0.0)


def listen(settings: Settings) -> socket.socket:
    """Bind first: a port that is taken is one clear line, before anything has started."""
    server = settings.server
    check_exposure(server.host, settings.security)
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        listener = socket.create_server((server.host, server.port), family=family)
    except OSError as why:
        raise InputError(f"cannot listen on {server.host} port {server.port}: {why.strerror}; choose another") from why
    # asyncio does it only for sockets that it made itself; without it the second half of an answer can wait 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener

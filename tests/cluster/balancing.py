"""One address before several servers: what a Service is to the replicas behind it."""

from __future__ import annotations

import itertools
import socket
import socketserver
import threading
from collections.abc import Sequence
from contextlib import suppress

from tests.cluster.apiserver import LOOPBACK

READ_BYTES = 65_536
CONNECT_WITHIN_S = 1.0


class Balancer:
    """Gives each new connection to the next server that takes it."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turns = itertools.count()
        choose = self._connect

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with choose() as server:
                    back = threading.Thread(target=_pass_on, args=(server, self.request), daemon=True)
                    back.start()
                    _pass_on(self.request, server)
                    back.join()

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _connect(self) -> socket.socket:
        first = next(self._turns)
        for turn in range(len(self._ports)):
            port = self._ports[(first + turn) % len(self._ports)]
            with suppress(OSError):
                return socket.create_connection((LOOPBACK, port), CONNECT_WITHIN_S)
        raise ConnectionRefusedError(f"none of the ports {self._ports} answers")


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until either side ends; then the other is told."""
    with suppress(OSError):
        source.settimeout(None)
        while data := source.recv(READ_BYTES):
            target.sendall(data)
    for side in (source, target):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)

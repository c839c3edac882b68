"""kube-scheduler's side of the wire: one connection that stays, requests one after the other."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.errors import InputError
from benchmarks.extender.cluster import APPS, name

READY_WITHIN_S = 60.0
HOST = "127.0.0.1"


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=10.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> tuple[float, bytes]:
        """Seconds until the whole answer was there, and its body; anything but 200 is an error."""
        began_s = time.perf_counter()
        self.send(request)
        body = self.receive()
        return time.perf_counter() - began_s, body

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """The body of the next answer."""
        head, body = self._head()
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        chunks, left = [body], length - len(body)
        while left > 0:
            chunks.append(self._received())
            left -= len(chunks[-1])
        if not head.startswith(b"HTTP/1.1 200"):
            raise InputError(f"the server answered {head.partition(bytes([13]))[0]!r}")
        return b"".join(chunks)

    def close(self) -> None:
        self._socket.close()

    def _head(self) -> tuple[bytes, bytes]:
        received = self._received()
        while b"\r\n\r\n" not in received:
            received += self._received()
        head, _, body = received.partition(b"\r\n\r\n")
        return head, body

    def _received(self) -> bytes:
        chunk = self._socket.recv(1 << 20)
        if not chunk:
            raise InputError("the server closed the connection")
        return chunk


def ask_once(port: int, request: bytes) -> bytes:
    """The body of one answer, over a connection of its own."""
    connection = Connection(port)
    try:
        return connection.ask(request)[1]
    finally:
        connection.close()


def a_get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def a_request(nodes: int, number: int, verb: str = "prioritize") -> bytes:
    """A call for pod ``number`` over all nodes, as bytes for the socket."""
    body = json.dumps(a_body(nodes, number), separators=(",", ":")).encode()
    head = f"POST /extender/{verb} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def a_body(nodes: int, number: int) -> dict[str, Any]:
    requests = {"cpu": "250m", "memory": "256Mi"}
    metadata = {"name": f"web-{number}", "namespace": "default", "uid": f"6f1b-{number}"}
    pod = {
        "metadata": metadata | {"labels": {"app.kubernetes.io/part-of": f"app-{number % APPS}"}},
        "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"requests": requests}}]},
    }
    return {"Pod": pod, "Nodes": None, "NodeNames": [name(index) for index in range(nodes)]}


@contextmanager
def running(kind: str, nodes: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server of ``benchmarks.extender.server``, ready, and its port."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.extender.server", kind, str(port), str(nodes)])
    try:
        wait_until_ready(process, port)
        yield process, port
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    until_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until_s and process.poll() is None:
        if _ready(port):
            return
        time.sleep(0.01)
    raise InputError("the server to be measured did not get ready")


def _ready(port: int) -> bool:
    try:
        ask_once(port, a_get("/readyz"))
    except (OSError, InputError):
        return False  # not listening yet, or not ready
    return True


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])

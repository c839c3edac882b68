"""A SIGTERM to the real process: requests under way are answered, and it is gone within two seconds."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time

import pytest

from tests.serving.leaving import WITHIN_S, seconds_to_leave
from tests.serving.test_run import free_port, pilotfish, wait_until_ready

SIMULATED = {"PILOTFISH_CLUSTER__SOURCE": "simulation"}
HEAD = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
BODY = json.dumps({"requirements": {"cpu": "250m", "memory": "64Mi"}}).encode()


@pytest.fixture(scope="module")
def start():
    running: list[subprocess.Popen] = []

    def begin() -> tuple[subprocess.Popen, int]:
        port = free_port()
        process = pilotfish("serve", "--port", str(port), PILOTFISH_MODEL__FOLDER="none", **SIMULATED)
        running.append(process)
        wait_until_ready(process, port)
        return process, port

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def half_a_request(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    client.sendall(HEAD % len(BODY) + BODY[:10])
    time.sleep(0.3)  # until the sidecar has read it
    return client


def everything(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_slow_request_under_way_is_still_answered(start):
    process, port = start()
    with half_a_request(port) as client:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.4)
        with pytest.raises(ConnectionRefusedError):  # nobody new is let in
            socket.create_connection(("127.0.0.1", port), timeout=5)
        client.sendall(BODY[10:])
        head, _, body = everything(client).partition(b"\r\n\r\n")
    assert seconds_to_leave(process.pid) < WITHIN_S - 0.4
    assert process.wait(timeout=10) == 0
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(body)["best"]


def test_a_term_while_it_starts_is_not_lost():
    """The first process of a container has no default for it: without a handler it would start, and stay."""
    process = pilotfish("serve", "--port", str(free_port()), PILOTFISH_MODEL__FOLDER="none", **SIMULATED)
    for line in process.stderr:
        if "answering at" in line:
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 0


def test_a_request_that_never_ends_holds_nothing_up(start):
    process, port = start()
    with half_a_request(port):
        process.send_signal(signal.SIGTERM)
        assert seconds_to_leave(process.pid) < WITHIN_S

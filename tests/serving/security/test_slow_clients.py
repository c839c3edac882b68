"""Clients that take their time take nobody else's."""

from __future__ import annotations

import http.client
import socket
import threading
import time

import pytest

from serving.settings import ConnectionSettings

SLOW_S = 1.0
GIVEN_UP_S = SLOW_S + 1.5  # it is looked at twice a second
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def port(start) -> int:
    return start(connections=ConnectionSettings(slow_client_s=SLOW_S, keep_alive_s=60, max_open=20))


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=GIVEN_UP_S)


def closes(client: socket.socket) -> float:
    """Seconds until the sidecar closes; it must do so within the time-out of the socket."""
    began_s = time.monotonic()
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - began_s


def test_a_connection_that_says_nothing_is_closed(port):
    with connect(port) as client:
        assert closes(client) > SLOW_S / 2


def test_a_header_that_trickles_is_cut_off(port):
    with connect(port) as client:
        assert trickle(client, b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 100)


def test_a_body_that_trickles_is_cut_off(port):
    head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    with connect(port) as client:
        client.sendall(head)
        assert trickle(client, b" " * 1000)


def trickle(client: socket.socket, content: bytes) -> bool:
    """Whether the sidecar closes before these bytes, one every 50 ms, would end or its time is over."""
    cut = threading.Event()

    def send() -> None:
        for byte in content:
            try:
                client.sendall(bytes([byte]))
            except OSError:
                return
            if cut.wait(0.05):
                return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        return closes(client) < GIVEN_UP_S
    finally:
        cut.set()
        sender.join()


def test_an_answer_that_is_not_taken_is_given_up(start):
    port = start(connections=ConnectionSettings(slow_client_s=SLOW_S))
    with connect(port) as client, pytest.raises(ConnectionError):
        ask_and_never_read(client)


def ask_and_never_read(client: socket.socket) -> None:
    """Soon the answers fill the buffers of both ends, and then the sidecar stops reading: a wait without an end."""
    client.settimeout(SLOW_S + 10)
    while True:
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50)


def test_patient_clients_keep_their_connection_and_are_served_meanwhile(port):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    client.connect()
    client.auto_open = False  # a connection that was closed shows
    with connect(port) as slow:
        slow.sendall(HEALTH[:5])
        for _ in range(6):
            client.request("GET", "/healthz")
            assert client.getresponse().read()
            time.sleep(SLOW_S / 3)  # two seconds in all, twice what a slow client gets
    client.close()


def test_more_connections_than_allowed_are_told_so(port):
    idle = [connect(port) for _ in range(20)]
    try:
        with connect(port) as client:
            client.sendall(HEALTH)
            assert client.recv(65536).startswith(b"HTTP/1.1 503")
    finally:
        for client in idle:
            client.close()


def test_a_handshake_that_never_comes_is_given_up(start, ours):
    pair = ours.sign("sidecar")
    limits = ConnectionSettings(slow_client_s=SLOW_S)
    port = start(connections=limits, certificate_file=pair.certificate, key_file=pair.key)
    with connect(port) as client:
        assert closes(client) > SLOW_S / 2

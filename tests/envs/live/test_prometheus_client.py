"""Servers that are no good Prometheus: every one ends in one of two exceptions, in time."""

import gzip
import socket
import threading
import time

import pytest

from envs.live.prometheus_client import PrometheusClient, PrometheusUnavailable, QueryRefused
from envs.live.prometheus_settings import PrometheusSettings
from tests.prometheus import answering, free_port

EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def client(address: str, **settings: object) -> PrometheusClient:
    return PrometheusClient(PrometheusSettings(address=address, **{"timeout_s": 1.0, **settings}))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"boom"),
        (503, b""),
        (401, b"who are you"),
        (200, b"<html>a login page</html>"),
        (200, b""),
        (200, b"null"),
        (200, b"[]"),
        (200, b'{"status":"success"}'),
        (200, b'{"data":{"result":null}}'),
        (200, b'{"data":{"result":[1]}}'),
        (200, b'{"data":{"result":[{"metric":{},"value":[]}]}}'),
        (200, b'{"data":{"result":[{"metric":[],"value":[1,"2"]}]}}'),
        (200, b'{"data":{"result":[{"metric":{},"value":[1,"much"]}]}}'),
        (200, b'{"data":{"result":' + b"[" * 100_000),
        (200, b"\xff\xfe\x00"),
    ],
)
def test_a_reply_that_makes_no_sense_is_unavailable(status, body):
    with answering(status, body) as address, pytest.raises(PrometheusUnavailable):
        client(address).vector("up")


def test_a_query_that_cannot_be_read_is_refused_and_nothing_else_is_blamed():
    reply = b'{"status":"error","error":"parse error"}'
    with answering(400, reply) as address, pytest.raises(QueryRefused, match="parse error"):
        client(address).vector("rate(")


def test_a_huge_reply_is_not_read_to_its_end():
    with answering(200, b" " * (8 << 20)) as address, pytest.raises(PrometheusUnavailable, match="longer than 65536"):
        client(address, max_reply_bytes=65536).vector("up")


def test_a_small_reply_that_unpacks_to_a_huge_one_is_not_unpacked():
    bomb, kind = gzip.compress(b" " * (64 << 20)), {"Content-Encoding": "gzip"}
    with answering(200, bomb, kind) as address, pytest.raises(PrometheusUnavailable, match="longer than"):
        client(address, max_reply_bytes=1 << 20).vector("up")


def test_a_compressed_reply_is_read():
    with answering(200, gzip.compress(EMPTY), {"Content-Encoding": "gzip"}) as address:
        assert client(address).vector("up") == []


def test_nobody_there_is_unavailable_at_once():
    began_s = time.monotonic()
    with pytest.raises(PrometheusUnavailable, match="does not answer"):
        client(f"http://127.0.0.1:{free_port()}").vector("up")
    assert time.monotonic() - began_s < 1.0


def test_a_server_that_never_answers_is_left_after_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began_s = time.monotonic()
        with pytest.raises(PrometheusUnavailable):
            client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3).vector("up")
        assert time.monotonic() - began_s < 1.0


def test_a_server_that_drips_is_late_as_a_whole():
    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            try:
                for _ in range(100):
                    connection.sendall(b" ")
                    time.sleep(0.1)
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        began_s = time.monotonic()
        with pytest.raises(PrometheusUnavailable, match="takes too long"):
            client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.5).vector("up")
        assert time.monotonic() - began_s < 1.5


def test_a_redirect_is_not_followed():
    with (
        answering(200, EMPTY) as elsewhere,
        answering(302, b"", {"Location": elsewhere}) as address,
        pytest.raises(PrometheusUnavailable, match="redirect"),
    ):
        client(address).vector("up")


def test_the_token_is_sent_and_never_said(tmp_path):
    token, asked = tmp_path / "token", []
    with answering(403, b"no", asked=asked) as address:
        token.write_text("hush-hush\n")
        with pytest.raises(PrometheusUnavailable) as refused:
            client(address, token_file=str(token)).vector("up")
        assert asked[0]["Authorization"] == "Bearer hush-hush"
        assert "hush" not in repr(refused.value)
        token.unlink()
        with pytest.raises(PrometheusUnavailable, match="cannot be read"):
            client(address, token_file=str(token)).vector("up")

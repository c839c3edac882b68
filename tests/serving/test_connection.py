"""What is answered before any application is asked, and what is not."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from serving.app import create_app
from serving.connection import AtOnce
from serving.listening import Server, listen
from serving.observability import Metrics
from serving.settings import (
    ConnectionSettings,
    ModelSettings,
    SecuritySettings,
    ServerSettings,
    Settings,
    TracingSettings,
)
from tests.serving.listening_sidecar import listening, listening_sidecar
from tests.serving.security.conftest import free_port
from tests.serving.test_extender import args

PATH = b"/prompt"
LONGEST = 100
SLOW_S = 1.0


def post(body: bytes, path: bytes = PATH, more: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n%b" % (path, len(body), more, body)


CHUNKED = b"POST /prompt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
UNUSUAL = {
    "another path": post(b"abc", b"/other"),
    "a query": post(b"abc", b"/prompt?x=1"),
    "another method": post(b"abc").replace(b"POST", b"PUT"),
    "an old client": post(b"abc").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "its last request": post(b"abc", more=b"Connection: close\r\n"),
    "wants to be asked for its body": post(b"abc", more=b"Expect: 100-continue\r\n"),
    "of unknown length": CHUNKED,
    "too long": post(b"a" * (LONGEST + 1)),
}


async def application(scope, receive, send):
    """Says that it was asked, and what."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    await asyncio.sleep(0.01)
    said = b"app " + body
    headers = [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


def prompt(body: bytes) -> bytes | None:
    return None if body == b"not I" else b"now " + body


@contextmanager
def serving(**limits) -> Iterator[tuple[socket.socket, Server]]:
    settings = Settings(server=ServerSettings(port=free_port()), connections=ConnectionSettings(**limits))
    server = Server(application, settings, at_once={PATH: AtOnce(prompt, LONGEST)})
    with listening(server, listen(settings)), connect(settings.server.port) as client:
        yield client, server


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def answer(client: socket.socket) -> bytes:
    """The body of the next one."""
    return answers(client, 1)[0]


def answers(client: socket.socket, count: int) -> list[bytes]:
    found: list[bytes] = []
    with client.makefile("rb") as lines:
        while len(found) < count:
            status, length = lines.readline(), 0
            while (line := lines.readline()) != b"\r\n":
                name, _, value = line.lower().partition(b":")
                length = int(value) if name == b"content-length" else length
            if b" 100 " not in status:
                found.append(lines.read(length))
    return found


def test_a_usual_request_is_answered_without_the_application():
    with serving() as (client, server):
        client.sendall(post(b"abc"))
        assert answer(client) == b"now abc"
        assert server.server_state.total_requests == 1


def test_the_answer_is_json_with_a_length_and_a_date():
    with serving() as (client, _):
        client.sendall(post(b"abc"))
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    named = dict(header.split(b": ", 1) for header in headers)
    assert (status, body) == (b"HTTP/1.1 200 OK", b"now abc")
    assert (named[b"content-type"], named[b"content-length"]) == (b"application/json", b"7")
    assert named.keys() == {b"content-type", b"content-length", b"date"}


@pytest.mark.parametrize("request_", UNUSUAL.values(), ids=UNUSUAL)
def test_an_unusual_request_goes_to_the_application(request_):
    with serving() as (client, _):
        client.sendall(request_)
        assert answer(client).startswith(b"app a")


def test_what_it_does_not_answer_reaches_the_application_whole():
    with serving() as (client, _):
        for part in (post(b"not I")[:-3], b"t I", post(b"abc")):
            client.sendall(part)
            time.sleep(0.05)
        assert answers(client, 2) == [b"app not I", b"now abc"]


def test_a_body_that_comes_in_parts_is_one_body():
    with serving() as (client, _):
        for byte in post(b"abc"):
            client.sendall(bytes([byte]))
        assert answer(client) == b"now abc"


def test_requests_sent_together_are_answered_in_their_order():
    with serving() as (client, _):
        client.sendall(post(b"1") + post(b"2", b"/other") + post(b"3") + post(b"not I") + post(b"5"))
        assert answers(client, 5) == [b"now 1", b"app 2", b"app 3", b"app not I", b"app 5"]


def test_no_more_connections_are_served_than_allowed():
    with serving(max_open=1) as (client, _):
        client.sendall(post(b"abc"))
        assert client.recv(65536).startswith(b"HTTP/1.1 503")


def test_a_body_that_does_not_come_is_not_awaited_for_ever():
    with serving(slow_client_s=SLOW_S, keep_alive_s=60) as (client, _):
        client.sendall(post(b"abc"))
        assert answer(client) == b"now abc"
        client.sendall(post(b"abc")[:-1])
        began_s = time.monotonic()
        assert client.recv(65536) == b""
        assert SLOW_S / 2 < time.monotonic() - began_s < SLOW_S + 1.5


def test_an_idle_connection_stays_as_long_as_any_other():
    with serving(slow_client_s=SLOW_S, keep_alive_s=2) as (client, _):
        for _ in range(4):  # longer in all than a slow client gets
            client.sendall(post(b"abc"))
            assert answer(client) == b"now abc"
            time.sleep(SLOW_S / 2)
        began_s = time.monotonic()
        assert client.recv(65536) == b""
        assert time.monotonic() - began_s > 1.0


def test_answers_that_nobody_takes_are_given_up():
    with serving(slow_client_s=SLOW_S) as (client, _), pytest.raises(ConnectionError):
        ask_and_never_read(client)


def ask_and_never_read(client: socket.socket) -> None:
    client.settimeout(SLOW_S + 10)
    while True:
        client.sendall(post(b"x" * LONGEST) * 200)


def test_a_request_under_way_is_still_answered_when_the_server_stops():
    with serving() as (client, server):
        client.sendall(post(b"abc")[:-1])
        time.sleep(0.2)
        server.should_exit = True
        time.sleep(0.4)
        client.sendall(b"c")
        assert answer(client) == b"app abc"


# --- the sidecar


def test_guards_and_traces_see_every_request(settings, source, decider, metrics, tmp_path):
    assert create_app(settings, source, decider, metrics).at_once.keys() == {
        b"/extender/filter",
        b"/extender/prioritize",
    }
    (tmp_path / "tokens").write_text("a-token-of-the-tests")
    guarded = settings.model_copy(update={"security": SecuritySettings(token_file=str(tmp_path / "tokens"))})
    assert not create_app(guarded, source, decider, Metrics()).at_once
    traced = settings.model_copy(update={"tracing": TracingSettings(endpoint="http://127.0.0.1:9/v1/traces")})
    assert not create_app(traced, source, decider, Metrics()).at_once


@pytest.fixture
def port() -> Iterator[int]:
    settings = Settings(server=ServerSettings(port=free_port()), model=ModelSettings(folder="none"))
    with listening_sidecar(settings):
        yield settings.server.port


def ask(client: socket.socket, verb: str, content: object) -> object:
    client.sendall(post(json.dumps(content).encode(), b"/extender/" + verb.encode()))
    return json.loads(answer(client))


def exported(client: socket.socket) -> set[str]:
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    return set(answer(client).decode().splitlines())


def test_both_questions_about_a_pod_are_answered_and_counted_once(port):
    with connect(port) as client:
        passed = ask(client, "filter", args())
        ranked = ask(client, "prioritize", args())
        told = exported(client)
    assert [each["Host"] for each in ranked] == passed["NodeNames"]
    assert 'pilotfish_requests_total{code="200",route="/extender/filter"} 1.0' in told
    assert 'pilotfish_requests_total{code="200",route="/extender/prioritize"} 1.0' in told
    assert 'pilotfish_request_seconds_count{route="/extender/filter",source="none"} 1.0' in told
    by_source = 'pilotfish_request_seconds_count{route="/extender/prioritize",source="expected_utilisation"} 1.0'
    assert by_source in told


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_nonsense_is_refused_with_the_reason_and_counted_once(port, verb):
    with connect(port) as client:
        assert "the body is not what an extender is sent" in ask(client, verb, ["nonsense"])["error"]
        assert f'pilotfish_requests_total{{code="400",route="/extender/{verb}"}} 1.0' in exported(client)


def test_who_asks_for_scores_alone_is_answered_without_the_application(settings, source, decider, metrics):
    answer = create_app(settings, source, decider, metrics).at_once[b"/extender/prioritize"].answer

    async def together() -> list[bytes | None]:
        return [answer(json.dumps(args(uid=uid)).encode()) for uid in ("u1", "u2")]

    first, second = asyncio.run(together())
    assert first is not None
    assert {each["Host"] for each in json.loads(first)} == set(args()["NodeNames"])
    assert [noted.uid for noted in decider.decisions.last(10)] == ["u1"]
    assert second is None, "one in a round of the loop: the others must wait their turn"

"""The old agent's protocol over a real socket (S1.10 to S1.13)."""

import json
import socket
import time
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from agent.nodetable import NodeTable
from serving import legacy
from serving.app import create_app
from serving.settings import LegacySettings, ModelSettings, Settings
from tests.serving.conftest import NAMES
from tests.serving.test_run import free_port

RESOURCES = {
    "cpuRequest": "500m",
    "memoryRequest": "Not requested",
    "latencySoftConstraint": 0.0,
    "latencyHardConstraint": -1.0,
}


@pytest.fixture
def port(source, decider, metrics):
    chosen = free_port()
    settings = Settings(model=ModelSettings(folder="none"), legacy=LegacySettings(port=chosen))
    with TestClient(create_app(settings, source, decider, metrics)):
        yield chosen


def send(port, text, end=b"\n"):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(text.encode() + end)
        with connection.makefile("rb") as reply:
            return json.loads(reply.read() or b"null")


def set_resources(port, **values):
    return send(port, "setResourceValues " + json.dumps(RESOURCES | values))


def test_nothing_listens_unless_a_port_is_set(client):
    assert Settings().legacy.port == 0


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_suggestion_is_10_for_the_chosen_node_and_1_for_the_others(port, end):
    assert set_resources(port)["status"] == "ok"
    reply = send(port, "getSuggestion", end)
    assert reply["candidates"][0] == "idle"
    assert {name: reply[name] for name in reply["candidates"]} == {"idle": 10, "middle": 1, "busy": 1, "small": 1}


@pytest.fixture
def with_addresses(source):
    nodes = [replace(node, internal_ip=f"10.0.0.{number}") for number, node in enumerate(source.current.nodes)]
    nodes[-1] = replace(nodes[-1], internal_ip="")
    source.current = replace(source.current, nodes=NodeTable(nodes))


def test_nodes_go_by_their_internal_ip_where_they_have_one(with_addresses, port):
    set_resources(port)
    reply = send(port, "getSuggestion")
    assert reply.pop("candidates") == ["idle", "middle", "small", "busy"]
    assert reply == {"10.0.0.0": 10, "10.0.0.2": 1, "10.0.0.1": 1, "small": 1, "request": "legacy-1"}


def test_a_suggestion_may_be_set_by_name_or_by_internal_ip(with_addresses, port):
    send(port, 'setSuggestion {"busy": 10, "10.0.0.0": 1, "elsewhere": 1}')
    assert send(port, "getSuggestion") == {"10.0.0.1": 10, "10.0.0.0": 1, "elsewhere": 1}


def test_a_suggestion_belongs_to_its_request_and_is_given_once(port):
    set_resources(port, podUID="pod-1")
    set_resources(port, podUID="pod-2")
    assert send(port, "getSuggestion")["request"] == "pod-2"
    assert send(port, "getSuggestion")["status"] == "error", "never the answer for a pod before"


def test_the_keys_of_the_resources_are_read(port):
    set_resources(port, cpuRequest="2", latencyHardConstraint=15.0)
    assert send(port, "getSuggestion")["candidates"] == ["idle"]


def test_resources_and_steps_are_given_back(port):
    set_resources(port)
    assert send(port, "getResourceValues") == RESOURCES
    assert send(port, 'setStep {"step": 3}') == {"status": "ok"}
    assert send(port, "getStep") == {"step": 3}


def test_a_suggestion_set_by_hand_serves_the_next_question_only(port):
    send(port, 'setSuggestion {"busy": 10, "idle": 1}')
    assert send(port, "getSuggestion") == {"busy": 10, "idle": 1}
    assert send(port, "getSuggestion")["status"] == "error"
    send(port, 'setSuggestion {"busy": 10}')
    set_resources(port)
    assert send(port, "getSuggestion")["idle"] == 10, "what was set before belongs to another pod"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dance", "unknown command"),
        ("setStep [1]", "JSON object"),
        ("setStep {", "not JSON"),
        ('setResourceValues {"cpuRequest": "x"}', "quantity"),
        ('setResourceValues {"latencySoftConstraint": "35"}', "must be a number"),
        ("getSuggestion", "setResourceValues comes first"),
    ],
)
def test_errors_are_answers(port, text, said):
    reply = send(port, text)
    assert reply["status"] == "error"
    assert said in reply["message"]
    assert send(port, "getStep") == {}


def test_a_client_that_says_nothing_or_too_much_is_let_go(port, monkeypatch):
    monkeypatch.setattr(legacy, "READ_WITHIN_S", 0.2)
    began_s = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as silent:
        assert silent.recv(10) == b""
    assert time.monotonic() - began_s < 5.0
    assert send(port, "setStep " + "x" * 200_000) is None
    assert set(set_resources(port)) == {"status", "request"}
    assert set(send(port, "getSuggestion")) >= set(NAMES) - {"tainted"}

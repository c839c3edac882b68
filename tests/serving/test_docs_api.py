"""What docs/api.md says is what the sidecar does."""

import re
import shlex
from pathlib import Path

import pytest

from serving.wire.explain import FIELDS as EXPLAIN_FIELDS
from serving.wire.pod import REQUIREMENTS
from serving.wire.score import FIELDS

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
COMMANDS = [
    shlex.split(command)
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for command in re.split(r"\n(?=curl)", block)
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[2].rpartition("8000")[2])
def test_every_command_works(client, command):
    assert command[:2] == ["curl", "-s"]
    path = next(word for word in command if word.startswith("http")).removeprefix("http://127.0.0.1:8000")
    body = command[command.index("-d") + 1] if "-d" in command else None
    reply = client.get(path) if body is None and "POST" not in command else client.post(path, content=body)
    assert reply.status_code == 200, reply.text


def fields_of(table: str) -> list[str]:
    rows = TEXT.partition(f"| {table} | meaning |")[2].partition("\n\n")[0].splitlines()
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")]


def test_every_field_of_the_reply_is_described(client):
    reply = client.post("/v1/score", json={"requirements": {}}).json()
    assert fields_of("field of the reply") == list(reply)


def test_every_field_of_the_body_is_described():
    assert fields_of("field of the body") == list(FIELDS)


def test_every_requirement_is_named():
    assert [name for name in REQUIREMENTS if f"`{name}`" not in TEXT] == []


def test_every_field_of_a_decision_is_described(client):
    client.post("/v1/score", json={"requirements": {"uid": "u1"}})
    (listed,) = client.get("/v1/decisions?uid=u1").json()["decisions"]
    assert sorted(fields_of("field of a decision")) == sorted(listed)


def test_every_field_of_an_explanation_is_described(client):
    reply = client.post("/v1/explain", json={"requirements": {}}).json()
    assert sorted(fields_of("field of the explanation")) == sorted(reply)
    assert sorted(fields_of("field of the question")) == sorted(EXPLAIN_FIELDS)

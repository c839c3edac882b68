"""The TCP protocol of the NetworkTraffic agent, for schedulers that still speak it: off unless a port is set.

One command a connection, one JSON object back (S1.10 to S1.13). What that agent did wrong is not repeated: it answered
with the suggestion for the pod before. Here ``getSuggestion`` decides at once, for the resources that were set last,
says for which request it is, and a suggestion is given only once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from agent.cluster import Pod
from agent.errors import InputError
from envs.live import fields
from envs.live.fields import Json
from envs.live.snapshot import ClusterSource
from serving.decide import Decider
from serving.decision import Decision
from serving.wire.objects import parse_object
from serving.wire.pod import pod_from_requirements

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"  # it knows no password
NOT_REQUESTED = "Not requested"
CHOSEN, OTHER = 10, 1  # what the agent called a suggestion
MAX_BYTES = 65_536
READ_WITHIN_S = 2.0
MAX_CONNECTIONS = 64


class LegacyAgent:
    """What the commands do; knows nothing of sockets."""

    def __init__(self, source: ClusterSource, decider: Decider) -> None:
        self._source = source
        self._decider = decider
        self._number = 0
        self._request = ""
        self._resources: Json | None = None
        self._suggestion: Json | None = None  # set by hand, for the next question only
        self._step: Json = {}
        self._commands: dict[str, Callable[[Json], Any]] = {
            "getSuggestion": self._get_suggestion,
            "setSuggestion": self._set_suggestion,
            "getStep": lambda _: dict(self._step),
            "setStep": self._set_step,
            "setResourceValues": self._set_resources,
            "getResourceValues": lambda _: dict(self._resources or {}),
        }

    def answer(self, line: bytes) -> bytes:
        """One command; whatever is wrong with it is an answer, too."""
        name, _, payload = line.strip().partition(b" ")
        try:
            command = self._commands.get(name.decode("utf-8", "replace"))
            if command is None:
                raise InputError(f"unknown command; choose from {', '.join(self._commands)}")
            values = parse_object(payload, "what follows the command") if payload.strip() else {}
            return orjson.dumps(command(values))
        except InputError as why:
            return orjson.dumps({"status": "error", "message": str(why)})
        except Exception:  # the listener outlives a defect
            logger.exception("a legacy command failed")
            return orjson.dumps(
                {"status": "error", "message": "internal error; the log of the sidecar has the details"}
            )

    def _set_resources(self, values: Json) -> dict[str, str]:
        _pod(values, "")  # refused now rather than when the suggestion is wanted
        self._number += 1
        self._request = fields.text(values, "podUID") or f"legacy-{self._number}"
        self._resources = values
        self._suggestion = None  # it belonged to another pod
        return {"status": "ok", "request": self._request}

    def _set_suggestion(self, values: Json) -> dict[str, str]:
        self._suggestion = values
        return {"status": "ok"}

    def _set_step(self, values: Json) -> dict[str, str]:
        self._step = values
        return {"status": "ok"}

    def _get_suggestion(self, _: Json) -> dict[str, Any]:
        given, self._suggestion = self._suggestion, None
        snapshot = self._source.snapshot()
        keys = {} if snapshot is None else {node.name: node.internal_ip or node.name for node in snapshot.nodes}
        if given is not None:
            return {keys.get(node, node): value for node, value in given.items()}
        if self._resources is None or snapshot is None:
            raise InputError("no request waits: setResourceValues comes first" if snapshot else "no cluster state yet")
        values, self._resources = self._resources, None
        return _suggestion(self._request, self._decider.decide(snapshot, _pod(values, self._request)), keys)


def _suggestion(request: str, decision: Decision, keys: Mapping[str, str]) -> dict[str, Any]:
    """10 for the chosen node, by its InternalIP; the request it belongs to, and the names of the nodes looked at."""
    nodes = [decision.names[node] for node in decision.best_first()]
    levels = {keys[name]: CHOSEN if name == decision.best else OTHER for name in nodes}
    return {**levels, "request": request, "candidates": nodes}


def _pod(values: Json, uid: str) -> Pod:
    requirements: dict[str, Any] = {"uid": uid, "name": uid}
    for key, requirement in (("cpuRequest", "cpu"), ("memoryRequest", "memory")):
        found = values.get(key)
        if found not in (None, NOT_REQUESTED, ""):
            requirements[requirement] = found
    for key, requirement in (
        ("latencySoftConstraint", "latency_soft_ms"),
        ("latencyHardConstraint", "latency_hard_ms"),
    ):
        limit = fields.number(values, key, -1.0, 1e9)
        if limit is not None and limit > 0:  # the agents wrote 0 or -1 for "none"
            requirements[requirement] = limit
    return pod_from_requirements(requirements)[0]


@asynccontextmanager
async def legacy_agent(port: int, source: ClusterSource, decider: Decider) -> AsyncIterator[None]:
    """The agent on a socket of loopback while this lasts; no port, no agent."""
    if not port:
        yield
        return
    connections = _Connections(LegacyAgent(source, decider))
    try:
        server = await asyncio.start_server(connections.serve, HOST, port, limit=MAX_BYTES)
    except OSError as why:
        raise InputError(f"the legacy agent cannot listen on port {port}: {why.strerror}; choose another") from why
    yield
    server.close()  # connections under way end by themselves, within the time limit


class _Connections:
    """Bounded in bytes, in time and in number."""

    def __init__(self, agent: LegacyAgent) -> None:
        self._agent = agent
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                command = await asyncio.wait_for(_command(reader), READ_WITHIN_S)
                writer.write(self._agent.answer(command) + b"\n")
                await asyncio.wait_for(writer.drain(), READ_WITHIN_S)
        except (TimeoutError, ConnectionError, ValueError) as why:
            logger.debug("a legacy connection was given up: %s", why)
        finally:
            self._open -= 1
            writer.close()


async def _command(reader: asyncio.StreamReader) -> bytes:
    """A line; or, as those agents wrote, one piece without an end of line, which is all that comes at once."""
    received = b""
    while b"\n" not in received and len(received) <= MAX_BYTES:
        piece = await reader.read(MAX_BYTES)
        received += piece
        if not piece or _whole(received):
            break
    if len(received) > MAX_BYTES:
        raise ValueError("too long")
    return received.partition(b"\n")[0]


def _whole(received: bytes) -> bool:
    name, _, payload = received.strip().partition(b" ")
    if name.startswith(b"get"):
        return True
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return True

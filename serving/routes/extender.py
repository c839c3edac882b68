"""``POST /extender/filter``, ``prioritize``, and where they are switched on ``bind`` and ``preempt``.

Bytes in, bytes out: on these routes kube-scheduler waits, and everything between the two is time that a pod waits too.
So each verb is an ASGI application by itself (``serving.app`` says why). A defect of ours must cost a pod nothing: it
is logged, counted, and answered as if there were no opinion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent.breaker import Clock
from agent.errors import InputError
from envs.live.binding import Binder, Binding, BindingRefused
from serving.connection import AtOnce
from serving.extender import NEUTRAL_LEVEL, Extender, Rejected
from serving.foreseen import Foreseen, Foresight
from serving.observability import Metrics, RequestCounts
from serving.routes.http import JSON, error_body, read_body
from serving.security.tokens import EXTENDER_PREFIX
from serving.settings import Settings
from serving.turns import Turns
from serving.wire import extender as wire

logger = logging.getLogger(__name__)

Answer = Callable[[bytes, float], Awaitable[bytes]]  # of a body that was complete at this time
PromptAnswer = Callable[[bytes], bytes | None]


def routes(settings: Settings, verbs: Verbs) -> list[Route]:
    switched_on: dict[str, Answer | None] = {
        "filter": verbs.filter,
        "prioritize": verbs.prioritize,
        "bind": verbs.bind if settings.extender.bind else None,
        "preempt": verbs.preempt if settings.extender.preempt else None,
    }
    applications = (
        _Verb(verb, answer, settings.extender.max_body_bytes, verbs.clock) for verb, answer in switched_on.items()
    )
    return [Route(each.path, each, methods=["POST"]) for each in applications]


def at_once(settings: Settings, verbs: Verbs, counts: RequestCounts) -> dict[bytes, AtOnce]:
    """By path, what needs neither the event loop nor the layers of an application."""
    prompt: dict[str, PromptAnswer] = {"filter": verbs.filtered, "prioritize": verbs.prioritized}
    paths = {EXTENDER_PREFIX + verb: answer for verb, answer in prompt.items()}
    return {
        path.encode(): AtOnce(_counted(path, answer, counts), settings.extender.max_body_bytes)
        for path, answer in paths.items()
    }


def _counted(path: str, answer: PromptAnswer, counts: RequestCounts) -> PromptAnswer:
    def counted(body: bytes) -> bytes | None:
        began_s = counts.begun()
        try:
            reply = answer(body)
        except Exception:  # the application meets the same, and says what is wrong
            return None
        if reply is not None:
            counts.ended(path, HTTPStatus.OK, began_s)
        return reply

    return counted


class _Verb:
    """An ASGI application; as the ``route`` of its requests it gives the metrics their label."""

    def __init__(self, verb: str, answer: Answer | None, max_body_bytes: int, clock: Clock) -> None:
        self.path = EXTENDER_PREFIX + verb
        self._verb = verb
        self._answer = answer
        self._max_body_bytes = max_body_bytes
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        try:
            code, reply = await self._reply(scope, receive)
        except ClientDisconnect:
            return
        headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    async def _reply(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        if self._answer is None:
            switch = f"PILOTFISH_EXTENDER__{self._verb.upper()}"
            return 404, error_body(f"{self._verb} is off; {switch}=true switches it on")
        try:
            body = await read_body(scope, receive, self._max_body_bytes)
            return 200, await self._answer(body, self._clock())
        except InputError as why:
            return 400, error_body(str(why))
        except HTTPException as why:
            return why.status_code, error_body(why.detail)
        except Exception:
            logger.exception("%s failed", self.path)
            return 500, error_body("internal error; the log of the sidecar has the details")


class Verbs:
    def __init__(self, max_nodes: int, extender: Extender, metrics: Metrics, binder: Binder | None) -> None:
        self._max_nodes = max_nodes
        self._extender = extender
        self._metrics = metrics
        self._binder = binder
        self._turns = Turns(extender.clock, extender.deadline_s)
        self._foreseen = Foreseen(extender)
        self.clock = extender.clock

    async def filter(self, body: bytes, complete_at_s: float) -> bytes:
        return self.filtered(body)

    def filtered(self, body: bytes) -> bytes:
        """Never shed: it is cheap, and a node under maintenance must not slip through because many ask."""
        args, names = self._args(body)
        rejected = self._or_neutral(lambda: self._extender.rejected(args.pod, names), Rejected())
        if rejected.none and len(names) > 1 and not args.carries_nodes and not self._turns.busy:
            self._foreseen.expect(body, args.pod, names)
        return wire.from_filter(args, names, rejected.failed, rejected.unresolvable)

    async def prioritize(self, body: bytes, complete_at_s: float) -> bytes:
        foretold = self._foretold(body)
        if foretold is not None:
            return foretold
        async with self._turns.turn(complete_at_s) as full:
            return self._ranked(body, complete_at_s) if full else self._shed(body)

    def prioritized(self, body: bytes) -> bytes | None:
        """As soon as the body is complete: the work is done already, or nobody else is there. None if it must wait."""
        foretold = self._foretold(body)
        if foretold is not None or not self._turns.first():
            return foretold
        return self._ranked(body, self.clock())

    def _foretold(self, body: bytes) -> bytes | None:
        foreseen = self._foreseen.take(body)
        return None if foreseen is None else self._settled(foreseen)

    def _ranked(self, body: bytes, complete_at_s: float) -> bytes:
        args, names = self._args(body)
        neutral, deadline_at_s = [NEUTRAL_LEVEL] * len(names), complete_at_s + self._extender.deadline_s()
        levels = self._or_neutral(lambda: self._extender.levels(args.pod, names, deadline_at_s), neutral)
        return wire.from_levels(names, levels)

    def _shed(self, body: bytes) -> bytes:
        self._metrics.shed.inc()
        _, names = self._args(body)
        return wire.from_levels(names, [NEUTRAL_LEVEL] * len(names))

    def _settled(self, foreseen: Foresight) -> bytes:
        neutral = [NEUTRAL_LEVEL] * len(foreseen.names)
        levels = self._or_neutral(lambda: self._extender.settled(foreseen.considered), neutral)
        return wire.from_levels(foreseen.names, levels)

    async def preempt(self, body: bytes, complete_at_s: float) -> bytes:
        return wire.from_preemption(self._extender.spared(wire.to_preemption(body)))

    async def bind(self, body: bytes, complete_at_s: float) -> bytes:
        args = wire.to_binding(body)
        binding = Binding(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
        if self._binder is None:
            return wire.from_binding("there is no connection to an API server to bind through")
        try:
            await asyncio.to_thread(self._binder.bind, binding)
        except BindingRefused as why:
            logger.warning("pod %s/%s is not bound to %s: %s", binding.namespace, binding.pod, binding.node, why)
            return wire.from_binding(str(why))
        return wire.from_binding()

    def _args(self, body: bytes) -> tuple[wire.ExtenderArgs, list[str]]:
        args, names = wire.to_args(body, self._max_nodes)
        if args.carries_nodes:
            self._metrics.full_nodes.inc()
        return args, names

    def _or_neutral(self, judge: Callable[[], wire.T], neutral: wire.T) -> wire.T:
        try:
            return judge()
        except InputError:
            raise
        except Exception:  # whatever it is, the pod must not wait for it
            logger.exception("an extender call failed and is answered neutrally")
            self._metrics.extender_defects.inc()
            return neutral

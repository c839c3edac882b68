"""``POST /extender/filter``, ``prioritize``, and where they are switched on ``bind`` and ``preempt``.

Bytes in, bytes out: on these routes kube-scheduler waits, and everything between the two is time that a pod waits too.
A defect of ours must cost a pod nothing: it is logged, counted, and answered as if there were no opinion.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from agent.breaker import Clock
from agent.errors import InputError
from envs.live.binding import Binder, Binding, BindingRefused
from envs.live.fields import Json
from serving.extender import NEUTRAL_LEVEL, Extender, Rejected
from serving.observability import Metrics
from serving.routes.http import JSON, error_reply, read_body
from serving.settings import Settings
from serving.turns import Turns
from serving.wire import extender as wire

logger = logging.getLogger(__name__)

Answer = Callable[[bytes, float], Awaitable[bytes]]  # of a body that was complete at this time


def routes(settings: Settings, extender: Extender, metrics: Metrics, binder: Binder | None) -> list[BaseRoute]:
    verbs = _Verbs(settings.server.max_nodes, extender, metrics, binder)
    clock = extender.clock
    switched_on: dict[str, Answer | None] = {
        "filter": verbs.filter,
        "prioritize": verbs.prioritize,
        "bind": verbs.bind if settings.extender.bind else None,
        "preempt": verbs.preempt if settings.extender.preempt else None,
    }
    return [_route(verb, answer, settings.extender.max_body_bytes, clock) for verb, answer in switched_on.items()]


def _route(verb: str, answer: Answer | None, max_body_bytes: int, clock: Clock) -> Route:
    path = f"/extender/{verb}"

    async def reply(request: Request) -> Response:
        request.scope["route"] = route  # the metrics' label
        if answer is None:
            return error_reply(404, f"{verb} is off; PILOTFISH_EXTENDER__{verb.upper()}=true switches it on")
        body = await read_body(request, max_body_bytes)
        return Response(await answer(body, clock()), media_type=JSON)

    route = Route(path, reply, methods=["POST"])
    return route


class _Verbs:
    def __init__(self, max_nodes: int, extender: Extender, metrics: Metrics, binder: Binder | None) -> None:
        self._max_nodes = max_nodes
        self._extender = extender
        self._metrics = metrics
        self._binder = binder
        self._turns = Turns(extender.clock, extender.deadline_s)

    async def filter(self, body: bytes, complete_at_s: float) -> bytes:
        """Never shed: it is cheap, and a node under maintenance must not slip through because many ask."""
        args, names = self._args(body)
        rejected = self._or_neutral(self._extender.rejected, args.pod, names, Rejected())
        return wire.from_filter(args, names, rejected.failed, rejected.unresolvable)

    async def prioritize(self, body: bytes, complete_at_s: float) -> bytes:
        async with self._turns.turn(complete_at_s) as full:
            args, names = self._args(body)
            levels = [NEUTRAL_LEVEL] * len(names)
            if full:
                judge = partial(self._extender.levels, deadline_at_s=complete_at_s + self._extender.deadline_s())
                levels = self._or_neutral(judge, args.pod, names, levels)
            else:
                self._metrics.shed.inc()
            return wire.from_levels(names, levels)

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

    def _or_neutral(
        self, judge: Callable[[Json, Sequence[str]], wire.T], pod: Json, names: Sequence[str], neutral: wire.T
    ) -> wire.T:
        try:
            return judge(pod, names)
        except InputError:
            raise
        except Exception:  # whatever it is, the pod must not wait for it
            logger.exception("an extender call failed and is answered neutrally")
            self._metrics.extender_defects.inc()
            return neutral

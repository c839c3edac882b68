"""``GET /v1/events``: what the sidecar knows and decides, as it happens, by server-sent events.

The stream looks at the kept decisions four times a second instead of being called for each: however many pods are
decided, a console costs the same, and no decision waits for a reader. One that does not read is
dropped as any slow client is (``serving.listening``).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
from fastapi import APIRouter, HTTPException
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from serving.sidecar import Sidecar, TheSidecar
from serving.streams import Streams
from serving.wire.overview import overview

router = APIRouter()

LOOK_EVERY_S = 0.25
STATE_EVERY_S = 2.0  # also the heartbeat
MOST_AT_ONCE = 50  # decisions of one look; who reads faster than that is no human

EVENT_STREAM = "text/event-stream"


class EventStream(StreamingResponse):
    """Bytes as they come, in one of the places for readers."""

    media_type = EVENT_STREAM

    def __init__(self, content: AsyncIterator[bytes], streams: Streams) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.one():
            await super().__call__(scope, receive, send)


@router.get("/v1/events", response_class=Response, responses={200: {"content": {EVENT_STREAM: {}}}})
async def events(sidecar: TheSidecar) -> Response:
    """Server-sent events: `state` every two seconds, `decisions` when there are new ones."""
    most = sidecar.settings.server.max_event_streams
    if sidecar.streams.open >= most:
        raise HTTPException(503, f"{most} event streams are open already; close a console and try again")
    return EventStream(_events(sidecar), sidecar.streams)


async def _events(sidecar: Sidecar) -> AsyncIterator[bytes]:
    news = DecisionNews(sidecar)
    looks_per_state = round(STATE_EVERY_S / LOOK_EVERY_S)
    for look in itertools.count():
        if sidecar.streams.stopping:
            return
        if look % looks_per_state == 0:
            yield as_event("state", overview(sidecar.source.snapshot(), sidecar.decider, sidecar.settings))
        for content in news.since_last():
            yield as_event("decisions", content)
        await sidecar.streams.wait(LOOK_EVERY_S)


class DecisionNews:
    """What one reader has not seen yet: new decisions, and where earlier ones were bound."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._decisions = sidecar.decider.decisions
        self._newest = 0
        self._bound: dict[int, str | None] = {}  # of the decisions that were sent, by number

    def since_last(self) -> Iterator[dict[str, Any]]:
        kept = self._decisions.last(MOST_AT_ONCE)[::-1]
        new = [noted for noted in kept if noted.number > self._newest]
        bound = [noted for noted in kept if noted.bound != self._bound.get(noted.number, noted.bound)]
        self._bound = {noted.number: noted.bound for noted in kept}
        if not new and not bound:
            return
        self._newest = max((noted.number for noted in new), default=self._newest)
        yield {
            "now_s": time.time(),
            "decisions": [noted.summary() for noted in new],
            "bound": [{"number": noted.number, "bound": noted.bound} for noted in bound],
        }


def as_event(name: str, content: Any) -> bytes:
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), body)

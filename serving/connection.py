"""One connection of the HTTP server: uvicorn's, but for two things that a pod would wait for.

For every request uvicorn makes a task, an event, a timer and what ASGI asks for; on a machine where others use the
caches that is most of what an answer costs (docs/extender.md). So a route may have an answer that waits for nothing: it
is given as soon as the body is there. Whatever is unusual about a request, it goes uvicorn's way.

And the head of an answer goes out with its body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"


@dataclass(frozen=True, slots=True)
class AtOnce:
    """JSON for a body, without waiting for anything; None: only the application itself can answer this one."""

    answer: Callable[[bytes], bytes | None]
    max_body_bytes: int


class Held:
    """A request that may be answered at once, while its body arrives."""

    def __init__(self, at_once: AtOnce) -> None:
        self.at_once = at_once
        self.parts: list[bytes] = []


class Answered:
    """What uvicorn looks at of a request that is done."""

    response_complete = True
    more_body = False
    message_event: ClassVar[asyncio.Event] = asyncio.Event()  # set when a connection ends: nobody waits for it


class Connection(HttpToolsProtocol):
    def __init__(self, *args: Any, at_once: Mapping[bytes, AtOnce], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._at_once = at_once
        self.held: Held | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast(asyncio.Transport, JoiningTransport(transport, self.loop)))

    def on_headers_complete(self) -> None:
        at_once = self._at_once.get(self.url)
        if at_once is not None and self._is_usual(at_once):
            self.held = Held(at_once)
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.held is None:
            super().on_body(body)
        else:
            self.held.parts.append(body)

    def on_message_complete(self) -> None:
        if self.held is not None:
            reply = self.held.at_once.answer(b"".join(self.held.parts))
            if reply is not None:
                self._reply(reply)
                return
            self._hand_over()
        super().on_message_complete()

    def shutdown(self) -> None:
        """A request whose body is on its way is under way."""
        if self.held is not None:
            self._hand_over()
        super().shutdown()

    def _is_usual(self, at_once: AtOnce) -> bool:
        """A POST of known length, no answer before it that is still awaited or not yet taken, and no limit reached."""
        parser, headers = self.parser, dict(self.headers)
        return (
            parser.get_method() == b"POST"
            and int(headers.get(b"content-length", at_once.max_body_bytes + 1)) <= at_once.max_body_bytes
            and b"transfer-encoding" not in headers
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.expect_100_continue
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and (self.limit_concurrency is None or len(self.connections) < self.limit_concurrency)
        )

    def _hand_over(self) -> None:
        """uvicorn goes on with it."""
        assert self.held is not None
        parts, self.held = self.held.parts, None
        super().on_headers_complete()
        for part in parts:
            super().on_body(part)

    def _reply(self, body: bytes) -> None:
        self.held = None
        self.cycle = cast(Any, Answered())
        self.server_state.total_requests += 1
        fixed = b"".join(b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        transport = cast(JoiningTransport, self.transport)
        transport.write_whole(HEAD % len(body) + fixed + b"\r\n" + body)


class JoiningTransport:
    """Keeps what is written until more comes or the loop goes round: uvicorn writes the head and the body of an answer

    one after the other, and each write is a call of the kernel here and a wake-up over there.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._kept:
            self.write_whole(data)
        elif data:
            self._kept = data
            self._loop.call_soon(self.flush)

    def write_whole(self, data: bytes) -> None:
        """Nothing belongs to it that comes later."""
        data, self._kept = self._kept + data, b""
        self._transport.write(data)

    def flush(self) -> None:
        if self._kept:
            self.write_whole(b"")

    def get_write_buffer_size(self) -> int:
        return len(self._kept) + self._transport.get_write_buffer_size()

    def close(self) -> None:
        self.flush()
        self._transport.close()

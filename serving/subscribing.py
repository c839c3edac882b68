"""Events for a reader that may be slow: a bounded queue, and what does not fit is dropped, the oldest first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

CAPACITY = 256
MOST_SUBSCRIBERS = 32


class TooManySubscribers(Exception):
    """Each costs a queue and time of every decision, so their number has a limit."""


class Subscription(Generic[T]):
    """An async iterator of what is told while the ``with`` block lasts; ``dropped`` counts what was lost.

    ``listen`` and ``unlisten`` connect it to whoever tells, in whatever thread that is.
    """

    def __init__(
        self,
        listen: Callable[[Callable[[T], None]], None],
        unlisten: Callable[[Callable[[T], None]], None],
        capacity: int = CAPACITY,
    ) -> None:
        self.dropped = 0
        self._listen, self._unlisten = listen, unlisten
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T] = asyncio.Queue(capacity)

    def __enter__(self) -> Subscription[T]:
        self._listen(self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlisten(self._hear)

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> T:
        return await self._queue.get()

    def _hear(self, told: T) -> None:
        """Called in the thread of whoever tells."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._offer, told)

    def _offer(self, told: T) -> None:
        if self._queue.full():
            self._queue.get_nowait()
            self.dropped += 1
        self._queue.put_nowait(told)

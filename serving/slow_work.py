"""Work that takes longer than an answer may: done one at a time in a thread, so that scores never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import HTTPException

T = TypeVar("T")

MOST_WAITING = 8


class SlowWork:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slow work")
        self._waiting = 0

    async def do(self, work: Callable[[], T]) -> T:
        """The result; 503 when too many wait already. Call it in the event loop only."""
        if self._waiting >= MOST_WAITING:
            raise HTTPException(503, f"{MOST_WAITING} requests of this kind wait already; ask again later")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    def start(self) -> None:
        """The thread begins with the first work."""

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

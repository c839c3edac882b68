"""Event streams that are open: counted, and all ended at once when the sidecar stops.

Without that a browser tab left open would keep a stopping sidecar alive until its time to stop is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Streams:
    """Belongs to the event loop: only its tasks call it."""

    def __init__(self) -> None:
        self.open = 0
        self._stopping = asyncio.Event()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @contextmanager
    def one(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def stop(self) -> None:
        self._stopping.set()

    async def wait(self, seconds: float) -> None:
        """Sleep, but not longer than the sidecar runs."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

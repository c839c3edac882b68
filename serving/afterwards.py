"""Work that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def afterwards(work: Callable[[], None]) -> None:
    """Done once the answer that is being given is out; where there is no event loop, at once."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        work()
    else:
        loop.call_soon(work)

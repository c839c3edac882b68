"""Who is answered in full, and who briefly, when more requests come than can be answered well in time.

The event loop goes round: it reads what came, and answers it. A round must stay short, because whatever comes during it
waits for the next. So only as many full answers are let in as fit a fifth of the deadline, together with all the other
work of a round; a request beyond that is answered briefly and at once, by the last rung of the ladder: all nodes equal.
What a full answer takes, and how long a round is without them, is learned on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent.breaker import Clock

PLANNED_SHARE = 0.2  # of the deadline: a request can meet several rounds, and the machine is not ours alone
FIRST_GUESS_S = 0.005
FORGETTING = 0.1  # a slow one is believed at once, fast ones little by little


class Turns:
    def __init__(self, clock: Clock, deadline_s: Callable[[], float]) -> None:
        self._clock = clock
        self._deadline_s = deadline_s
        self._let_in = 0
        self._taken = False  # by somebody who did not wait for a turn, in this round of the loop
        self._full_s = FIRST_GUESS_S  # one full answer
        self._round_s = 0.0  # all else in a round of the loop
        self._worked_s = 0.0  # on full answers so far

    @property
    def busy(self) -> bool:
        """Whether somebody waits for a full answer."""
        return self._let_in > 0

    def first(self) -> bool:
        """True for the first of a round of the loop, if nobody waits: there is nothing to wait a turn for."""
        if self._taken or self._let_in:
            return False
        self._taken = True
        asyncio.get_running_loop().call_soon(self._next)
        return True

    def _next(self) -> None:
        self._taken = False

    @asynccontextmanager
    async def turn(self, complete_at_s: float) -> AsyncIterator[bool]:
        """True if there is time for a full answer."""
        planned_s = PLANNED_SHARE * self._deadline_s()
        if self._let_in and (self._let_in + 1) * self._full_s + self._round_s > planned_s:
            yield False
            return
        self._let_in += 1
        try:
            await self._next_round()  # requests that came with this one are counted before it begins
            began_s = self._clock()
            late = began_s + self._full_s > complete_at_s + self._deadline_s()
            yield not (late and self._let_in > 1)
            self._worked(self._clock() - began_s)
        finally:
            self._let_in -= 1

    async def _next_round(self) -> None:
        from_s, worked_s = self._clock(), self._worked_s
        await asyncio.sleep(0)
        rest_s = self._clock() - from_s - (self._worked_s - worked_s)
        self._round_s = _learned(self._round_s, max(rest_s, 0.0))

    def _worked(self, took_s: float) -> None:
        self._worked_s += took_s
        self._full_s = _learned(self._full_s, took_s)


def _learned(known_s: float, seen_s: float) -> float:
    return max(seen_s, known_s + FORGETTING * (seen_s - known_s))

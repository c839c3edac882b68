"""A circuit breaker: a step that keeps failing is left alone for a while, then tried once.

Without it a broken policy would cost its whole time-out on every pod. The clock is passed in, so that tests
and the simulator decide what time it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

Clock = Callable[[], float]  # seconds, never going backwards
BreakerState = Literal["closed", "open", "half-open"]


class Breaker:
    """Closed, open after consecutive failures, half-open for one probe after the cooldown.

    A probe that never reports back does not block for ever: it counts as lost after another cooldown.
    """

    def __init__(self, clock: Clock, failures_to_open: int = 3, cooldown_s: float = 30.0) -> None:
        if failures_to_open < 1:
            raise ValueError(f"failures_to_open must be at least 1, not {failures_to_open}")
        if not cooldown_s >= 0:
            raise ValueError(f"cooldown_s must be 0 or more, not {cooldown_s}")
        self._clock = clock
        self._failures_to_open = failures_to_open
        self._cooldown_s = cooldown_s
        self._failures = 0
        self._retry_at_s = 0.0
        self._lock = threading.Lock()  # requests and the background loop share one ladder

    @property
    def state(self) -> BreakerState:
        if self._failures < self._failures_to_open:
            return "closed"
        return "half-open" if self._clock() >= self._retry_at_s else "open"

    def allows(self) -> bool:
        """Whether to try now; in the half-open state the first to ask becomes the probe."""
        with self._lock:
            state = self.state
            if state == "half-open":
                self._retry_at_s = self._clock() + self._cooldown_s
            return state != "open"

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        with self._lock:
            self._failures = min(self._failures + 1, self._failures_to_open)
            self._retry_at_s = self._clock() + self._cooldown_s

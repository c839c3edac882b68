"""A source of metrics that asks in rounds, in a thread of its own, until it is stopped."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod

from envs.live.background import BackgroundThread
from envs.live.metrics import LiveMetrics

logger = logging.getLogger(__name__)

STOP_WITHIN_S = 0.5
LOOK_AGAIN_S = 0.1
LEAST_PAUSE_S = 0.05


class RoundsSource(BackgroundThread):
    """A ``MetricsSource``: a subclass says what one round reads, and when there is anything to ask for."""

    def __init__(self, name: str, interval_s: float) -> None:
        super().__init__(name, STOP_WITHIN_S)
        self._name = name
        self._interval_s = interval_s
        self._newest = LiveMetrics()

    def newest(self) -> LiveMetrics:
        return self._newest

    def go_on_from(self, before: LiveMetrics) -> None:
        """Until the first round these are the newest: the readings of another source in whose place this one comes."""
        self._newest = before

    @abstractmethod
    def read(self) -> LiveMetrics:
        """One round of questions; what it found is the newest then."""

    def _has_begun(self) -> bool:
        """Whether there is anything to ask for yet."""
        return True

    def _run(self) -> None:
        while not self._has_begun() and not self._stopping.wait(LOOK_AGAIN_S):
            pass
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                self.read()
            except Exception:  # a defect of ours must not end the thread: readings grow old, and the log says why
                logger.exception("reading %s failed", self._name)
            self._stopping.wait(max(began_s + self._interval_s - time.monotonic(), LEAST_PAUSE_S))

"""Something that works in a thread of its own until it is told to stop."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class BackgroundThread(ABC):
    """A subclass says what it does until ``_stopping`` is set; whoever stops it does not wait for long."""

    def __init__(self, name: str, stop_within_s: float) -> None:
        self._stop_within_s = stop_within_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; returns soon, also when it does not."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._stop_within_s)

    @abstractmethod
    def _run(self) -> None:
        """In the thread."""

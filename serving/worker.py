"""One thread that does what may take too long, so that whoever waits for it need not wait longer than it can afford.

Python cannot stop a computation. So it goes on in the thread, its result is thrown away, and until it has ended nobody
else is served: they learn at the end of their own time. One that never ends is given up, and a new thread begins.

Waking a thread and being woken takes a tenth of a millisecond and more where cores sleep, on the path of every pod. So
work that was quick many times in a row is done by whoever asks, until it takes longer once: then by the thread again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

GIVEN_UP_AFTER_S = 60.0
QUICK_SHARE = 0.1  # of the time that it is given
TRUSTED_AFTER = 20  # times in a row


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.result: T
        self.error: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as why:  # raised again in the thread that waits
            self.error = why
        finally:
            self.ended.release()


class Worker:
    """The thread begins with the first work."""

    def __init__(self) -> None:
        self._quick = 0  # times in a row
        self._jobs: queue.SimpleQueue[_Job[Any]] | None = None
        self._free = threading.Lock()
        self._began_at_s = 0.0

    def within(self, work: Callable[[], T], limit_s: float) -> T:
        """The result of the work; ``TimeoutError`` if it is not there in time."""
        trusted, began_s = self._quick >= TRUSTED_AFTER, time.monotonic()
        self._quick += 1
        try:
            return work() if trusted else self._by_the_thread(work, limit_s)
        finally:
            if time.monotonic() - began_s > QUICK_SHARE * limit_s:
                self._quick = 0

    def _by_the_thread(self, work: Callable[[], T], limit_s: float) -> T:
        until_s = time.monotonic() + limit_s
        if not self._free.acquire(timeout=_waitable(limit_s)):
            self._give_up_if_stuck()
            raise TimeoutError("its thread is still busy with an earlier question")
        self._began_at_s = time.monotonic()
        job = self._hand_over(work)
        if not job.ended.acquire(timeout=_waitable(until_s - self._began_at_s)):
            raise TimeoutError(f"it did not answer within {1000.0 * limit_s:.0f} ms")
        if job.error is not None:
            raise job.error
        return job.result

    def _hand_over(self, work: Callable[[], T]) -> _Job[T]:
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(self._jobs, self._free), name="policy", daemon=True).start()
        job = _Job(work)
        self._jobs.put(job)
        return job

    def _give_up_if_stuck(self) -> None:
        if time.monotonic() - self._began_at_s > GIVEN_UP_AFTER_S:
            self._jobs, self._free = None, threading.Lock()


def _serve(jobs: queue.SimpleQueue[_Job[Any]], free: threading.Lock) -> None:
    while True:
        jobs.get().run()
        free.release()


def _waitable(seconds: float) -> float:
    return min(max(seconds, 0.0), threading.TIMEOUT_MAX)

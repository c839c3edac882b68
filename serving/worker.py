"""One thread that does what may take too long, so that whoever waits for it need not wait longer than it can afford.

Python cannot stop a computation. So it goes on in the thread, its result is thrown away, and until it has ended nobody
else is served: they learn at the end of their own time. One that never ends is given up, and a new thread begins.

Waking a thread and being woken takes a tenth of a millisecond where cores sleep and many milliseconds where all of them
are busy, on the path of every pod. So work that was quick many times in a row is done by whoever asks, until it is slow
once: then by the thread again. Slow is work that computes for long, or is not done in time. That it waited for a
processor says nothing about it: on a busy machine all does, and the thread would only add to it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

GIVEN_UP_AFTER_S = 60.0
QUICK_SHARE = 0.1  # of the time that it is given, on a processor
TRUSTED_AFTER = 20  # times in a row


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.result: T
        self.error: BaseException | None = None
        self.took_s, self.computed_s = 0.0, 0.0
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        began_s, computing_s = time.monotonic(), time.thread_time()
        try:
            self.result = self.work()
        except BaseException as why:  # raised again in the thread that waits
            self.error = why
        finally:
            self.took_s, self.computed_s = time.monotonic() - began_s, time.thread_time() - computing_s
            self.ended.release()

    def was_quick(self, limit_s: float) -> bool:
        return self.computed_s <= QUICK_SHARE * limit_s and self.took_s <= limit_s

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result


class Worker:
    """The thread begins with the first work."""

    def __init__(self) -> None:
        self._quick = 0  # times in a row
        self._jobs: queue.SimpleQueue[_Job[Any]] | None = None
        self._free = threading.Lock()
        self._began_at_s = 0.0

    def within(self, work: Callable[[], T], limit_s: float) -> T:
        """The result of the work; ``TimeoutError`` if it is not there in time."""
        job = _Job(work)
        if self._quick >= TRUSTED_AFTER:
            job.run()
        else:
            self._by_the_thread(job, limit_s)
        self._quick = self._quick + 1 if job.was_quick(limit_s) else 0
        return job.outcome()

    def _by_the_thread(self, job: _Job[T], limit_s: float) -> None:
        until_s = time.monotonic() + limit_s
        if not self._free.acquire(timeout=_waitable(limit_s)):
            self._give_up_if_stuck()
            raise TimeoutError("its thread is still busy with an earlier question")
        self._began_at_s = time.monotonic()
        self._hand_over(job)
        if not job.ended.acquire(timeout=_waitable(until_s - self._began_at_s)):
            self._quick = 0
            raise TimeoutError(f"it did not answer within {1000.0 * limit_s:.0f} ms")

    def _hand_over(self, job: _Job[T]) -> None:
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(self._jobs, self._free), name="policy", daemon=True).start()
        self._jobs.put(job)

    def _give_up_if_stuck(self) -> None:
        if time.monotonic() - self._began_at_s > GIVEN_UP_AFTER_S:
            self._jobs, self._free = None, threading.Lock()


def _serve(jobs: queue.SimpleQueue[_Job[Any]], free: threading.Lock) -> None:
    while True:
        jobs.get().run()
        free.release()


def _waitable(seconds: float) -> float:
    return min(max(seconds, 0.0), threading.TIMEOUT_MAX)

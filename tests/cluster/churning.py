"""Pods created and deleted again at a steady rate, for as long as somebody wants."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from tests.cluster.api import Api
from tests.cluster.objects import a_pod

LIFE_S = 10.0
WORKERS = 4  # that create, and as many that delete: on a slow machine neither shall starve the other


class Churn:
    """A pod every ``every_s`` for ``lasts_s``, or as fast as it goes; each is deleted ``LIFE_S`` after its creation."""

    def __init__(self, admin: Api, namespace: str, every_s: float, lasts_s: float) -> None:
        self.problems: list[str] = []
        self._admin = admin
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._every_s = every_s
        self._lasts_s = lasts_s
        self._numbers = itertools.count()
        self._created: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
        self._creators = [threading.Thread(target=self._create, daemon=True) for _ in range(WORKERS)]
        self._deleters = [threading.Thread(target=self._delete, daemon=True) for _ in range(WORKERS)]

    def start(self) -> None:
        self._began_s = time.monotonic()
        for worker in (*self._creators, *self._deleters):
            worker.start()

    def is_over(self) -> bool:
        return not any(worker.is_alive() for worker in self._deleters)

    def pods(self) -> int:
        """How many there were, when it is over."""
        return next(self._numbers) - WORKERS

    def _create(self) -> None:
        while True:
            number = next(self._numbers)
            due_s = min(number * self._every_s, self._lasts_s)
            time.sleep(max(self._began_s + due_s - time.monotonic(), 0.0))
            if time.monotonic() - self._began_s >= self._lasts_s:
                return
            name = f"pod-{number:06}"
            self._try(partial(self._admin.create, self._path, a_pod(name)), name)
            self._created.put((name, time.monotonic() + LIFE_S))

    def _delete(self) -> None:
        while True:
            try:
                name, due_s = self._created.get(timeout=1.0)
            except queue.Empty:
                if not any(creator.is_alive() for creator in self._creators):
                    return
                continue
            time.sleep(max(due_s - time.monotonic(), 0.0))
            self._try(partial(self._admin.delete, f"{self._path}/{name}", gracePeriodSeconds="0"), name)

    def _try(self, act: Callable[[], object], name: str) -> None:
        try:
            act()
        except Exception as why:  # said in the end: the others go on
            self.problems.append(f"{name}: {why}")

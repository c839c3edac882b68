"""Pods created and deleted again at a steady rate, for as long as somebody wants."""

from __future__ import annotations

import queue
import threading
import time

from tests.cluster.api import Api
from tests.cluster.objects import a_pod

LIFE_S = 10.0
WORKERS = 4


class Churn:
    """``pods`` of them in ``lasts_s``; each is deleted ``LIFE_S`` after it was created."""

    def __init__(self, admin: Api, namespace: str, pods: int, lasts_s: float) -> None:
        self.problems: list[str] = []
        self._admin = admin
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._due: queue.PriorityQueue[tuple[float, bool, str]] = queue.PriorityQueue()  # when, whether to delete, who
        began_s = time.monotonic()
        for number in range(pods):
            self._due.put((began_s + number * lasts_s / pods, False, f"pod-{number:06}"))
        self._left = pods
        self._lock = threading.Lock()
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(WORKERS)]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def is_over(self) -> bool:
        return not any(worker.is_alive() for worker in self._workers)

    def _work(self) -> None:
        while self._left:
            try:
                due_s, delete, name = self._due.get(timeout=1.0)
            except queue.Empty:
                continue
            time.sleep(max(due_s - time.monotonic(), 0.0))
            try:
                self._delete(name) if delete else self._create(name)
            except Exception as why:  # said in the end: the others go on
                self.problems.append(f"{name}: {why}")
                self._one_less()

    def _create(self, name: str) -> None:
        self._admin.create(self._path, a_pod(name))
        self._due.put((time.monotonic() + LIFE_S, True, name))

    def _delete(self, name: str) -> None:
        self._admin.delete(f"{self._path}/{name}", gracePeriodSeconds="0")
        self._one_less()

    def _one_less(self) -> None:
        with self._lock:
            self._left -= 1

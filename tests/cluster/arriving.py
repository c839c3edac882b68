"""Pods that keep coming while something goes wrong, as a controller makes them: what fails is tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import httpx

from tests.cluster.api import Api, Object, Refused
from tests.cluster.apiserver import CONFLICT

RETRY_AFTER_S = 0.1
MORE_EVERY_S = 0.25


class Arrivals:
    """One pod after the other from ``start`` on: at least ``least`` of them, and more until ``enough`` is called."""

    def __init__(self, admin: Api, namespace: str, pod: Callable[[int], Object], least: int, every_s: float) -> None:
        self.created_at_s: dict[str, float] = {}  # by name: when the API server had it
        self._admin = admin
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._pod = pod
        self._least = least
        self._every_s = every_s
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def enough(self) -> list[str]:
        """All that came, once the least number has."""
        self._enough.set()
        self._thread.join()
        return list(self.created_at_s)

    def _run(self) -> None:
        due_s = time.monotonic()
        while len(self.created_at_s) < self._least or not self._enough.is_set():
            pod = self._pod(len(self.created_at_s))
            while not self._create(pod):
                time.sleep(RETRY_AFTER_S)
            self.created_at_s[pod["metadata"]["name"]] = time.monotonic()
            every_s = self._every_s if len(self.created_at_s) < self._least else max(self._every_s, MORE_EVERY_S)
            due_s = max(due_s + every_s, time.monotonic() - 1.0)  # after a pause not all at once
            time.sleep(max(due_s - time.monotonic(), 0.0))

    def _create(self, pod: Object) -> bool:
        try:
            self._admin.create(self._path, pod)
        except httpx.TransportError:
            return False
        except Refused as why:
            return why.status == CONFLICT  # an answer was lost on its way: the pod is there
        return True

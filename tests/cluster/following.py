"""An exporter that follows a tape to its end: it hears of bindings at once, and ends pods whose time is over."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx

from tests.cluster.api import Api, Object, Refused
from tests.cluster.exporter import Exporter
from tests.cluster.tape_objects import node_number, pod_number
from tests.cluster.truth import Truth

WATCH_S = 2.0  # of silence, then it looks anew: so long a stop may take


class FollowingExporter(Exporter):
    def __init__(self, truth: Truth, admin: Api, namespace: str) -> None:
        self.nodes: dict[int, int] = {}  # where each pod went, also those that are gone
        self.bound_at_s: dict[int, float] = {}  # when the API server said so, by the monotonic clock
        self._names: dict[int, str] = {}
        self._ending = ThreadPoolExecutor(2)
        super().__init__(truth, admin, namespace)

    def _look(self) -> None:
        """A list, and then what happens to it: a burst is not to be seen later than it is bound."""
        with suppress(httpx.TransportError, Refused):
            listed = self._admin.get(self._pods)
            for pod in listed["items"]:
                self._heard("ADDED", pod)
            for event in self._admin.watch(self._pods, listed["metadata"]["resourceVersion"], silent_s=WATCH_S):
                self._heard(event["type"], event["object"])
                if self._stopping.is_set():
                    return

    def _heard(self, kind: str, pod: Object) -> None:
        number, node = pod_number(pod["metadata"]["name"]), pod["spec"].get("nodeName")
        if kind == "DELETED":
            self.truth.gone(number)
        elif node and number not in self.nodes:
            self.bound_at_s[number] = time.monotonic()
            self._names[number], self.nodes[number] = pod["metadata"]["name"], node_number(node)
            self.truth.bound(number, self.nodes[number])

    def stop(self) -> None:
        super().stop()
        self._ending.shutdown()

    def _tick(self) -> None:
        """A pod that has done its work leaves the cluster at once; the clock does not wait for the API server."""
        for pod in self.truth.advance():
            self.truth.gone(pod)
            self._ending.submit(self._end, self._names[pod])

    def _end(self, name: str) -> None:
        with suppress(httpx.TransportError, Refused):  # somebody else was first
            self._admin.delete(f"{self._pods}/{name}", gracePeriodSeconds="0")

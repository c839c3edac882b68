"""When pods were bound, and when they ran, by the word of the API server."""

from __future__ import annotations

import re
import ssl
import threading
import time

import httpx

from agent.errors import InputError
from tests.cluster.apiserver import ApiServer
from tests.cluster.identities import ADMIN

# Only pods that have a node are watched, so each appears once as new: when it is bound.
ONLY_BOUND = {"watch": "true", "fieldSelector": "spec.nodeName!=", "timeoutSeconds": "600"}
NEWS, CHANGE = '{"type":"ADDED"', '{"type":"MODIFIED"'
RUNS = '"phase":"Running"'  # said once of each pod: KWOK writes its status once
VERSION = re.compile(r'"resourceVersion":"([0-9]+)"')
OPEN_WITHIN_S = 20.0


class Bindings:
    """The time of each in one namespace, written down by a thread that ends with the first word after ``stop``."""

    def __init__(self, cluster: ApiServer, namespace: str) -> None:
        self.at_s: list[float] = []
        self.running_at_s: list[float] = []
        self._path = f"{cluster.url}/api/v1/namespaces/{namespace}/pods"
        self._headers = {"Authorization": f"Bearer {cluster.tokens.of(ADMIN)}"}
        self._trust = ssl.create_default_context(cafile=str(cluster.authority.certificate))
        self._opened, self._stopping = threading.Event(), threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="bindings", daemon=True).start()
        if not self._opened.wait(OPEN_WITHIN_S):
            raise InputError("the API server did not let us watch the pods")

    def stop(self) -> None:
        self._stopping.set()

    def wait_until_bound(self, count: int, within_s: float) -> None:
        _wait_for(self.at_s, count, "bound", within_s)

    def wait_until_running(self, count: int, within_s: float) -> None:
        _wait_for(self.running_at_s, count, "running", within_s)

    def pods_per_s(self) -> float:
        """From the first binding to the last."""
        return (len(self.at_s) - 1) / (self.at_s[-1] - self.at_s[0])

    def running_per_s(self) -> float:
        """From the first binding until the last pod runs."""
        return (len(self.running_at_s) - 1) / (self.running_at_s[-1] - self.at_s[0])

    def left_share(self) -> float:
        """Of the pods that did not run yet when the last one was bound: work that was left for later."""
        return sum(at_s > self.at_s[-1] for at_s in self.running_at_s) / len(self.running_at_s)

    def _run(self) -> None:
        try:
            self._watch()
        except httpx.TransportError:
            if not self._stopping.is_set():  # else the API server went first
                raise

    def _watch(self) -> None:
        """The API server ends a watch that reads too slowly in a storm of bindings: then on from the last one seen."""
        version: dict[str, str] = {}
        with httpx.Client(verify=self._trust, headers=self._headers, timeout=None, trust_env=False) as client:
            while not self._stopping.is_set():
                with client.stream("GET", self._path, params=ONLY_BOUND | version) as answer:
                    self._opened.set()
                    for line in answer.iter_lines():
                        if self._stopping.is_set():
                            return
                        version = self._take(line) or version

    def _take(self, line: str) -> dict[str, str]:
        """Where to go on from after this line."""
        if line.startswith(NEWS):
            self.at_s.append(time.monotonic())
        elif line.startswith(CHANGE) and RUNS in line:
            self.running_at_s.append(time.monotonic())
        found = VERSION.search(line)
        return {"resourceVersion": found[1]} if found else {}


def _wait_for(times_s: list[float], count: int, what: str, within_s: float) -> None:
    until_s = time.monotonic() + within_s
    while len(times_s) < count:
        if time.monotonic() > until_s:
            raise InputError(f"only {len(times_s)} of {count} pods were {what} within {within_s:.0f} s")
        time.sleep(0.02)

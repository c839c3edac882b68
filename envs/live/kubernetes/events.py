"""Warning events on pods: what was ignored of a pod is said where its owner looks, in ``kubectl describe pod``.

Whoever warns only puts it into a bounded queue; one thread tells the API server. A full queue and a server that
refuses cost events and never an answer. A pod is told the same thing once.
"""

from __future__ import annotations

import logging
import queue
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from agent.cluster import Pod
from envs.live.background import BackgroundThread
from envs.live.kubernetes.api import ApiError, ApiServer

logger = logging.getLogger(__name__)

COMPONENT = "pilotfish"
WITHIN_S = 4.0
STOP_WITHIN_S = 0.5
MOST_WAITING = 100
MOST_REMEMBERED = 10_000
MESSAGE_CHARACTERS = 1024  # what the API server takes
NAME_CHARACTERS = 240  # leaves room for what it adds to a name


class _Warning(NamedTuple):
    pod: Pod
    reason: str
    message: str


class PodEvents(BackgroundThread):
    def __init__(self, api: ApiServer) -> None:
        super().__init__("events", STOP_WITHIN_S)
        self._api = api
        self._waiting: queue.Queue[_Warning | None] = queue.Queue(MOST_WAITING)
        self._told: dict[tuple[str, str], None] = {}  # the oldest are forgotten first
        self._problem = ""

    def warn(self, pod: Pod, reason: str, message: str) -> None:
        """Never waits. Without a UID it is about no pod of the cluster."""
        if not pod.uid or (pod.uid, message) in self._told:
            return
        self._told[pod.uid, message] = None
        if len(self._told) > MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        try:
            self._waiting.put_nowait(_Warning(pod, reason, message))
        except queue.Full:
            logger.debug("too many events wait: one is dropped")

    def stop(self) -> None:
        with suppress(queue.Full):  # it is awake anyway
            self._waiting.put_nowait(None)
        super().stop()

    def _run(self) -> None:
        while (warning := self._waiting.get()) is not None and not self._stopping.is_set():
            try:
                self._api.post(_path(warning.pod), event_of(warning, datetime.now(UTC)), WITHIN_S)
                self._problem = ""
            except ApiError as why:
                self._say(str(why))
            except Exception:  # the next event may be well again
                logger.exception("an event could not be made")

    def _say(self, problem: str) -> None:
        """Once, not for every pod."""
        if problem != self._problem:
            logger.warning("events are lost: %s; `pilotfish rbac` writes the rights that they need", problem)
        self._problem = problem


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/events"


def event_of(warning: _Warning, now: datetime) -> dict[str, Any]:
    pod, at = warning.pod, now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{pod.name[:NAME_CHARACTERS]}.", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "type": "Warning",
        "reason": warning.reason,
        "message": warning.message[:MESSAGE_CHARACTERS],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": socket.gethostname(),
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }

"""Pods of one scheduler that wait for a node: what an environment over a real cluster takes its decisions from.

The watching thread writes, the environment reads. Whoever comes first is first, but a higher priority goes before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from agent.cluster import Pod
from envs.live.metrics import PodName


class _Waiting(NamedTuple):
    pod: Pod
    number: int  # in the order of their coming
    not_before_s: float


class WaitingPods:
    """``changed`` is set whenever there may be somebody new."""

    def __init__(self, scheduler_name: str) -> None:
        self.scheduler_name = scheduler_name
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[PodName, _Waiting] = {}
        self._came = 0

    def __len__(self) -> int:
        return len(self._pods)

    def show(self, name: PodName, pod: Pod) -> None:
        """This pod waits; one that was put off stays so."""
        with self._lock:
            before = self._pods.get(name)
            if before is not None and before.pod.uid == pod.uid:
                self._pods[name] = before._replace(pod=pod)
                return
            self._pods[name] = _Waiting(pod, self._came, 0.0)
            self._came += 1
        self.changed.set()

    def forget(self, name: PodName) -> None:
        """It is bound, gone or somebody else's."""
        with self._lock:
            self._pods.pop(name, None)

    def waits(self, name: PodName, uid: str) -> bool:
        with self._lock:
            found = self._pods.get(name)
        return found is not None and found.pod.uid == uid

    def keep(self, among: Callable[[PodName], bool]) -> None:
        """Only those are left: the end of a list."""
        with self._lock:
            self._pods = {name: each for name, each in self._pods.items() if among(name)}

    def put_off(self, name: PodName, until_s: float) -> None:
        """It was not bound: others go first until then."""
        with self._lock:
            if name in self._pods:
                self._pods[name] = self._pods[name]._replace(not_before_s=until_s)

    def in_order(self, now_s: float) -> list[Pod]:
        with self._lock:
            due = [each for each in self._pods.values() if each.not_before_s <= now_s]
        return [each.pod for each in sorted(due, key=lambda each: (-each.pod.priority, each.number))]

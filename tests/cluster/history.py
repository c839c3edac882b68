"""What happened to every pod and node, written down by watches of the tests' own: the evidence of a fault test.

A watch that breaks begins again with a list, so nothing that lasts is missed while the API server is away.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import httpx

from agent.quantities import millicores, value
from tests.cluster.api import Api, Object, Refused
from tests.cluster.objects import NODES, is_usable

RETRY_AFTER_S = 0.1

# kube-scheduler hears of a change by a watch, too: for so long after it a pod may still go by what was true before.
GRACE_S = 1.0

Amounts = dict[str, int]  # by unit: what a pod asks for, or a node has
Note = Callable[[Object, bool], None]  # an object as it is now, and whether it is gone


@dataclass
class PodStory:
    name: str
    asks: Amounts
    nodes: list[str] = field(default_factory=list)  # two: bound twice
    bound_at_s: float = float("inf")
    misplaced: str = ""  # why the node was no place for it at that moment


@dataclass
class NodeStory:
    has: Amounts = field(default_factory=dict)
    taken: dict[str, Amounts] = field(default_factory=dict)  # by the UID of a pod
    states: list[tuple[float, bool]] = field(default_factory=list)  # since when usable, or not

    def was_usable(self, begin_s: float, end_s: float) -> bool:
        """At any moment between."""
        spans = pairwise([*self.states, (float("inf"), False)])
        return any(usable and since_s <= end_s and until_s >= begin_s for (since_s, usable), (until_s, _) in spans)

    def overfull(self) -> str:
        """What is taken beyond what there is."""
        taken = {unit: sum(pod[unit] for pod in self.taken.values()) for unit in self.has}
        return ", ".join(f"{taken[unit]} of {has} {unit}" for unit, has in self.has.items() if taken[unit] > has)


class History:
    """Written from ``start`` to ``stop``; pods go by their UID, nodes by their name."""

    def __init__(self, admin: Api, namespace: str) -> None:
        self.pods: dict[str, PodStory] = {}
        self.nodes: defaultdict[str, NodeStory] = defaultdict(NodeStory)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._admin = admin
        paths: dict[str, Note] = {NODES: self._node, f"/api/v1/namespaces/{namespace}/pods": self._pod}
        self._threads = [
            threading.Thread(target=self._follow, args=(admin, path, note), daemon=True) for path, note in paths.items()
        ]

    def start(self) -> None:
        """The nodes first: a pod on a node that nobody has heard of would count as misplaced."""
        for node in self._admin.get(NODES)["items"]:
            self._node(node, gone=False)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """The threads end with their watches; nobody waits for that."""
        self._stopping.set()

    def bound(self) -> dict[str, PodStory]:
        """By name. A pod that is gone again was bound all the same."""
        with self._lock:
            return {pod.name: pod for pod in self.pods.values() if pod.nodes}

    def _follow(self, admin: Api, path: str, note: Note) -> None:
        known: dict[str, Object] = {}  # by UID

        def noted(item: Object, gone: bool) -> None:
            known[item["metadata"]["uid"]] = item
            if gone:
                del known[item["metadata"]["uid"]]
            with self._lock:
                note(item, gone)

        while not self._stopping.is_set():
            try:
                self._list_and_watch(admin, path, known, noted)
            except (httpx.TransportError, Refused, json.JSONDecodeError):
                self._stopping.wait(RETRY_AFTER_S)

    def _list_and_watch(self, admin: Api, path: str, known: dict[str, Object], noted: Note) -> None:
        listed = admin.get(path)
        there = {item["metadata"]["uid"]: item for item in listed["items"]}
        for uid in known.keys() - there.keys():
            noted(known[uid], True)
        for item in there.values():
            noted(item, False)
        for event in admin.watch(path, listed["metadata"]["resourceVersion"]):
            if self._stopping.is_set() or event["type"] == "ERROR":
                return
            noted(event["object"], event["type"] == "DELETED")

    def _node(self, node: Object, gone: bool) -> None:
        story = self.nodes[node["metadata"]["name"]]
        allocatable = node["status"]["allocatable"]
        story.has = _amounts(allocatable, pods=value(allocatable["pods"]))
        usable = not gone and is_usable(node)
        if not story.states or story.states[-1][1] != usable:
            story.states.append((time.monotonic(), usable))

    def _pod(self, pod: Object, gone: bool) -> None:
        uid, name = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        story = self.pods.setdefault(uid, PodStory(pod["metadata"]["name"], _requested(pod)))
        if gone:
            self.nodes[name or ""].taken.pop(uid, None)
        elif name and name not in story.nodes:
            self._note_binding(uid, story, name)

    def _note_binding(self, uid: str, pod: PodStory, name: str) -> None:
        node, now_s = self.nodes[name], time.monotonic()
        pod.nodes.append(name)
        pod.bound_at_s = min(pod.bound_at_s, now_s)
        node.taken[uid] = pod.asks
        if not node.was_usable(now_s - GRACE_S, now_s):
            pod.misplaced = f"{pod.name}: {name} was cordoned, tainted, not ready or gone"
        if overfull := node.overfull():
            pod.misplaced = f"{pod.name}: {name} was full, {overfull}"


def _requested(pod: Object) -> Amounts:
    containers = [_amounts(each["resources"]["requests"], pods=0) for each in pod["spec"]["containers"]]
    return {unit: sum(each[unit] for each in containers) for unit in containers[0]} | {"pods": 1}


def _amounts(quantities: Object, pods: int) -> Amounts:
    return {"millicores": millicores(quantities["cpu"]), "bytes": value(quantities["memory"]), "pods": pods}

"""Who runs where: what the watch has shown of nodes and pods, with the sums of every node kept by each change.

A pod is a short row here, not the object of the API: 30,000 of them fit in 20 MB, and one change costs the same on
ten pods as on 30,000. The sums are whole numbers, so what is added and taken away leaves nothing behind.

The watching threads write, the publishing thread reads; ``lock`` is held for moments only and never by a request.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agent.cluster import App, Node, Pod
from envs.live.metrics import PodName


class PodRow(NamedTuple):
    """What is kept of a pod; ``node`` is empty while it waits."""

    uid: str
    node: str
    app: str
    cpu_millicores: int
    memory_bytes: int
    gpus: int
    held: bool  # by a scheduling gate: it does not wait for a node yet
    protected: bool  # never to be preempted


@dataclass(slots=True)
class NodeSums:
    """What the pods of one node request together."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    pods: int = 0

    def add(self, row: PodRow, sign: int) -> None:
        self.cpu_millicores += sign * row.cpu_millicores
        self.memory_bytes += sign * row.memory_bytes
        self.gpus += sign * row.gpus
        self.pods += sign


class Bound(NamedTuple):
    """The watch shows this pod on this node for the first time."""

    pod: Pod
    node: str


class Gone(NamedTuple):
    """The pod ended or was deleted; ``node`` is empty if it had none."""

    pod: Pod  # as far as the ledger keeps it
    node: str


Notice = Bound | Gone


class Ledger:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.nodes: dict[str, Node] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}  # of each node, host names too: how metrics may call it
        self.pods: dict[PodName, PodRow] = {}
        self.sums: dict[str, NodeSums] = {}
        self.apps: dict[App, Mapping[str, int]] = {}  # pods by node; replaced, never changed: snapshots share them
        self.protected: set[str] = set()  # UIDs
        self.waiting = 0
        self.nodes_version = 0  # changes of nodes that a scorer could notice
        self.changed = threading.Event()
        self._notices: list[Notice] = []

    def take_notices(self) -> list[Notice]:
        """What happened to pods since the last time; the caller holds the lock."""
        notices, self._notices = self._notices, []
        return notices

    def node_addresses(self) -> dict[str, tuple[str, ...]]:
        with self.lock:
            return dict(self.addresses)

    def set_node(self, node: Node, addresses: tuple[str, ...] = ()) -> None:
        with self.lock:
            self.addresses[node.name] = addresses
            if self.nodes.get(node.name) == node:
                return  # the kubelet reports every few minutes, mostly nothing new
            self.nodes[node.name] = node
            self._nodes_changed()

    def remove_node(self, name: str) -> None:
        with self.lock:
            self.addresses.pop(name, None)
            if self.nodes.pop(name, None) is not None:
                self._nodes_changed()

    def keep_nodes(self, names: Iterable[str]) -> None:
        """Only these are left: the end of a list."""
        for name in set(self.nodes) - set(names):
            self.remove_node(name)

    def has_bound(self, name: PodName, row: PodRow) -> bool:
        """Whether this pod was on this node before."""
        before = self.pods.get(name)
        return before is not None and (before.uid, before.node) == (row.uid, row.node)

    def set_pod(self, name: PodName, row: PodRow, pod: Pod | None) -> None:
        """``pod`` is there when its binding is news."""
        with self.lock:
            before = self.pods.get(name)
            if before == row:
                return
            self._count(name, before, -1)
            self._count(name, row, 1)
            self.pods[name] = row
            if before is not None and before.uid != row.uid:
                self._notices.append(_gone(name, before))
            if pod is not None:
                self._notices.append(Bound(pod, row.node))
            self.changed.set()

    def remove_pod(self, name: PodName) -> None:
        with self.lock:
            before = self.pods.pop(name, None)
            if before is None:
                return
            self._count(name, before, -1)
            self._notices.append(_gone(name, before))
            self.changed.set()

    def keep_pods(self, names: set[PodName], namespace: str = "") -> None:
        """Only these are left, in the namespace or in all."""
        for name in [name for name in self.pods if name not in names and namespace in ("", name[0])]:
            self.remove_pod(name)

    def _nodes_changed(self) -> None:
        self.nodes_version += 1
        self.changed.set()

    def _count(self, name: PodName, row: PodRow | None, sign: int) -> None:
        if row is None:
            return
        if row.protected:
            (self.protected.add if sign > 0 else self.protected.discard)(row.uid)
        if not row.node:
            self.waiting += 0 if row.held else sign
            return
        sums = self.sums.setdefault(row.node, NodeSums())
        sums.add(row, sign)
        if not sums.pods:
            del self.sums[row.node]
        if row.app:
            self._count_app((name[0], row.app), row.node, sign)

    def _count_app(self, app: App, node: str, sign: int) -> None:
        counts = dict(self.apps.get(app, ()))
        counts[node] = counts.get(node, 0) + sign
        if not counts[node]:
            del counts[node]
        if counts:
            self.apps[app] = counts
        else:
            del self.apps[app]


def _gone(name: PodName, row: PodRow) -> Gone:
    pod = Pod(
        uid=row.uid,
        name=name[1],
        namespace=name[0],
        app=row.app,
        cpu_request_millicores=row.cpu_millicores,
        memory_request_bytes=row.memory_bytes,
        gpus=row.gpus,
    )
    return Gone(pod, row.node)

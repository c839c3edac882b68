"""Placements that nobody shows yet: requests that the watch lacks, use that the metrics lack.

Between our answer and the watch a placement is invisible, and for a whole metrics window after that its use is.
Counting neither sends a burst to one node. Each pod has one row, keyed by its UID:

    assume    a provisional row on our best node; a repeated call replaces it, it never adds (X.3)
    seen      the watch shows the pod bound: its requests are counted there now, so only its use stays, on the
              node it really got, until the metrics contain it
    deleted   the row leaves
    time      a provisional row leaves after ``provisional_s``, a bound one after ``bound_s``

so the table empties by itself whatever signal is lost (S3.13).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from agent.cluster import GPU_MILLI, ClusterState, Demand, FloatArray, IntArray
from agent.gpu import choose_gpus, take_gpus
from agent.pending import pending_weight

_FIRST_ROWS = 64
_FREE = -np.inf  # until_s of a row that nobody uses
_GONE = -1  # a node that the state does not have
_USES = ("cpu_millicores", "memory_mib", "rx_mbps", "tx_mbps")

_COLUMNS = (
    "node",  # index into Assumed._nodes: comparing names pod by pod is what would cost time
    "provisional",  # 1 or 0
    "since_s",
    "until_s",
    "cpu_request_millicores",
    "memory_request_mib",
    "gpus",
    "gpu_milli",
    *_USES,
)
_NODE, _PROVISIONAL, _SINCE_S, _UNTIL_S = range(4)
Columns = Mapping[str, FloatArray]


class Requests(NamedTuple):
    """What the scheduler sets aside for a pod."""

    cpu_millicores: float = 0.0
    memory_mib: float = 0.0
    gpus: float = 0.0
    gpu_milli: float = float(GPU_MILLI)


class ExpectedUse(NamedTuple):
    """What a pod is expected to use once it runs."""

    cpu_millicores: float = 0.0
    memory_mib: float = 0.0
    rx_mbps: float = 0.0
    tx_mbps: float = 0.0


def requests_of(demand: Demand) -> Requests:
    return Requests(
        float(demand.cpu_request_millicores),
        float(demand.memory_request_mib),
        float(demand.gpus),
        float(demand.gpu_milli),
    )


def expected_of(demand: Demand) -> ExpectedUse:
    """Unknown counts as nothing: an invented number would outweigh the measured ones."""
    fields = ("expected_cpu_millicores", "expected_memory_mib", "expected_rx_mbps", "expected_tx_mbps")
    uses = (float(getattr(demand, name)) for name in fields)
    return ExpectedUse(*(use if isfinite(use) else 0.0 for use in uses))


class Assumed:
    """One place per pod in a table that grows and is reused: thousands of pods cost a few passes of numpy."""

    def __init__(self, provisional_s: float = 2.0, bound_s: float = 300.0, window_s: float = 60.0) -> None:
        """``window_s`` is that of the metrics' rates; after ``bound_s`` metrics that lack a pod are stale anyway."""
        self._provisional_s = provisional_s
        self._bound_s = bound_s
        self._window_s = window_s
        self._table = _free_rows(_FIRST_ROWS)  # (columns, pods)
        self._row_of: dict[str, int] = {}
        self._uid_of: dict[int, str] = {}
        self._nodes: dict[str, int] = {}  # names heard of, numbered
        self._index: tuple[Mapping[str, int], IntArray] = ({}, np.zeros(0, dtype=np.int64))
        self._free = list(range(_FIRST_ROWS))
        self._lock = threading.Lock()  # decisions write, the watch corrects
        self.version = 0  # another number whenever a row has changed

    def __len__(self) -> int:
        return len(self._row_of)

    def node_of(self, uid: str) -> str | None:
        with self._lock:
            row = self._row_of.get(uid)
            return None if row is None else list(self._nodes)[int(self._table[_NODE, row])]

    def assume(self, uid: str, node: str, requests: Requests, expected: ExpectedUse, now_s: float) -> None:
        """Count this pod on this node until the watch says where it is."""
        with self._lock:
            self._expire(now_s)
            if self._is_bound(uid):
                return  # an old call that came late
            until_s = now_s + self._provisional_s
            self._write(uid, node, (True, now_s, until_s, *requests, *expected))

    def seen(self, uid: str, node: str, bound_at_s: float, expected: ExpectedUse | None = None) -> None:
        """The watch shows the pod bound there; ``expected`` is for pods that somebody else placed."""
        with self._lock:
            if expected is None:
                if uid not in self._row_of:
                    return
                expected = ExpectedUse(*self._table[-len(_USES) :, self._row_of[uid]].tolist())
            if self._is_bound(uid):  # the watch repeats itself: the first time counts
                bound_at_s = float(self._table[_SINCE_S, self._row_of[uid]])
            until_s = bound_at_s + self._bound_s
            self._write(uid, node, (False, bound_at_s, until_s, *Requests(), *expected))

    def deleted(self, uid: str) -> None:
        with self._lock:
            self._drop(uid)

    def expire(self, now_s: float) -> None:
        with self._lock:
            self._expire(now_s)

    def added_to(
        self, state: ClusterState, index_of: Mapping[str, int], now_s: float, without_uid: str = ""
    ) -> ClusterState:
        """The state with these placements counted; ``without_uid`` is the pod that is being scored."""
        with self._lock:
            self._expire(now_s)
            if not self._row_of:
                return state
            counted = self._table[_UNTIL_S] > now_s
            if without_uid in self._row_of:
                counted[self._row_of[without_uid]] = False
            table = self._table[:, counted]
            places = self._places(index_of)
        nodes = places[table[_NODE].astype(np.int64)]
        if np.any(nodes == _GONE):
            table, nodes = table[:, nodes != _GONE], nodes[nodes != _GONE]
        if not len(nodes):
            return state
        pods = dict(zip(_COLUMNS, table, strict=True))
        return state.changed(_requests(state, pods, nodes) | _pending(state, pods, nodes, now_s, self._window_s))

    def _places(self, index_of: Mapping[str, int]) -> IntArray:
        """Where the state has each of our nodes; found anew only when either side has changed."""
        known, index = self._index
        if known is not index_of or len(index) != len(self._nodes):
            index = np.array([index_of.get(name, _GONE) for name in self._nodes], dtype=np.int64)
            self._index = index_of, index
        return index

    def _is_bound(self, uid: str) -> bool:
        return uid in self._row_of and not self._table[_PROVISIONAL, self._row_of[uid]]

    def _write(self, uid: str, node: str, values: tuple[float, ...]) -> None:
        self.version += 1
        if uid not in self._row_of:
            if not self._free:
                count = self._table.shape[1]
                self._free = list(range(count, 2 * count))
                self._table = np.concatenate([self._table, _free_rows(count)], axis=1)
            self._row_of[uid] = self._free.pop()
            self._uid_of[self._row_of[uid]] = uid
        number = self._nodes.setdefault(node, len(self._nodes))
        self._table[:, self._row_of[uid]] = (number, *values)

    def _drop(self, uid: str) -> None:
        row = self._row_of.pop(uid, None)
        if row is not None:
            self.version += 1
            self._table[_UNTIL_S, row] = _FREE
            self._free.append(row)
            del self._uid_of[row]
        if not self._row_of:
            self._nodes.clear()  # or the names of removed nodes would stay for ever
            self._index = {}, np.zeros(0, dtype=np.int64)

    def _expire(self, now_s: float) -> None:
        until_s = self._table[_UNTIL_S]
        for row in np.flatnonzero((until_s <= now_s) & (until_s > _FREE)).tolist():
            self._drop(self._uid_of[row])


def _free_rows(count: int) -> FloatArray:
    table = np.zeros((len(_COLUMNS), count))
    table[_UNTIL_S] = _FREE
    return table


def _requests(state: ClusterState, pods: Columns, nodes: IntArray) -> dict[str, Any]:
    """Columns of the state with the requests of pods that the watch does not show as bound."""
    provisional = pods["provisional"]
    cpu, memory = (pods[name] * provisional for name in ("cpu_request_millicores", "memory_request_mib"))
    return {
        "cpu_requested_millicores": state.cpu_requested_millicores + _by_node(state, nodes, cpu),
        "memory_requested_mib": state.memory_requested_mib + _by_node(state, nodes, memory),
        "pods_running": state.pods_running + _by_node(state, nodes, provisional),
        "gpu_free_milli": _gpus_left(state, pods, nodes),
    }


def _gpus_left(state: ClusterState, pods: Columns, nodes: IntArray) -> FloatArray:
    with_gpus = np.flatnonzero(pods["gpus"] * pods["provisional"])
    if not len(with_gpus):
        return state.gpu_free_milli
    free_milli = state.gpu_free_milli.copy()
    for node, pod in zip(nodes[with_gpus], with_gpus, strict=True):
        gpus, gpu_milli = pods["gpus"][pod], pods["gpu_milli"][pod]
        chosen = choose_gpus(free_milli[node], gpus, gpu_milli)
        if chosen > 0:
            take_gpus(free_milli[node], chosen, gpu_milli)
    return free_milli


def _pending(state: ClusterState, pods: Columns, nodes: IntArray, now_s: float, window_s: float) -> dict[str, Any]:
    """The same with the use that the metrics of the node lack; memory is a gauge, its window is a moment."""

    def missing(age_s: FloatArray, metric_window_s: float) -> FloatArray:
        return pending_weight(pods["since_s"], now_s - age_s[nodes], metric_window_s)

    cpu = missing(state.cpu_age_s, window_s)
    memory = missing(state.memory_age_s, 0.0)
    network = missing(state.network_age_s, window_s)
    return {
        "pending_cpu_millicores": state.pending_cpu_millicores + _by_node(state, nodes, cpu * pods["cpu_millicores"]),
        "pending_memory_mib": state.pending_memory_mib + _by_node(state, nodes, memory * pods["memory_mib"]),
        "pending_rx_mbps": state.pending_rx_mbps + _by_node(state, nodes, network * pods["rx_mbps"]),
        "pending_tx_mbps": state.pending_tx_mbps + _by_node(state, nodes, network * pods["tx_mbps"]),
        "pending_pods": state.pending_pods + _by_node(state, nodes, network),
    }


def _by_node(state: ClusterState, nodes: IntArray, amounts: FloatArray) -> FloatArray:
    return np.bincount(nodes, amounts, state.node_count).astype(np.float64, copy=False)

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
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.cluster import GPU_MILLI, ClusterState, Demand, FloatArray, IntArray
from agent.gpu import choose_gpus, take_gpus
from agent.pending import pending_weight

_FIRST_ROWS = 64
_FREE = -np.inf  # until_s of a row that nobody uses
_GONE = -1  # a node that the state does not have
_USES = ("cpu_millicores", "memory_mib", "rx_mbps", "tx_mbps")

_ROW = np.dtype(
    [
        ("uid", object),
        ("node", np.int64),  # index into Assumed._nodes: comparing names row by row is what would cost time
        ("provisional", np.bool_),
        ("since_s", np.float64),
        ("until_s", np.float64),
        ("cpu_request_millicores", np.float64),
        ("memory_request_mib", np.float64),
        ("gpus", np.float64),
        ("gpu_milli", np.float64),
        ("cpu_millicores", np.float64),
        ("memory_mib", np.float64),
        ("rx_mbps", np.float64),
        ("tx_mbps", np.float64),
    ]
)
Columns = Mapping[str, NDArray[Any]]
_NUMBERS = [name for name in _ROW.names or () if name != "uid"]


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
    """One row per pod in a table that grows and is reused: thousands of pods cost a few passes of numpy."""

    def __init__(self, provisional_s: float = 2.0, bound_s: float = 300.0, window_s: float = 60.0) -> None:
        """``window_s`` is that of the metrics' rates; after ``bound_s`` metrics that lack a pod are stale anyway."""
        self._provisional_s = provisional_s
        self._bound_s = bound_s
        self._window_s = window_s
        self._table = _free_rows(_FIRST_ROWS)
        self._row_of: dict[str, int] = {}
        self._nodes: dict[str, int] = {}  # names heard of, numbered
        self._index: tuple[Mapping[str, int], IntArray] = ({}, np.zeros(0, dtype=np.int64))
        self._free = list(range(_FIRST_ROWS))
        self._lock = threading.Lock()  # decisions write, the watch corrects

    def __len__(self) -> int:
        return len(self._row_of)

    def node_of(self, uid: str) -> str | None:
        with self._lock:
            row = self._row_of.get(uid)
            return None if row is None else list(self._nodes)[self._table["node"][row]]

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
                expected = ExpectedUse(*(float(self._table[use][self._row_of[uid]]) for use in _USES))
            if self._is_bound(uid):  # the watch repeats itself: the first time counts
                bound_at_s = float(self._table["since_s"][self._row_of[uid]])
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
            counted = self._table["until_s"] > now_s
            if without_uid in self._row_of:
                counted[self._row_of[without_uid]] = False
            index = self._places(index_of)
            rows = _taken({name: self._table[name] for name in _NUMBERS}, np.flatnonzero(counted))
        nodes = index[rows["node"]]
        if np.any(nodes == _GONE):
            rows, nodes = _taken(rows, nodes != _GONE), nodes[nodes != _GONE]
        if not len(nodes):
            return state
        provisional = np.flatnonzero(rows["provisional"])
        state = _with_requests(state, _taken(rows, provisional), nodes[provisional])
        return _with_pending(state, rows, nodes, now_s, self._window_s)

    def _places(self, index_of: Mapping[str, int]) -> IntArray:
        """Where the state has each of our nodes; found anew only when either side has changed."""
        known, index = self._index
        if known is not index_of or len(index) != len(self._nodes):
            index = np.array([index_of.get(name, _GONE) for name in self._nodes], dtype=np.int64)
            self._index = index_of, index
        return index

    def _is_bound(self, uid: str) -> bool:
        return uid in self._row_of and not self._table["provisional"][self._row_of[uid]]

    def _write(self, uid: str, node: str, values: tuple[object, ...]) -> None:
        if uid not in self._row_of:
            if not self._free:
                self._free = list(range(len(self._table), 2 * len(self._table)))
                self._table = np.concatenate([self._table, _free_rows(len(self._table))])
            self._row_of[uid] = self._free.pop()
        number = self._nodes.setdefault(node, len(self._nodes))
        self._table[self._row_of[uid]] = (uid, number, *values)

    def _drop(self, uid: str) -> None:
        row = self._row_of.pop(uid, None)
        if row is not None:
            self._table[row] = _free_rows(1)[0]
            self._free.append(row)
        if not self._row_of:
            self._nodes.clear()  # or the names of removed nodes would stay for ever
            self._index = {}, np.zeros(0, dtype=np.int64)

    def _expire(self, now_s: float) -> None:
        until_s = self._table["until_s"]
        for row in np.flatnonzero((until_s <= now_s) & (until_s > _FREE)):
            self._drop(self._table["uid"][row])


def _free_rows(count: int) -> NDArray[Any]:
    rows = np.zeros(count, dtype=_ROW)
    rows["until_s"] = _FREE
    return rows


def _taken(rows: Columns, places: NDArray[Any]) -> Columns:
    """Some of the rows, column by column: copying rows as they stand in the table costs several times more."""
    return {name: values[places] for name, values in rows.items()}


def _with_requests(state: ClusterState, rows: Columns, nodes: IntArray) -> ClusterState:
    """Requests of pods that the watch does not show as bound."""
    gpu_free_milli = state.gpu_free_milli.copy()
    with_gpus = np.flatnonzero(rows["gpus"])
    for node, row in zip(nodes[with_gpus], with_gpus, strict=True):
        gpus, gpu_milli = rows["gpus"][row], rows["gpu_milli"][row]
        chosen = choose_gpus(gpu_free_milli[node], gpus, gpu_milli)
        if chosen > 0:
            take_gpus(gpu_free_milli[node], chosen, gpu_milli)
    return replace(
        state,
        cpu_requested_millicores=state.cpu_requested_millicores
        + _by_node(state, nodes, rows["cpu_request_millicores"]),
        memory_requested_mib=state.memory_requested_mib + _by_node(state, nodes, rows["memory_request_mib"]),
        pods_running=state.pods_running + _by_node(state, nodes, np.ones(len(nodes))),
        gpu_free_milli=gpu_free_milli,
    )


def _with_pending(state: ClusterState, rows: Columns, nodes: IntArray, now_s: float, window_s: float) -> ClusterState:
    """Expected use that the metrics of the node lack; memory is a gauge, its window is a moment."""

    def missing(age_s: FloatArray, metric_window_s: float) -> FloatArray:
        return pending_weight(rows["since_s"], now_s - age_s[nodes], np.asarray(metric_window_s))

    cpu = missing(state.cpu_age_s, window_s)
    memory = missing(state.memory_age_s, 0.0)
    network = missing(state.network_age_s, window_s)
    return replace(
        state,
        pending_cpu_millicores=state.pending_cpu_millicores + _by_node(state, nodes, cpu * rows["cpu_millicores"]),
        pending_memory_mib=state.pending_memory_mib + _by_node(state, nodes, memory * rows["memory_mib"]),
        pending_rx_mbps=state.pending_rx_mbps + _by_node(state, nodes, network * rows["rx_mbps"]),
        pending_tx_mbps=state.pending_tx_mbps + _by_node(state, nodes, network * rows["tx_mbps"]),
        pending_pods=state.pending_pods + _by_node(state, nodes, network),
    )


def _by_node(state: ClusterState, nodes: IntArray, amounts: FloatArray) -> FloatArray:
    summed: FloatArray = np.bincount(nodes, weights=amounts, minlength=state.node_count).astype(np.float64)
    return summed

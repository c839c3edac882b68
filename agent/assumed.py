"""Placements that nobody shows yet: requests that the watch lacks, use that the metrics lack.

Between our answer and the watch a placement is invisible, and for a whole metrics window after that its use is.
Counting neither sends a burst to one node. Each pod has one row, keyed by its UID:

    assume    a provisional row on our best node, a sibling to its app's next pods; a repeated call replaces it, it
              never adds (X.3)
    seen      the watch shows the pod bound: its requests are counted there now, and it among its siblings, so only its
              use stays, on the node it really got, until the metrics contain it
    left      the pod ran and is gone: what the metrics still show of its use is taken away, until they do no more
    deleted   the row leaves
    time      a provisional row leaves after ``provisional_s``, a bound one after ``bound_s``, one that left after two
              windows of the metrics

so the table empties by itself whatever signal is lost (S3.13).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from heapq import heappop, heappush
from math import isfinite
from typing import NamedTuple

import numpy as np

from agent import assumed_rows as rows
from agent.assumed_rows import COLUMNS, GONE, RUNS, AssumedSums
from agent.cluster import GPU_MILLI, App, ClusterState, Demand, FloatArray, IntArray
from agent.gpu import choose_gpus, take_gpus

_FIRST_ROWS = 64
_FREE = -np.inf  # until_s of a row that nobody uses
_LONG_AGO_S = -1e12  # when a pod was bound that has no row any more
_LEFT_WINDOWS = 2.0  # of the metrics' rates, for which a pod that left may be in them


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
        self._node_names: list[str] = []  # by their numbers
        self._with_gpus: set[int] = set()  # rows that the watch lacks and that take devices
        self._left: set[int] = set()  # rows of pods that have left
        self._app_of: dict[int, App | None] = {}  # of rows that the watch lacks
        self._rows_of_app: dict[App, set[int]] = {}  # the same, by app
        self._sums: AssumedSums | None = None  # of the newest state
        self._free = list(range(_FIRST_ROWS))
        self._ends: list[tuple[float, int]] = []  # a heap: when a row's time may be over
        self._lock = threading.Lock()  # decisions write, the watch corrects
        self.version = 0  # another number whenever a row has changed

    def __len__(self) -> int:
        """Placements; pods that have left are none."""
        return len(self._row_of) - len(self._left)

    def node_of(self, uid: str) -> str | None:
        with self._lock:
            row = self._row_of.get(uid)
            return None if row is None else self._node_names[int(self._table[rows.NODE, row])]

    def assume(
        self, uid: str, node: str, requests: Requests, expected: ExpectedUse, now_s: float, app: App | None = None
    ) -> None:
        """Count this pod on this node, and among the pods of its app, until the watch says where it is."""
        with self._lock:
            self._expire(now_s)
            if self._is_bound(uid):
                return  # an old call that came late
            until_s = now_s + self._provisional_s
            self._write(uid, node, (True, now_s, RUNS, until_s, *requests, *expected))
            row = self._row_of[uid]
            self._app_of[row] = app
            if app is not None:
                self._rows_of_app.setdefault(app, set()).add(row)

    def seen(self, uid: str, node: str, bound_at_s: float, expected: ExpectedUse | None = None) -> None:
        """The watch shows the pod bound there; ``expected`` is for pods that somebody else placed."""
        with self._lock:
            if self._row_of.get(uid) in self._left:
                return
            if expected is None:
                if uid not in self._row_of:
                    return
                expected = ExpectedUse(*self._table[rows.CPU :, self._row_of[uid]].tolist())
            if uid in self._row_of:  # the watch comes after our answer, and repeats itself: the first time counts
                bound_at_s = float(self._table[rows.SINCE_S, self._row_of[uid]])
            until_s = bound_at_s + self._bound_s
            self._write(uid, node, (False, bound_at_s, RUNS, until_s, *Requests(), *expected))

    def left(self, uid: str, node: str, now_s: float, expected: ExpectedUse) -> None:
        """The pod ran there and is gone; ``expected`` is what it used."""
        with self._lock:
            self._expire(now_s)
            bound_at_s = float(self._table[rows.SINCE_S, self._row_of[uid]]) if self._is_bound(uid) else _LONG_AGO_S
            until_s = now_s + _LEFT_WINDOWS * self._window_s
            self._write(uid, node, (False, bound_at_s, now_s, until_s, *Requests(), *expected))

    def deleted(self, uid: str) -> None:
        with self._lock:
            self._drop(uid)

    def expire(self, now_s: float) -> None:
        with self._lock:
            self._expire(now_s)

    def unseen(self, without_uid: str = "") -> int:
        """Pods that the watch lacks on their nodes, where they wait no more."""
        with self._lock:
            return len(self._app_of) - (self._row_of.get(without_uid) in self._app_of)

    def siblings(self, app: App, index_of: Mapping[str, int], without_uid: str = "") -> IntArray:
        """Places of the nodes of this app's pods that the watch lacks, one for each pod."""
        with self._lock:
            others = self._rows_of_app.get(app, set()) - {self._row_of.get(without_uid)}
            places = (self._place(row, index_of) for row in others)
            return np.array([place for place in places if place != GONE], dtype=np.int64)

    def added_to(
        self,
        state: ClusterState,
        index_of: Mapping[str, int],
        now_s: float,
        without_uid: str = "",
        taken_at_s: float | None = None,
    ) -> ClusterState:
        """The state with these placements counted; ``without_uid`` is the pod that is being scored.

        Ages in the state are those of ``taken_at_s``: of now, if it is not given.
        """
        with self._lock:
            self._expire(now_s)
            if not self._row_of:
                return state
            sums = self._sums_of(state, index_of, now_s if taken_at_s is None else taken_at_s)
            own_row = self._row_of.get(without_uid)
            columns = sums.columns(own_row)
            if self._with_gpus:
                columns["gpu_free_milli"] = self._gpus_left(state, index_of, own_row)
        return state.changed(columns)

    def _sums_of(self, state: ClusterState, index_of: Mapping[str, int], taken_at_s: float) -> AssumedSums:
        """Made anew for another state only: between two of them each row adds itself."""
        if self._sums is None or not self._sums.are_of(state, index_of, taken_at_s):
            of_names = np.array([index_of.get(name, GONE) for name in self._nodes], dtype=np.int64)
            of_rows = of_names[self._table[rows.NODE].astype(np.int64)]
            places = np.where(self._table[rows.UNTIL_S] > _FREE, of_rows, GONE)
            self._sums = AssumedSums(state, index_of, taken_at_s, self._window_s, self._table, places)
        return self._sums

    def _gpus_left(self, state: ClusterState, index_of: Mapping[str, int], without_row: int | None) -> FloatArray:
        free_milli = state.gpu_free_milli.copy()
        for row in sorted(self._with_gpus - {without_row}):
            place = self._place(row, index_of)
            gpus, gpu_milli = self._table[[rows.GPUS, rows.GPU_MILLI], row]
            chosen = choose_gpus(free_milli[place], gpus, gpu_milli) if place != GONE else 0
            if chosen > 0:
                take_gpus(free_milli[place], chosen, gpu_milli)
        return free_milli

    def _place(self, row: int, index_of: Mapping[str, int]) -> int:
        return index_of.get(self._node_names[int(self._table[rows.NODE, row])], GONE)

    def _is_bound(self, uid: str) -> bool:
        return uid in self._row_of and not self._table[rows.PROVISIONAL, self._row_of[uid]]

    def _write(self, uid: str, node: str, values: tuple[float, ...]) -> None:
        self.version += 1
        if uid not in self._row_of:
            if not self._free:
                count = self._table.shape[1]
                self._free = list(range(count, 2 * count))
                self._table = np.concatenate([self._table, _free_rows(count)], axis=1)
                self._sums = None
            row = self._free.pop()
            self._row_of[uid], self._uid_of[row] = row, uid
        else:
            row = self._row_of[uid]
            self._uncount(row)
        if node not in self._nodes:
            self._nodes[node] = len(self._nodes)
            self._node_names.append(node)
        before_s = self._table[rows.UNTIL_S, row]
        self._table[:, row] = (self._nodes[node], *values)
        if self._table[rows.UNTIL_S, row] != before_s:
            heappush(self._ends, (float(self._table[rows.UNTIL_S, row]), row))
        self._count(row)

    def _drop(self, uid: str) -> None:
        row = self._row_of.pop(uid, None)
        if row is not None:
            self.version += 1
            self._uncount(row)
            self._table[[rows.NODE, rows.UNTIL_S], row] = 0.0, _FREE
            self._free.append(row)
            del self._uid_of[row]
        if not self._row_of:
            self._nodes.clear()  # or the names of removed nodes would stay for ever
            self._node_names.clear()
            self._sums = None

    def _count(self, row: int) -> None:
        if self._table[rows.PROVISIONAL, row] and self._table[rows.GPUS, row]:
            self._with_gpus.add(row)
        if self._table[rows.LEFT_S, row] < RUNS:
            self._left.add(row)
        if self._sums is not None:
            self._sums.put(row, self._table[:, row], self._place(row, self._sums.index_of))

    def _uncount(self, row: int) -> None:
        self._with_gpus.discard(row)
        self._left.discard(row)
        if (app := self._app_of.pop(row, None)) is not None:
            self._rows_of_app[app].discard(row)
            if not self._rows_of_app[app]:
                del self._rows_of_app[app]
        if self._sums is not None:
            self._sums.remove(row)

    def _expire(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s:
            _, row = heappop(self._ends)
            if _FREE < self._table[rows.UNTIL_S, row] <= now_s:  # else it was written again, or left
                self._drop(self._uid_of[row])


def _free_rows(count: int) -> FloatArray:
    table = np.zeros((COLUMNS, count))
    table[rows.UNTIL_S] = _FREE
    return table

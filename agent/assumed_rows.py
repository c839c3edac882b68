"""The rows of agent.assumed, one for each pod that came or went, and what they add to the columns of a state.

A state stays for a tenth of a second or longer and is asked about for every pod. Rows are thousands, and between two
questions few of them change. So sums are kept for the newest state, and beside them what each row is in them for: a row
that changes is taken out and put in again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agent.cluster import ClusterState, FloatArray, IntArray
from agent.pending import pending_weight

# Columns of the table of rows. A node is a number: comparing names pod by pod is what would cost time.
NODE, PROVISIONAL, SINCE_S, LEFT_S, UNTIL_S = range(5)  # provisional: 1 while the watch lacks the pod, else 0
CPU_REQUEST, MEMORY_REQUEST, GPUS, GPU_MILLI = range(5, 9)
CPU, MEMORY, RX, TX = range(9, 13)  # expected use
COLUMNS = 13
RUNS = np.inf  # LEFT_S of a pod that is still there
GONE = -1  # the place of a node that the state does not have

# Columns of the state that are added to, in the order of ``_amounts``, and what was measured of the same.
_ADDED_TO = {
    "cpu_requested_millicores": None,
    "memory_requested_mib": None,
    "pods_running": None,
    "pending_cpu_millicores": "cpu_used_millicores",
    "pending_memory_mib": "memory_used_mib",
    "pending_rx_mbps": "rx_mbps",
    "pending_tx_mbps": "tx_mbps",
    "pending_pods": None,
}


class AssumedSums:
    """Of one state, whose ages are those of ``taken_at_s``; ``window_s`` is that of the metrics' rates."""

    def __init__(
        self,
        state: ClusterState,
        index_of: Mapping[str, int],
        taken_at_s: float,
        window_s: float,
        rows: FloatArray,  # (columns, rows), the free ones too
        places: IntArray,  # of their nodes in the state; GONE for the free ones
    ) -> None:
        self.index_of = index_of
        self._state = state
        self._taken_at_s = taken_at_s
        ages_s = np.array([state.cpu_age_s, state.memory_age_s, state.network_age_s])
        self._sampled_at_s = taken_at_s - np.maximum(ages_s, 0.0)
        self._windows_s = np.array([window_s, 0.0, window_s])  # memory is a gauge: its window is a moment
        self._places = places
        self._amounts = _amounts(rows, _missing(rows, self._sampled_at_s[:, places], self._windows_s[:, None]))
        there = places != GONE
        totals = [np.bincount(places[there], each[there], state.node_count) for each in self._amounts]
        self._sums = np.array(totals, dtype=np.float64)  # of no rows bincount makes integers
        self._least = np.zeros_like(self._sums)  # no more can go than was measured
        for least, measured in zip(self._least, _ADDED_TO.values(), strict=True):
            if measured is not None:
                np.negative(np.nan_to_num(getattr(state, measured)), out=least)

    def are_of(self, state: ClusterState, index_of: Mapping[str, int], taken_at_s: float) -> bool:
        return self._state is state and self.index_of is index_of and self._taken_at_s == taken_at_s

    def columns(self, without_row: int | None = None) -> dict[str, FloatArray]:
        """The columns of the state with these placements."""
        sums = self._sums
        if without_row is not None and self._places[without_row] != GONE:
            sums = sums.copy()
            sums[:, self._places[without_row]] -= self._amounts[:, without_row]
        sums = np.maximum(sums, self._least)  # what was added and taken out again can leave less than nothing, too
        return {name: getattr(self._state, name) + added for name, added in zip(_ADDED_TO, sums, strict=True)}

    def put(self, number: int, row: FloatArray, place: int) -> None:
        """The row of this number, which is not counted, is here now."""
        self._places[number] = place
        if place != GONE:
            missing = _missing(row, self._sampled_at_s[:, place], self._windows_s)
            amounts = _amounts(row.tolist(), missing.tolist())  # plain numbers: there are few of them
            self._amounts[:, number] = amounts
            self._sums[:, place] += amounts

    def remove(self, number: int) -> None:
        place = self._places[number]
        if place != GONE:
            self._sums[:, place] -= self._amounts[:, number]
            self._places[number] = GONE


def _missing(rows: FloatArray, sampled_at_s: FloatArray, windows_s: FloatArray) -> FloatArray:
    """Share of the use of each row that the metrics lack; below 0 where they show some of a pod that has left."""
    missing = pending_weight(rows[SINCE_S], sampled_at_s, windows_s)
    return missing - np.where(rows[LEFT_S] < RUNS, pending_weight(rows[LEFT_S], sampled_at_s, windows_s), 0.0)


def _amounts(rows: Any, missing: Any) -> FloatArray:
    """Requests that the watch lacks, use that the metrics lack (``missing`` of CPU, memory, network): of one row, or of
    many, ``(columns of the state, rows)``."""
    provisional, (cpu, memory, network) = rows[PROVISIONAL], missing
    return np.array(
        [
            provisional * rows[CPU_REQUEST],
            provisional * rows[MEMORY_REQUEST],
            provisional,
            cpu * rows[CPU],
            memory * rows[MEMORY],
            network * rows[RX],
            network * rows[TX],
            np.maximum(network, 0.0),
        ]
    )

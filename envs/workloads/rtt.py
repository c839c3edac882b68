"""Measured round-trip times between zones and regions, as a square matrix.

A pair is published once per direction and per weekly snapshot. Both directions are averaged, because a
round trip covers both and ``ClusterState.zone_rtt_ms`` is symmetric, and the median over the snapshots is
taken, so that one odd week does not matter. Between regions the two directions differ by about 1 ms; between
zones not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.cluster import FloatArray, IntArray
from agent.errors import InputError
from envs.workloads.csv_rows import Columns, Number, Text, Texts, read_rows

INTER_ZONE_FILE = "latency/rtt_inter_az.csv"
INTER_REGION_FILE = "latency/rtt_inter_region.csv"

_MAX_RTT_MS = 60_000.0
_RTT = Number(minimum=0, maximum=_MAX_RTT_MS)


@dataclass(frozen=True, slots=True)
class RttTable:
    """Names, and the round trip between any two of them, ``(places, places)``; NaN where not measured."""

    places: tuple[str, ...]
    rtt_ms: FloatArray
    bad_rows: int = 0


def read_inter_zone(path: Path, skip_bad: bool = False) -> dict[str, RttTable]:
    """The zones of every region."""
    columns: Columns = {"snapshot": Text(), "region": Text(), "zone_a": Text(), "zone_b": Text(), "rtt_ms": _RTT}
    table = read_rows(path, columns, skip_bad)
    region, rtt_ms = table.texts("region"), table.floats("rtt_ms")
    ends = table.texts("zone_a"), table.texts("zone_b")
    return {
        name: _symmetric(ends[0][region == name], ends[1][region == name], rtt_ms[region == name], table.bad_rows)
        for name in np.unique(region).tolist()
    }


def read_inter_region(path: Path, skip_bad: bool = False) -> RttTable:
    """Regions; the diagonal is not published and stays NaN."""
    columns: Columns = {"snapshot": Text(), "region_a": Text(), "region_b": Text(), "rtt_ms": _RTT}
    table = read_rows(path, columns, skip_bad)
    return _symmetric(table.texts("region_a"), table.texts("region_b"), table.floats("rtt_ms"), table.bad_rows)


def zone_rtt_matrix(regions: dict[str, RttTable], zones: int, rng: np.random.Generator) -> FloatArray:
    """The zones of one region drawn at random among those that have enough."""
    fitting = sorted(name for name, table in regions.items() if len(table.places) >= zones)
    if not fitting:
        most = max((len(table.places) for table in regions.values()), default=0)
        raise InputError(f"no region has {zones} zones with measured round trips; the most is {most}")
    table = regions[fitting[rng.integers(len(fitting))]]
    chosen = rng.permutation(len(table.places))[:zones]
    return _complete(table, chosen)


def region_rtt_matrix(table: RttTable, regions: int, own_ms: float, rng: np.random.Generator) -> FloatArray:
    """Some regions as far zones (an edge or multi-cluster world); ``own_ms`` is the round trip within one."""
    if regions > len(table.places):
        raise InputError(f"{regions} regions asked, {len(table.places)} have measured round trips")
    matrix = table.rtt_ms.copy()
    np.fill_diagonal(matrix, own_ms)
    return _complete(RttTable(table.places, matrix), rng.permutation(len(table.places))[:regions])


def _symmetric(a: Texts, b: Texts, rtt_ms: FloatArray, bad_rows: int) -> RttTable:
    places = tuple(np.unique(np.concatenate([a, b])).tolist())
    matrix = np.full((len(places), len(places)), np.nan)
    for i, one in enumerate(places):
        for j, other in enumerate(places):
            between = rtt_ms[(a == one) & (b == other)]
            if len(between):
                matrix[i, j] = np.median(between)
    both = np.where(np.isnan(matrix.T), matrix, np.where(np.isnan(matrix), matrix.T, (matrix + matrix.T) / 2))
    return RttTable(places, both, bad_rows)


def _complete(table: RttTable, chosen: IntArray) -> FloatArray:
    matrix = table.rtt_ms[np.ix_(chosen, chosen)]
    if np.isnan(matrix).any():
        i, j = np.argwhere(np.isnan(matrix))[0]
        raise InputError(f"no round trip between {table.places[chosen[i]]} and {table.places[chosen[j]]} was measured")
    return matrix

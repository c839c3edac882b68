"""Nezha: metrics of Kubernetes pods of two microservice systems, one sample a minute, with their call graph.

The load is light, so its use here is the shape of the load over time, which is why ``app_load`` returns
multiples of the mean. Latencies are empty for services without calls and stay NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.cluster import FloatArray, IntArray
from agent.errors import InputError
from envs.workloads.csv_rows import Columns, Integer, Number, Text, read_rows
from envs.workloads.series import AppLoad, choose, filled_forward, pivot, steps_for, window

PODS_FILES = ("k8s_nezha/onlineboutique_2022-08-22_pods.csv.gz", "k8s_nezha/trainticket_2023-01-29_pods.csv.gz")
CALLS_FILE = "k8s_nezha/onlineboutique_2022-08-22_calls.csv"
PLACEMENT_FILE = "k8s_nezha/onlineboutique_2022-08-22_placement.csv"
EDGES_FILE = "k8s_nezha/onlineboutique_2022-08-22_edge_p50_source.csv.gz"
STEP_S = 60.0

_MBPS_PER_BPS = 8 / 1_000_000  # bytes to megabits
_AMOUNT = Number(minimum=0)
_LATENCY = Number(minimum=0, empty=np.nan)
_POD_COLUMNS: Columns = {
    "ts": Integer(0),
    "service": Text(),
    "cpu_m": _AMOUNT,
    "cpu_pct_of_limit": _AMOUNT,
    "mem_mib": _AMOUNT,
    "mem_pct_of_limit": _AMOUNT,
    "rx_Bps": _AMOUNT,
    "tx_Bps": _AMOUNT,
    "server_p90_s": _LATENCY,
    "server_p99_s": _LATENCY,
    "ops": _AMOUNT,
    "node_cpu_pct": _AMOUNT,
    "node_mem_pct": _AMOUNT,
}
_MAX_SAMPLES_APART = 20  # a grid more than so many times larger than its samples has a wrong time in it


@dataclass(frozen=True, slots=True)
class PodMetrics:
    """Services over time, one pod each; series are ``(steps, services)``, NaN where there is no sample."""

    step_s: float
    start_s: float  # unix time
    services: tuple[str, ...]
    cpu_millicores: FloatArray
    cpu_limit_ratio: FloatArray
    memory_mib: FloatArray
    memory_limit_ratio: FloatArray
    rx_mbps: FloatArray
    tx_mbps: FloatArray
    server_p90_ms: FloatArray
    server_p99_ms: FloatArray
    requests_per_s: FloatArray
    node_cpu_ratio: FloatArray
    node_memory_ratio: FloatArray
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class EdgeLatency:
    """Median latency of every call over time, one row a sample."""

    ts_s: FloatArray
    caller: tuple[str, ...]
    callee: tuple[str, ...]
    p50_ms: FloatArray
    bad_rows: int = 0


def read_pod_metrics(path: Path, skip_bad: bool = False) -> PodMetrics:
    table = read_rows(path, _POD_COLUMNS, skip_bad)
    if not table.rows:
        raise InputError(f"{path}: no samples")
    names, column = np.unique(table.texts("service"), return_inverse=True)
    start_s, step = _minutes(table.floats("ts"))
    shape = (int(step.max()) + 1, len(names))
    if shape[0] * shape[1] > _MAX_SAMPLES_APART * table.rows:
        raise InputError(f"{path}: column 'ts' spans {shape[0]} minutes for {table.rows} samples; is one wrong?")

    def grid(name: str, factor: float = 1.0) -> FloatArray:
        return pivot(step, column, table.floats(name), shape) * factor

    return PodMetrics(
        step_s=STEP_S,
        start_s=start_s,
        services=tuple(names.tolist()),
        cpu_millicores=grid("cpu_m"),
        cpu_limit_ratio=grid("cpu_pct_of_limit", 0.01),
        memory_mib=grid("mem_mib"),
        memory_limit_ratio=grid("mem_pct_of_limit", 0.01),
        rx_mbps=grid("rx_Bps", _MBPS_PER_BPS),
        tx_mbps=grid("tx_Bps", _MBPS_PER_BPS),
        server_p90_ms=grid("server_p90_s", 1_000),
        server_p99_ms=grid("server_p99_s", 1_000),
        requests_per_s=grid("ops"),
        node_cpu_ratio=grid("node_cpu_pct", 0.01),
        node_memory_ratio=grid("node_mem_pct", 0.01),
        bad_rows=table.bad_rows,
    )


def read_calls(path: Path, skip_bad: bool = False) -> tuple[tuple[str, str], ...]:
    """Which service calls which."""
    table = read_rows(path, {"caller": Text(), "callee": Text()}, skip_bad)
    return tuple(zip(table.texts("caller").tolist(), table.texts("callee").tolist(), strict=True))


def read_placement(path: Path, skip_bad: bool = False) -> dict[str, str]:
    """On which node each service ran."""
    table = read_rows(path, {"service": Text(), "node": Text()}, skip_bad)
    return dict(zip(table.texts("service").tolist(), table.texts("node").tolist(), strict=True))


def read_edges(path: Path, skip_bad: bool = False) -> EdgeLatency:
    """The source states no unit; seconds is presumed, as for the pods."""
    columns: Columns = {"ts": Integer(0), "caller": Text(), "callee": Text(), "p50_s": _LATENCY}
    table = read_rows(path, columns, skip_bad)
    return EdgeLatency(
        ts_s=table.floats("ts"),
        caller=tuple(table.texts("caller").tolist()),
        callee=tuple(table.texts("callee").tolist()),
        p50_ms=table.floats("p50_s") * 1_000,
        bad_rows=table.bad_rows,
    )


def app_load(metrics: PodMetrics, apps: int, horizon_s: float, rng: np.random.Generator) -> AppLoad:
    """Each app takes the shape of one service: its requests, or its traffic where it has no requests."""
    busy = np.nan_to_num(np.nanmean(metrics.requests_per_s, axis=0)) > 0
    shape = np.where(busy, metrics.requests_per_s, metrics.rx_mbps + metrics.tx_mbps)
    usable = np.flatnonzero(np.nan_to_num(np.nanmean(shape, axis=0)) > 0)
    if not len(usable):
        raise InputError("no service of the pod metrics has requests or traffic")
    column = usable[choose(len(usable), apps, rng)]
    row = window(len(shape), steps_for(horizon_s, metrics.step_s), rng)
    full, _ = filled_forward(shape[:, column])
    return AppLoad(metrics.step_s, full[row] / full.mean(axis=0))


def _minutes(ts_s: FloatArray) -> tuple[float, IntArray]:
    """Samples of one scrape arrive within a second or two; rounding puts them into one step."""
    start_s = float(ts_s.min())
    return start_s, np.rint((ts_s - start_s) / STEP_S).astype(np.int64)

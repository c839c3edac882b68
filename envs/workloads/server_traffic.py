"""Zhejiang Lab cluster traces: NIC traffic of GPU servers in ten-second bins.

Training jobs move many servers together and leave others idle, which no VM trace shows. Only traffic is
measured, so the background it gives has no CPU load. Attribution and change notice: docs/traces.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.cluster import FloatArray, IntArray
from agent.errors import InputError
from envs.workloads.csv_rows import Integer, Number, Text, read_rows
from envs.workloads.series import BackgroundSeries, choose, filled_forward, pivot, refuse_repeats, steps_for, window

TRAFFIC_FILE = "gpu_cluster_net/zhejiang_server_traffic_10s.csv.gz"
SERVERS_FILE = "gpu_cluster_net/zhejiang_servers.csv"
STEP_S = 10.0

_MBPS_PER_GBPS = 1_000.0
_MAX_T_S = 10_000_000
_RATE = Number(minimum=0)


@dataclass(frozen=True, slots=True)
class ServerTraffic:
    """Servers over time; series are ``(steps, servers)``."""

    step_s: float
    servers: tuple[str, ...]
    leaf_group: IntArray  # the leaf switches a server hangs on: a rack-like domain
    nic_mbps: FloatArray
    rx_mbps: FloatArray
    tx_mbps: FloatArray
    bad_rows: int = 0


def read_server_traffic(traffic: Path, servers: Path, skip_bad: bool = False) -> ServerTraffic:
    samples = read_rows(
        traffic,
        {"server": Text(), "t_s": Number(0, _MAX_T_S), "rx_gbps": _RATE, "tx_gbps": _RATE},
        skip_bad,
    )
    machines = read_rows(
        servers, {"server": Text(), "leaf_group": Integer(0), "nic_gbps": Number(minimum=1e-6)}, skip_bad
    )
    unknown = ~np.isin(samples.texts("server"), machines.texts("server"))
    samples = samples.without(unknown, "server", f"has no row in {servers}")
    if not samples.rows:
        raise InputError(f"{traffic}: no samples")
    names, column = np.unique(samples.texts("server"), return_inverse=True)
    row_of = {name: row for row, name in enumerate(machines.texts("server").tolist())}
    step = (samples.floats("t_s") // STEP_S).astype(np.int64)
    shape = (int(step.max()) + 1, len(names))
    refuse_repeats(str(traffic), step, column, tuple(names.tolist()), shape[0])
    row = [row_of[name] for name in names.tolist()]
    return ServerTraffic(
        step_s=STEP_S,
        servers=tuple(names.tolist()),
        leaf_group=machines.ints("leaf_group")[row],
        nic_mbps=machines.floats("nic_gbps")[row] * _MBPS_PER_GBPS,
        rx_mbps=filled_forward(pivot(step, column, samples.floats("rx_gbps"), shape))[0] * _MBPS_PER_GBPS,
        tx_mbps=filled_forward(pivot(step, column, samples.floats("tx_gbps"), shape))[0] * _MBPS_PER_GBPS,
        bad_rows=samples.bad_rows + machines.bad_rows,
    )


def background_from_server_traffic(
    trace: ServerTraffic, nodes: int, horizon_s: float, rng: np.random.Generator
) -> BackgroundSeries:
    """Each node takes the traffic of one server as a share of its NIC, all from the same stretch of time."""
    column = choose(len(trace.servers), nodes, rng)
    row = window(len(trace.rx_mbps), steps_for(horizon_s, trace.step_s), rng)
    cells = np.ix_(row, column)
    return BackgroundSeries(
        step_s=trace.step_s,
        cpu_ratio=np.zeros((len(row), nodes)),  # not measured
        rx_ratio=np.clip(trace.rx_mbps[cells] / trace.nic_mbps[column], 0, 1),
        tx_ratio=np.clip(trace.tx_mbps[cells] / trace.nic_mbps[column], 0, 1),
    )

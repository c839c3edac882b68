"""GWA-T-12 Bitbrains: CPU, memory and network of business VMs, sampled every five minutes.

Two forms are read. The cut form is one table of all VMs on a common grid and one table of the VMs. The
published form is a folder with one ``;``-separated file per VM. Its header promises milliseconds, but the
values are seconds; a value too large to be seconds is still taken for milliseconds, in case a copy is mended.

CPU is a share of what the VM was given and may pass it a little. Memory is active memory, far below what
was given. The source names no NIC speed, so traffic stays in Mb/s until a node's NIC is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.cluster import BoolArray, FloatArray
from agent.errors import InputError
from envs.workloads.csv_rows import Columns, Integer, Number, Table, read_rows
from envs.workloads.series import BackgroundSeries, choose, filled_forward, pivot, refuse_repeats, steps_for, window

SERIES_FILE = "bitbrains/rnd_2013-08-05_14d_series.csv.gz"
VMS_FILE = "bitbrains/rnd_2013-08-05_14d_vms.csv"
STEP_S = 300.0
NIC_MBPS = 1_000.0  # what a host of that time commonly had; the trace does not say

_MBPS_PER_KBPS = 8 / 1_000  # kilobytes to megabits
_MIB_PER_KB = 1 / 1_024
_FIRST_MILLISECONDS = 10**11  # as seconds this is the year 5138
_MAX_STEPS = 1_000_000
_AMOUNT = Number(minimum=0)

_SERIES_COLUMNS: Columns = {
    "vm": Integer(0),
    "step": Integer(0, _MAX_STEPS),
    "cpu_pct": _AMOUNT,
    "mem_used_mib": _AMOUNT,
    "net_rx_kBps": _AMOUNT,
    "net_tx_kBps": _AMOUNT,
    "filled": Integer(0, 1),
}
_VM_COLUMNS: Columns = {"vm": Integer(0), "cpu_cores": Integer(1), "cpu_cap_mhz": _AMOUNT, "mem_cap_mib": _AMOUNT}
_UPSTREAM_COLUMNS: Columns = {
    "Timestamp [ms]": Integer(0),
    "CPU cores": Integer(0),
    "CPU capacity provisioned [MHZ]": _AMOUNT,
    "CPU usage [%]": _AMOUNT,
    "Memory capacity provisioned [KB]": _AMOUNT,
    "Memory usage [KB]": _AMOUNT,
    "Network received throughput [KB/s]": _AMOUNT,
    "Network transmitted throughput [KB/s]": _AMOUNT,
}


@dataclass(frozen=True, slots=True)
class VmTrace:
    """VMs over time; series are ``(steps, vms)``."""

    step_s: float
    vms: tuple[str, ...]
    cpu_cores: FloatArray
    cpu_capacity_mhz: FloatArray
    memory_capacity_mib: FloatArray
    cpu_ratio: FloatArray  # of the VM's capacity; can pass 1
    memory_used_mib: FloatArray
    rx_mbps: FloatArray
    tx_mbps: FloatArray
    filled: BoolArray  # no sample in this step: the last one repeated
    bad_rows: int = 0


def read_bitbrains(series: Path, vms: Path, skip_bad: bool = False) -> VmTrace:
    """The cut form: a table of samples, and a table of VMs."""
    samples = read_rows(series, _SERIES_COLUMNS, skip_bad)
    machines = read_rows(vms, _VM_COLUMNS, skip_bad)
    samples = samples.without(~np.isin(samples.ints("vm"), machines.ints("vm")), "vm", f"has no row in {vms}")
    known, column = np.unique(samples.ints("vm"), return_inverse=True)
    step = samples.ints("step")
    steps = int(step.max(initial=-1)) + 1
    _refuse_sparse(series, samples.rows, steps * len(known))
    names = tuple(f"vm {vm}" for vm in known)
    refuse_repeats(str(series), step, column, names, steps)
    grids = {
        name: filled_forward(pivot(step, column, samples.floats(name), (steps, len(known))))
        for name in ("cpu_pct", "mem_used_mib", "net_rx_kBps", "net_tx_kBps", "filled")
    }
    row_of = {vm: row for row, vm in enumerate(machines.ints("vm").tolist())}
    row = [row_of[vm] for vm in known.tolist()]
    return VmTrace(
        step_s=STEP_S,
        vms=tuple(str(vm) for vm in known),
        cpu_cores=machines.floats("cpu_cores")[row],
        cpu_capacity_mhz=machines.floats("cpu_cap_mhz")[row],
        memory_capacity_mib=machines.floats("mem_cap_mib")[row],
        cpu_ratio=grids["cpu_pct"][0] / 100,
        memory_used_mib=grids["mem_used_mib"][0],
        rx_mbps=grids["net_rx_kBps"][0] * _MBPS_PER_KBPS,
        tx_mbps=grids["net_tx_kBps"][0] * _MBPS_PER_KBPS,
        filled=(grids["filled"][0] > 0) | grids["cpu_pct"][1],
        bad_rows=samples.bad_rows + machines.bad_rows,
    )


def read_bitbrains_upstream(folder: Path, skip_bad: bool = False) -> VmTrace:
    """The published form: one file per VM, on the grid that spans all of them."""
    paths = sorted(folder.glob("*.csv"), key=lambda path: (len(path.stem), path.stem))
    if not paths:
        raise InputError(f"{folder}: no .csv file; expected one per VM, as GWA-T-12 Bitbrains publishes them")
    tables = [read_rows(path, _UPSTREAM_COLUMNS, skip_bad, delimiter=";") for path in paths]
    tables = [table for table in tables if table.rows]
    if not tables:
        raise InputError(f"{folder}: no VM has a sample")
    seconds = [_seconds(table) for table in tables]
    start_s = min(float(s.min()) for s in seconds)
    steps = int((max(float(s.max()) for s in seconds) - start_s) // STEP_S) + 1
    _refuse_sparse(folder, sum(table.rows for table in tables), steps * len(tables))
    indices = [((s - start_s) // STEP_S).astype(np.int64) for s in seconds]

    def grid(name: str) -> tuple[FloatArray, BoolArray]:
        columns = [
            pivot(index, np.zeros_like(index), table.floats(name), (steps, 1))
            for index, table in zip(indices, tables, strict=True)
        ]
        return filled_forward(np.hstack(columns))

    def median(name: str) -> FloatArray:
        return np.array([np.median(table.floats(name)) for table in tables])

    cpu_pct, filled = grid("CPU usage [%]")
    return VmTrace(
        step_s=STEP_S,
        vms=tuple(table.path.stem for table in tables),
        cpu_cores=median("CPU cores"),
        cpu_capacity_mhz=median("CPU capacity provisioned [MHZ]"),
        memory_capacity_mib=median("Memory capacity provisioned [KB]") * _MIB_PER_KB,
        cpu_ratio=cpu_pct / 100,
        memory_used_mib=grid("Memory usage [KB]")[0] * _MIB_PER_KB,
        rx_mbps=grid("Network received throughput [KB/s]")[0] * _MBPS_PER_KBPS,
        tx_mbps=grid("Network transmitted throughput [KB/s]")[0] * _MBPS_PER_KBPS,
        filled=filled,
        bad_rows=sum(table.bad_rows for table in tables),
    )


def background_from_bitbrains(
    trace: VmTrace, nodes: int, horizon_s: float, rng: np.random.Generator, nic_mbps: float = NIC_MBPS
) -> BackgroundSeries:
    """Each node takes the load of one VM, all from the same stretch of time, so that days stay aligned."""
    column = choose(len(trace.vms), nodes, rng)
    row = window(len(trace.cpu_ratio), steps_for(horizon_s, trace.step_s), rng)
    cells = np.ix_(row, column)
    return BackgroundSeries(
        step_s=trace.step_s,
        cpu_ratio=np.clip(trace.cpu_ratio[cells], 0, 1),
        rx_ratio=np.clip(trace.rx_mbps[cells] / nic_mbps, 0, 1),
        tx_ratio=np.clip(trace.tx_mbps[cells] / nic_mbps, 0, 1),
    )


def _seconds(table: Table) -> FloatArray:
    stamp = table.floats("Timestamp [ms]")
    return np.where(stamp >= _FIRST_MILLISECONDS, stamp / 1_000, stamp)


def _refuse_sparse(where: Path, rows: int, cells: int) -> None:
    """A stray step number would otherwise ask for a huge, empty grid."""
    if rows == 0:
        raise InputError(f"{where}: no samples")
    if cells > 4 * rows + 1_000:
        raise InputError(f"{where}: {rows} samples are spread over {cells} steps and VMs; is a step or time wrong?")

"""Do the rules of contention hold where no generator was set? Nezha's injected faults are asked.

``python -m envs.workloads.nezha_faults TRACES`` prints what docs/traces.md states. Only ``cpu_contention`` speaks of a
rule of ours: a pod's CPU is driven to its limit, so it must stop there (``contention.carried``) and serve less
(``contention.carried_ratio``). What was asked for beyond the limit is not in the trace, so the size of the loss is not
predicted; its direction is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from agent.cluster import BoolArray, FloatArray
from agent.errors import InputError
from envs.workloads.csv_rows import Integer, Text, read_rows
from envs.workloads.nezha import PODS_FILES, PodMetrics, read_pod_metrics
from envs.workloads.statistics import Figures

KIND = "cpu_contention"
BESIDE_STEPS = 4  # minutes before and after a fault; the next one comes after eight or nine
LEAST_REQUESTS_PER_S = 1.0  # fewer are too few in four minutes to tell a loss from chance


@dataclass(frozen=True, slots=True)
class Fault:
    """One pod whose CPU was contended for, in the minutes before and after."""

    cpu_before_ratio: float  # of its limit
    cpu_peak_ratio: float
    requests_before_per_s: float
    requests_after_per_s: float
    p90_before_ms: float
    p90_after_ms: float


def throttling(traces: Path) -> Figures:
    """What throttling did to the pods of both systems; ``served`` and ``p90`` of those with enough requests."""
    faults: list[Fault] = []
    figures: Figures = {}
    for file in PODS_FILES:
        metrics = read_pod_metrics(traces / file)
        faults += _faults(metrics, traces / file.replace("_pods.csv.gz", "_faults.csv"))
        system = Path(file).name.partition("_")[0]
        figures[f"{system}.above_limit_share"] = _share_above_limit(metrics.cpu_limit_ratio)
    busy = [fault for fault in faults if fault.requests_before_per_s >= LEAST_REQUESTS_PER_S]
    if not busy:
        raise InputError(f"{traces}: no pod with a fault {KIND} has {LEAST_REQUESTS_PER_S:g} request a second")
    served = np.array([fault.requests_after_per_s / fault.requests_before_per_s for fault in busy])
    return {
        **figures,
        "faults": float(len(faults)),
        "cpu_limit_ratio.before.p50": _median(fault.cpu_before_ratio for fault in faults),
        "cpu_limit_ratio.peak.p50": _median(fault.cpu_peak_ratio for fault in faults),
        "served.pods": float(len(busy)),
        "served.p50": float(np.median(served)),
        "served.least": float(served.min()),
        "served.most": float(served.max()),
        "p90_times.p50": _median(fault.p90_after_ms / fault.p90_before_ms for fault in busy),
    }


def _faults(metrics: PodMetrics, path: Path) -> Iterator[Fault]:
    table = read_rows(path, {"ts": Integer(0), "service": Text(), "fault_type": Text()})
    rows = zip(table.floats("ts"), table.texts("service"), table.texts("fault_type"), strict=True)
    steps = np.arange(len(metrics.cpu_limit_ratio))
    for ts_s, service, kind in rows:
        if kind == KIND and service in metrics.services:
            at = (float(ts_s) - metrics.start_s) / metrics.step_s
            before, after = (steps >= at - BESIDE_STEPS) & (steps < at), (steps > at) & (steps <= at + BESIDE_STEPS)
            yield _fault(metrics, metrics.services.index(str(service)), before, after)


def _fault(metrics: PodMetrics, column: int, before: BoolArray, after: BoolArray) -> Fault:
    cpu, requests, p90_ms = (
        series[:, column] for series in (metrics.cpu_limit_ratio, metrics.requests_per_s, metrics.server_p90_ms)
    )
    return Fault(
        cpu_before_ratio=float(np.nanmedian(cpu[before])),
        cpu_peak_ratio=float(np.nanmax(cpu[after])),
        requests_before_per_s=float(np.nanmean(requests[before])),
        requests_after_per_s=float(np.nanmean(requests[after])),
        p90_before_ms=float(np.nanmedian(p90_ms[before])),
        p90_after_ms=float(np.nanmedian(p90_ms[after])),
    )


def _share_above_limit(cpu_limit_ratio: FloatArray) -> float:
    return float((cpu_limit_ratio[~np.isnan(cpu_limit_ratio)] > 1.0).mean())


def _median(values: Iterator[float]) -> float:
    return float(np.median(list(values)))


def main(
    traces: Annotated[Path, typer.Argument(help="Folder with the public traces, as docs/traces.md says.")],
) -> None:
    """What throttling did in Nezha's faults."""
    for name, value in throttling(traces).items():
        typer.echo(f"{name}: {value:.4g}")


if __name__ == "__main__":
    typer.run(main)

"""The published GPU packing table (FGD, ATC '23) repeated with our own simulator and heuristics.

If the baselines do not land on numbers that others published, no comparison with them means anything. Every list
that the published summary names is run; the table goes to docs/benchmarks/fgd.md.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from agent.errors import InputError
from benchmarks.bars import Bar, measured
from benchmarks.report import Origin, origin
from envs.openb_packing import READ_AT_PERCENT, packing_problem, unallocated_percent
from envs.workloads.csv_rows import Columns, Number, Text, read_rows
from envs.workloads.openb import read_openb_nodes, read_openb_pods

SUMMARY = "fgd_published_summary.csv"
NODES = "openb_node_list_gpu_node.csv"
SEEDS = 10
TOLERANCE_POINTS = 1.0
TOLERANCE_SD = 3.0
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "fgd.md"
OUR_POLICY = {"Random": "random", "BestFit": "best_fit", "DotProd": "dot_product", "FGD": "fgd"}


@dataclass(frozen=True, slots=True)
class Published:
    """One published number: unallocated GPU when the requests that arrived equal the capacity."""

    workload: str
    policy: str  # their name
    mean_percent: float
    sd_percent: float


@dataclass(frozen=True, slots=True)
class Cell:
    """A published number beside ours."""

    published: Published
    ours_percent: tuple[float, ...]  # one per seed

    @property
    def mean_percent(self) -> float:
        return float(np.mean(self.ours_percent))

    @property
    def deviation_points(self) -> float:
        return self.mean_percent - self.published.mean_percent

    @property
    def counted_points(self) -> float:
        """Size of the deviation; within 3 published standard deviations it counts as no more than the tolerance."""
        size = abs(self.deviation_points)
        return min(size, TOLERANCE_POINTS) if size <= TOLERANCE_SD * self.published.sd_percent else size


def run(quick: bool, traces: Path | None) -> Iterable[Bar]:
    """Quick: one seed of the first list."""
    folder = _openb_folder(traces)
    published = read_published(folder / SUMMARY)
    if quick:
        published = [entry for entry in published if entry.workload == published[0].workload]
    for entry in published:  # before minutes of work
        _pod_list(folder, entry.workload)
    began, started_s = origin(), time.monotonic()
    cells = list(_measure_all(folder, published, seeds=1 if quick else SEEDS, processes=1 if quick else None))
    minutes = (time.monotonic() - started_s) / 60.0
    if not quick:
        write_page(cells, began, PAGE)
    return [_deviation_bar(cells), measured("minutes", minutes, cores=os.cpu_count(), runs=_runs(cells))]


def read_published(path: Path) -> list[Published]:
    """The rows of our policies at 100 % arrived, in the order of the file."""
    columns: Columns = {
        "workload": Text(),
        "policy": Text(),
        "arrived_gpu_pct": Number(minimum=0),
        "unalloc_gpu_pct_mean": Number(0, 100),
        "unalloc_gpu_pct_sd": Number(minimum=0),
    }
    table = read_rows(path, columns)
    rows = zip(*(table.columns[name].tolist() for name in columns), strict=True)
    found = [Published(w, p, mean, sd) for w, p, at, mean, sd in rows if at == READ_AT_PERCENT and p in OUR_POLICY]
    if not found:
        raise InputError(f"{path}: no row of {', '.join(OUR_POLICY)} at arrived_gpu_pct {READ_AT_PERCENT:g}")
    return found


def measure(folder: Path, published: Published, seeds: int) -> Cell:
    pods = read_openb_pods(_pod_list(folder, published.workload))
    problem = packing_problem(read_openb_nodes(_file(folder, NODES)), pods)
    policy = OUR_POLICY[published.policy]
    return Cell(published, tuple(unallocated_percent(problem, policy, seed) for seed in range(seeds)))


def write_page(cells: Sequence[Cell], began: Origin, page: Path) -> None:
    lines = [
        "# Published GPU packing table, repeated",
        "",
        f"Written by `pilotfish benchmark fgd --traces DIR`: {began}; method and deviations: [gpu.md](../gpu.md).",
        "Unallocated GPU in percent of the capacity when the requests that arrived equal it, over the seeds.",
        "",
        "| list | policy | ours | sd | published | sd | difference |",
        "|---|---|---|---|---|---|---|",
        *(_page_row(cell) for cell in cells),
        "",
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(lines), encoding="utf-8")


def _page_row(cell: Cell) -> str:
    them = cell.published
    ours = f"{cell.mean_percent:.2f} | {np.std(cell.ours_percent):.2f}"
    theirs = f"{them.mean_percent:.2f} | {them.sd_percent:.2f}"
    return f"| {them.workload} | {OUR_POLICY[them.policy]} | {ours} | {theirs} | {cell.deviation_points:+.2f} |"


def _measure_all(folder: Path, published: Sequence[Published], seeds: int, processes: int | None) -> Iterator[Cell]:
    """In the order of the file. New processes, not forked ones: the caller may hold threads."""
    if processes == 1:
        yield from (measure(folder, entry, seeds) for entry in published)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        cells = pool.map(measure, [folder] * len(published), published, [seeds] * len(published))
        yield from track(cells, "packing", len(published), console=Console(stderr=True))


def _deviation_bar(cells: Sequence[Cell]) -> Bar:
    worst = max(cells, key=lambda cell: cell.counted_points)
    return measured(
        "max_deviation_points",
        worst.counted_points,
        list=worst.published.workload,
        policy=worst.published.policy,
        ours=round(worst.mean_percent, 2),
        published=worst.published.mean_percent,
        cells=len(cells),
        seeds=len(worst.ours_percent),
    )


def _runs(cells: Sequence[Cell]) -> int:
    return sum(len(cell.ours_percent) for cell in cells)


def _openb_folder(traces: Path | None) -> Path:
    if traces is None:
        raise InputError("benchmark fgd needs the folder with the public traces: --traces DIR")
    for folder in (traces / "openb", traces):
        if (folder / SUMMARY).is_file():
            return folder
    raise InputError(f"{traces}: no openb/{SUMMARY} here; --traces takes the folder that holds openb/")


def _pod_list(folder: Path, workload: str) -> Path:
    return _file(folder, f"openb_pod_list_{workload}.csv")


def _file(folder: Path, name: str) -> Path:
    """The file, plain or packed."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(f"{folder}: no {name} or {name}.gz, which {SUMMARY} needs")

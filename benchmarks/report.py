"""Runs benchmarks and says what came of them: on the terminal, as JSON lines, or written down in docs/.

``pilotfish benchmark NAME`` shows one. ``make bench`` runs all and keeps dated results with the commit, because a
number that cannot be traced to the code it measured proves nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import typer
from rich.console import Console
from rich.table import Table

from agent.errors import InputError
from benchmarks.bars import Bar, Goal, goals

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent / "docs"
NO_BENCHMARK = {"__init__", "bars", "control_plane", "report"}
SIGNS = {"at_least": "≥", "at_most": "≤"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Which code was measured, when, and on what."""

    date: str
    commit: str
    cores: int | None

    def __str__(self) -> str:
        return f"{self.date}, commit {self.commit}, {self.cores} cores"


class Benchmark(Protocol):
    """What every module of this folder offers."""

    def run(self, quick: bool, traces: Path | None) -> Iterable[Bar]: ...


def names() -> list[str]:
    """Every benchmark that can be run."""
    return sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in NO_BENCHMARK)


def run(name: str, *, quick: bool = False, traces: Path | None = None) -> Iterable[Bar]:
    """The bars of one benchmark, each as soon as it is measured."""
    if name not in names():
        raise InputError(f"no benchmark {name}; there are {', '.join(names())}")
    return _benchmark(name).run(quick=quick, traces=traces)


def _benchmark(name: str) -> Benchmark:
    """Some measure a real control plane, with the harness of the tests."""
    try:
        return cast(Benchmark, importlib.import_module(f"benchmarks.{name}"))
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "tests":
            raise
        where = f"clone it and run `make bench ONLY={name}` there"
        raise InputError(f"the benchmark {name} needs tests/cluster of the repository: {where}") from missing


def show(name: str, *, quick: bool, as_json: bool, traces: Path | None) -> None:
    """Run one benchmark and put its bars on the terminal."""
    bars = run(name, quick=quick, traces=traces)
    if as_json:
        for bar in bars:
            typer.echo(json.dumps(bar.as_json()))
        return
    table = Table(
        "bar", "goal", "measured", "met", "beside", title=f"{name} (quick: proves nothing)" if quick else name
    )
    for bar in bars:
        table.add_row(*_row(bar.as_json()), style=None if bar.met else "bold red")
    Console().print(table)


def keep(name: str, bars: Sequence[Bar], *, day: date, commit: str, docs: Path = DOCS) -> Path:
    """Write one benchmark's bars as JSON lines, named by day and benchmark."""
    file = docs / "benchmarks" / f"{day.isoformat()}-{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    facts = {"benchmark": name, "date": day.isoformat(), "commit": commit, "cores": os.cpu_count()}
    file.write_text("".join(json.dumps(facts | bar.as_json()) + "\n" for bar in bars), encoding="utf-8")
    return file


def write_page(docs: Path = DOCS) -> Path:
    """docs/benchmarks.md: every goal beside the newest result kept for it."""
    lines = ["# Benchmarks", "", "Written by `make bench`; goals come from `benchmarks/goals.yaml`.", ""]
    for name in dict.fromkeys(goal.benchmark for goal in goals().values()):
        lines += _section(name, [goal for goal in goals().values() if goal.benchmark == name], _newest(name, docs))
    page = docs / "benchmarks.md"
    page.write_text("\n".join(lines), encoding="utf-8")
    return page


def _section(name: str, wanted: Sequence[Goal], kept: Mapping[str, dict[str, Any]]) -> list[str]:
    facts = next(iter(kept.values()), None)
    when = Origin(facts["date"], facts["commit"], facts["cores"]) if facts else "not measured yet"
    lines = [f"## {name}", "", f"`pilotfish benchmark {name}`: {when}", ""]
    lines += ["| bar | goal | measured | met | beside |", "|---|---|---|---|---|"]
    for goal in wanted:
        row = _row(kept[goal.bar]) if goal.bar in kept else (goal.bar, _goal(goal.comparison, goal.value), "", "", "")
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _newest(name: str, docs: Path) -> dict[str, dict[str, Any]]:
    """The bars of the newest result kept, by name; file names begin with the day, so they sort by it."""
    files = sorted((docs / "benchmarks").glob(f"????-??-??-{name}.jsonl"))
    rows = [json.loads(line) for line in files[-1].read_text(encoding="utf-8").splitlines()] if files else []
    return {row["bar"]: row for row in rows}


def _row(bar: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    measured = "none" if bar["value"] is None else f"{_number(bar['value'])} {bar['unit']}"
    # What is a table by itself stands in the JSON lines alone.
    plain = {key: value for key, value in bar["beside"].items() if not isinstance(value, dict)}
    beside = ", ".join(f"{key} {value}" for key, value in plain.items())
    return bar["bar"], _goal(bar["comparison"], bar["goal"]), measured, "yes" if bar["met"] else "no", beside


def _goal(comparison: str, value: float) -> str:
    return f"{SIGNS[comparison]} {_number(value)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def origin() -> Origin:
    """To be asked for when a run begins."""
    return Origin(datetime.now(UTC).date().isoformat(), measured_commit(), os.cpu_count())


@cache
def measured_commit() -> str:
    """The commit that is measured, marked when the tree holds more than it.

    It is that of the first question: what a run itself writes into the tree was not measured.
    """
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    answer = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "none"


def main(
    which: Annotated[list[str] | None, typer.Argument(help="Names; all of them if not given.")] = None,
    traces: Annotated[Path | None, typer.Option(help="The folder with the public traces.")] = None,
) -> None:
    """Run benchmarks, keep the results, write the page."""
    console = Console()
    commit = measured_commit()
    for name in which or names():
        try:
            bars = list(run(name, traces=traces))
        except InputError as why:
            console.print(f"{name} skipped: {why}")
            continue
        console.print(f"{name}: {keep(name, bars, day=datetime.now(UTC).date(), commit=commit)}")
    console.print(f"{write_page()}")


if __name__ == "__main__":
    typer.run(main)

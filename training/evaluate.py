"""``pilotfish evaluate``: a model against every baseline, on the same arrivals, as it is served."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agent.errors import InputError
from envs.workloads.replay import TraceFolder
from envs.workloads.scenario import Scenario, load_scenario, scenario_names
from training.comparison import Comparison
from training.config import FIRST_HELD_OUT_SEED
from training.contestants import Contestant, baselines, models_named
from training.episodes import NONE, Handicap, Outcome, joined, pieces_of
from training.evaluation_jobs import Done, play_all
from training.evaluation_tables import show_comparison, show_summary, wide_console
from training.worlds import make_world, open_traces, provenance


@dataclass(frozen=True, slots=True)
class Exam:
    """What is played, and where."""

    episodes: int = 50
    seed: int = FIRST_HELD_OUT_SEED
    traces: Path | None = None
    skip_bad: bool = False
    ray_address: str | None = None


def run(
    models: Sequence[str],
    *,
    scenarios: Sequence[str],
    exam: Exam,
    as_json: bool = False,
    report: Path | None = None,
) -> None:
    contestants = line_up(models)
    worlds = [load_scenario(name) for name in scenarios or scenario_names()]
    folder = open_traces(exam.traces, exam.skip_bad)
    if report is not None:
        _refuse_unwritable(report)
    found, console = [], wide_console()
    for world in worlds:
        found.append(compare(contestants, world, exam, folder, sample=report is not None))
        if as_json:
            typer.echo(json.dumps(found[-1].as_json(), allow_nan=False))
        else:
            show_comparison(found[-1], console)
    if not as_json:
        show_summary(found, console)
    if report is not None:
        from training.report import write_report

        write_report(report, found, worlds, exam)


def line_up(models: Sequence[str]) -> tuple[Contestant, ...]:
    """The models first, then every baseline that is not one of them."""
    first = models_named(models)
    named = {each.name for each in first}
    if len(named) < len(first):
        raise InputError(f"two models of one name: {', '.join(each.name for each in first)}")
    return (*first, *(each for each in baselines() if each.name not in named))


def compare(
    contestants: Sequence[Contestant],
    scenario: Scenario,
    exam: Exam,
    folder: TraceFolder | None = None,
    handicap: Handicap = NONE,
    sample: bool = False,
) -> Comparison:
    """All contestants on the same episodes of one scenario."""
    playing = tuple(each for each in contestants if each.plays(scenario.name))
    outcomes = outcomes_of(playing, scenario, exam, handicap, sample)
    if folder is not None:  # workers may have read the files: here they are only named
        for index in range(exam.episodes):
            make_world(scenario, exam.seed, index, folder)
    return Comparison(provenance(scenario, exam.seed, folder), playing, outcomes)


def outcomes_of(
    contestants: Sequence[Contestant],
    scenario: Scenario,
    exam: Exam,
    handicap: Handicap = NONE,
    sample: bool = False,
) -> dict[str, Outcome]:
    pieces = pieces_of(
        contestants, scenario, exam.seed, exam.episodes, exam.traces, exam.skip_bad, handicap=handicap, sample=sample
    )
    with progress_of(scenario.name, len(pieces)) as done:
        parts = play_all(pieces, exam.ray_address, done)
    by_name: dict[str, list[Outcome]] = {each.name: [] for each in contestants}
    for piece, part in zip(pieces, parts, strict=True):
        by_name[piece.contestant.name].append(part)
    return {name: joined(some) for name, some in by_name.items()}


@contextmanager
def progress_of(what: str, total: float) -> Iterator[Done]:
    """A bar beside the result, and only where somebody watches."""
    beside = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=beside, transient=True, disable=not beside.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _refuse_unwritable(report: Path) -> None:
    """Before the episodes are played, not after."""
    if report.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--report {report}: the name must end with .html")
    if report.is_dir() or not report.absolute().parent.is_dir():
        raise InputError(f"--report {report}: no file can be written there")

"""``pilotfish simulate``: what a policy costs in a simulated cluster."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agent.errors import InputError
from agent.heuristics.registry import scorer_by_name
from agent.scorer import Scorer
from envs.dynamics.costs import TERMS
from envs.rewards import dollars
from envs.workloads.replay import TraceFolder
from envs.workloads.scenario import Scenario, load_scenario
from training.play import Played, play
from training.statistics import half_width_95
from training.worlds import make_world, make_worlds, open_traces, provenance


def run(
    scenario: str,
    *,
    policy: str,
    episodes: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
    traces: Path | None,
    skip_bad: bool = False,
) -> None:
    world, scorer, folder = load_scenario(scenario), scorer_by_name(policy), open_traces(traces, skip_bad)
    if plot is not None:
        _refuse_unwritable(plot)
    with _progress() as bar:
        task = bar.add_task(f"{policy} in {world.name}", total=1.0)
        tape = make_worlds(world, seed, episodes, folder)
        played = play(scorer, tape, seed, progress=lambda share: bar.update(task, completed=share))
    if folder is not None and folder.bad_rows:
        Console(stderr=True).print(f"malformed rows of the traces left out: {folder.bad_rows}")
    result = {"policy": policy, "episodes": episodes, **provenance(world, seed, folder), **summary(played)}
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
    else:
        _show(result, Console())
    if plot is not None:
        _draw(world, scorer, seed, folder, plot)


def summary(played: Played) -> dict[str, Any]:
    """Dollars an hour with the half width of the 95 % interval, and every term in its own unit and in dollars."""
    cost, terms = played.cost_per_hour, played.terms_per_hour
    return {
        "cost": {"mean": float(cost.mean()), "ci95": _known(half_width_95(cost)), "unit": "USD/h"},
        "terms": {
            name: {"mean": float(terms[:, index].mean()), "unit": f"{unit}, per hour", "usd_per_hour": float(usd)}
            for index, ((name, unit), usd) in enumerate(zip(TERMS.items(), dollars(terms).mean(axis=0), strict=True))
        },
        "decisions": int(played.decisions.sum()),
    }


def _known(value: float) -> float | None:
    """JSON has no NaN: what one episode cannot tell is null."""
    return None if math.isnan(value) else value


def _show(result: dict[str, Any], console: Console) -> None:
    cost = result["cost"]
    spread = "" if cost["ci95"] is None else f" ± {cost['ci95']:.3f}"
    table = Table(title=f"{result['policy']} in {result['scenario']}: {cost['mean']:.3f}{spread} USD/h")
    table.add_column("term")
    table.add_column("an hour", justify="right")
    table.add_column("unit")
    table.add_column("USD/h", justify="right")
    for name, term in result["terms"].items():
        unit = term["unit"].removesuffix(", per hour")
        table.add_row(name, f"{term['mean']:.3f}", unit, f"{term['usd_per_hour']:.4f}")
    console.print(table)


def _refuse_unwritable(plot: Path) -> None:
    """Before the episodes are played, not after."""
    if plot.suffix.lower() != ".png":
        raise InputError(f"--plot {plot}: the name must end with .png")
    if plot.is_dir() or not plot.absolute().parent.is_dir():
        raise InputError(f"--plot {plot}: no file can be written there")


def _draw(world: Scenario, scorer: Scorer, seed: int, folder: TraceFolder | None, path: Path) -> None:
    """The first of the episodes."""
    from envs.viewer import draw_episode, record_episode  # loads matplotlib

    title = f"{scorer.name} in {world.name}, seed {seed}"
    with _progress() as bar:
        task = bar.add_task(f"drawing {path.name}", total=1.0)
        tape = make_world(world, seed, 0, folder)
        frames = record_episode(tape, scorer, title, seed, progress=lambda share: bar.update(task, completed=share))
    try:
        draw_episode(frames, path)
    except OSError as why:
        raise InputError(f"--plot {path}: {why.strerror or why}") from why


def _progress() -> Progress:
    """Beside the result, and only where somebody watches: elsewhere rich would leave an empty line."""
    beside = Console(stderr=True)
    return Progress(console=beside, transient=True, disable=not beside.is_terminal)

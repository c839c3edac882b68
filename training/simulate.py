"""``pilotfish simulate``: what a policy costs in a simulated cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agent.heuristics.registry import scorer_by_name
from agent.scorer import Scorer
from envs.dynamics.costs import TERMS
from envs.rewards import dollars
from envs.workloads.scenario import Scenario, load_scenario
from training.play import Played, play
from training.statistics import half_width_95
from training.worlds import make_worlds, provenance


def run(
    scenario: str,
    *,
    policy: str,
    episodes: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
    traces: Path | None,
) -> None:
    world, scorer = load_scenario(scenario), scorer_by_name(policy)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{policy} in {world.name}", total=1.0)
        tape = make_worlds(world, seed, episodes, traces)
        played = play(scorer, tape, seed, progress=lambda share: bar.update(task, completed=share))
    result = {"policy": policy, "episodes": episodes, **provenance(world, seed, traces), **summary(played)}
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result, Console())
    if plot is not None:
        _draw(world, scorer, seed, traces, plot)


def summary(played: Played) -> dict[str, Any]:
    """Dollars an hour with the half width of the 95 % interval, and every term in its own unit and in dollars."""
    cost, terms = played.cost_per_hour, played.terms_per_hour
    return {
        "cost": {"mean": float(cost.mean()), "ci95": half_width_95(cost), "unit": "USD/h"},
        "terms": {
            name: {"mean": float(terms[:, index].mean()), "unit": f"{unit}, per hour", "usd_per_hour": float(usd)}
            for index, ((name, unit), usd) in enumerate(zip(TERMS.items(), dollars(terms).mean(axis=0), strict=True))
        },
        "decisions": int(played.decisions.sum()),
    }


def _show(result: dict[str, Any], console: Console) -> None:
    cost = result["cost"]
    table = Table(title=f"{result['policy']} in {result['scenario']}: {cost['mean']:.3f} ± {cost['ci95']:.3f} USD/h")
    table.add_column("term")
    table.add_column("an hour", justify="right")
    table.add_column("unit")
    table.add_column("USD/h", justify="right")
    for name, term in result["terms"].items():
        unit = term["unit"].removesuffix(", per hour")
        table.add_row(name, f"{term['mean']:.3f}", unit, f"{term['usd_per_hour']:.4f}")
    console.print(table)


def _draw(world: Scenario, scorer: Scorer, seed: int, traces: Path | None, path: Path) -> None:
    from envs.viewer import draw_episode, record_episode

    draw_episode(record_episode(make_worlds(world, seed, 1, traces).one(0), scorer), path)

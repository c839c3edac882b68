"""``pilotfish headroom``: how much better than the best baseline a scheduler could be, before any training.

Baselines are all heuristics and the tuned linear scorers; the better linear one is what the rollouts
(training.rollouts) play on. Clairvoyant: they know the true future, which bounds what can be had. Attainable: the
futures are drawn anew, with only what an agent may know.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID
from rich.table import Table

from agent.cluster import FloatArray
from agent.errors import InputError
from agent.heuristics.registry import SCORERS
from agent.linear import LinearScorer
from agent.scorer import Scorer
from envs.workloads.scenario import Scenario, load_scenario
from envs.workloads.tape import Tape
from models.linear import MIX, RELEASED, load_linear, vector_names
from training.play import play
from training.rollouts import Search, rollouts
from training.statistics import paired_difference
from training.worlds import limited, make_worlds, provenance

SMALL_PCT = 3.0  # attainable headroom below this, or not above its interval, is marked
AT_ONCE = 4  # episodes: more would only take memory
KINDS = ("attainable", "clairvoyant")

Row = dict[str, Any]


def run(
    names: list[str],
    *,
    episodes: int,
    seed: int,
    search: Search,
    as_json: bool,
    most_nodes: int | None = None,
    save: Path | None = None,
) -> None:
    """Print the headroom of each scenario; with ``save``, write it into this file beside the other scenarios'."""
    worlds = [load_scenario(name) for name in names]
    saved = [] if save is None else read_rows(save)
    for scenario in worlds if most_nodes is None else [limited(world, most_nodes) for world in worlds]:
        row = measure(scenario, episodes, seed, search)
        saved = [*(old for old in saved if old["scenario"] != row["scenario"]), row]
        if save is not None:
            write_rows(saved, save)
        if as_json:
            typer.echo(json.dumps(row))
        else:
            _show(row, Console())


def measure(scenario: Scenario, episodes: int, seed: int, search: Search) -> Row:
    """One row: the costs of every baseline and of both kinds of rollouts on the same episodes."""
    tape = make_worlds(scenario, seed, episodes)
    linear = linear_scorers(scenario)
    costs = baselines(tape, seed, [*(make() for make in SCORERS.values()), *linear])
    means = {name: float(cost.mean()) for name, cost in costs.items()}
    best, base = min(means, key=means.__getitem__), min(linear, key=lambda scorer: means[scorer.name])
    row: Row = {
        **provenance(scenario, seed),
        "most_nodes": int(scenario.nodes.count.high),
        "episodes": episodes,
        "candidates": search.candidates,
        "ahead_s": search.ahead_s,
        "futures": search.futures,
        "best_baseline": best,
        "best_cost": means[best],
        "rollouts_of": base.name,
        "baselines": dict(sorted(means.items(), key=lambda item: item[1])),
    }
    with Bar(console=Console(stderr=True), transient=True) as bar:
        for kind in KINDS:
            task = bar.add_task(f"{scenario.name}: {kind} rollouts of {base.name}", total=episodes)
            cost = np.empty(episodes)
            for first in range(0, episodes, AT_ONCE):
                some = range(first, min(first + AT_ONCE, episodes))
                told = partial(_show_share, bar, task, some)
                clairvoyant = kind == "clairvoyant"
                cost[some] = rollouts(scenario, seed, some, base.weights, search, clairvoyant, told).cost_per_hour
            row |= _compared(kind, cost, costs[best])
    return row


def linear_scorers(scenario: Scenario) -> list[LinearScorer]:
    """The one for all scenarios, and the scenario's own if it has been tuned."""
    return [load_linear(name) for name in (MIX, scenario.name) if name in vector_names(RELEASED)]


def baselines(tape: Tape, seed: int, scorers: list[Scorer]) -> dict[str, FloatArray]:
    """US dollars an hour of each scorer on the same episodes."""
    return {scorer.name: play(scorer, tape, seed).cost_per_hour for scorer in scorers}


def _compared(kind: str, cost: FloatArray, best: FloatArray) -> Row:
    """Cost, half width of the 95 % interval of the paired difference (US dollars an hour), and both in per cent."""
    mean, half = paired_difference(cost, best)
    known = None if math.isnan(half) else half
    usual = float(best.mean())
    return {
        f"{kind}_cost": float(cost.mean()),
        f"{kind}_ci95": known,
        f"{kind}_headroom_pct": -100.0 * mean / usual,
        f"{kind}_ci95_pct": None if known is None else 100.0 * known / usual,
    }


# --- results on disk and on paper


def read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (ValueError, KeyError, TypeError) as why:
        raise InputError(f"{path}: not a file of headroom rows") from why
    return rows


def write_rows(rows: list[Row], path: Path) -> None:
    beside = path.with_name(path.name + ".new")
    try:
        beside.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as why:
        raise InputError(f"--save {path}: {why.strerror or why}") from why


def is_small(row: Row) -> bool:
    """Whether there is little to learn here, or it cannot be told from nothing."""
    pct, half = row["attainable_headroom_pct"], row["attainable_ci95_pct"]
    return bool(pct < SMALL_PCT or (half is not None and pct < half))


def as_markdown(rows: list[Row]) -> str:
    """The table of docs/headroom.md."""
    lines = [
        "| scenario | nodes | episodes | best baseline | it costs | linear mix | linear own | attainable"
        " | headroom % | clairvoyant | headroom % | digest |",
        "|" + "---|" * 12,
    ]
    for row in sorted(rows, key=lambda row: -row["attainable_headroom_pct"]):
        own = row["baselines"].get(f"linear_{row['scenario']}")
        cells = [
            row["scenario"] + (" (small)" if is_small(row) else ""),
            f"to {row['most_nodes']}",
            row["episodes"],
            row["best_baseline"],
            _usd(row["best_cost"]),
            _usd(row["baselines"].get(f"linear_{MIX}")),
            _usd(own),
            _usd(row["attainable_cost"]),
            _spread(row, "attainable"),
            _usd(row["clairvoyant_cost"]),
            _spread(row, "clairvoyant"),
            f"`{row['scenario_digest']}`",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _usd(cost: float | None) -> str:
    return "" if cost is None else f"{cost:.3g}" if cost < 100 else f"{cost:.0f}"


def _spread(row: Row, kind: str) -> str:
    pct, half = row[f"{kind}_headroom_pct"], row[f"{kind}_ci95_pct"]
    if pct is None:
        return "not measured"
    return f"{pct:.1f}" + ("" if half is None else f" ± {half:.1f}")


def _show_share(bar: Bar, task: TaskID, some: range, share: float) -> None:
    bar.update(task, completed=some.start + share * len(some))


def _show(row: Row, console: Console) -> None:
    table = Table("policy", "USD/h", "headroom %", title=f"{row['scenario']} ({row['episodes']} episodes)")
    for name, cost in row["baselines"].items():
        table.add_row(name + (" (best)" if name == row["best_baseline"] else ""), f"{cost:.3f}", "")
    for kind in KINDS:
        table.add_row(kind, f"{row[f'{kind}_cost']:.3f}", _spread(row, kind))
    console.print(table)

"""``pilotfish headroom``: how much better than the best heuristic a scheduler could be, before any training.

From every decision the likeliest candidates are tried in copies of the cluster, each played on by the base rule for
some minutes; the cheapest is taken. With the true future this is a clairvoyant: it bounds what can be had. With
futures drawn anew (training.futures) it uses only what an agent may know: the attainable part.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID
from rich.table import Table

from agent.cluster import FloatArray, IntArray
from agent.features import STALE_AFTER_S
from agent.heuristics.registry import SCORERS, scorer_by_name
from agent.scorer import Scorer, held_scores
from envs.batch_arrays import COUNT, RUN_MORE
from envs.batch_env import BatchEnv
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.rewards import weighted_cost
from envs.workloads.scenario import Scenario, load_scenario
from envs.workloads.tape import Tape
from training.futures import Futures, remaining_s
from training.play import Played, Progress, choose, play
from training.statistics import paired_difference
from training.worlds import make_worlds, provenance

OLDEST = 4.0  # medians: the age at which a pod counts that ran before the sidecar came


@dataclass(frozen=True, slots=True)
class Search:
    """How far and how wide the rollouts look."""

    candidates: int = 6
    ahead_s: float = 300.0
    futures: int = 3


def baselines(tape: Tape, seed: int) -> dict[str, Played]:
    """Every heuristic on the same tapes."""
    return {name: play(make(), tape, seed) for name, make in SCORERS.items()}


def rollouts(
    scenario: Scenario,
    tape: Tape,
    base: Scorer,
    seed: int,
    search: Search,
    clairvoyant: bool,
    progress: Progress | None = None,
) -> Played:
    """Play the tapes, each decision the best of rollouts of the base rule."""
    env, rng = BatchEnv(tape), np.random.default_rng(seed)
    futures = None if clairvoyant else Futures(scenario, seed, env.clusters, search.futures)
    began_s = env.clock_s.copy()
    terms = np.zeros((env.clusters, len(TERMS)))
    while not env.done.all():
        terms += env.step(_look_ahead(scenario, env, base, search, futures, rng))
        if progress is not None:
            progress(float((env.clock_s / tape.horizon_s).mean()))
    return Played(terms, (env.clock_s - began_s) / SECONDS_PER_HOUR, env.decisions)


def _look_ahead(
    scenario: Scenario, env: BatchEnv, base: Scorer, search: Search, futures: Futures | None, rng: np.random.Generator
) -> IntArray:
    """The candidate whose rollouts cost least, for every cluster."""
    options = _likeliest(env, base, search.candidates, rng)  # (clusters, options)
    per_option = 1 if futures is None else search.futures
    rows = np.repeat(np.arange(env.clusters), options.shape[1] * per_option)
    twin = env.clone(rows)
    if futures is not None:
        _imagine(scenario, env, twin, futures, options.shape[1], rng)
    actions = np.repeat(options.reshape(-1), per_option)
    cost = _play_on(twin, base, actions, search.ahead_s, rng).reshape(env.clusters, options.shape[1], per_option)
    valid = np.take_along_axis(env.candidates(), options, axis=1)
    mean = np.where(valid, cost.mean(axis=2), np.inf)
    return np.asarray(np.take_along_axis(options, mean.argmin(axis=1)[:, None], axis=1)[:, 0])


def _likeliest(env: BatchEnv, base: Scorer, count: int, rng: np.random.Generator) -> IntArray:
    """The base rule's first choice, other nodes it likes, and, for a change of mind, some at random."""
    candidates = env.candidates()
    values = held_scores(base, env.state(), env.demand(), candidates, STALE_AFTER_S)
    noise = rng.random(values.shape)
    ranked = np.argsort(np.where(candidates, -values + 1e-9 * noise, np.inf), axis=1)
    shuffled = np.argsort(np.where(candidates, noise, np.inf), axis=1)
    top = min((count + 1) // 2, values.shape[1])
    return np.concatenate([ranked[:, :top], shuffled[:, : max(count - top, 0)]], axis=1)


def _imagine(
    scenario: Scenario, env: BatchEnv, twin: BatchEnv, futures: Futures, options: int, rng: np.random.Generator
) -> None:
    """Give the copies futures that are not the true one; all options of a cluster meet the same ones."""
    tapes = env.tapes
    imagined = futures.blank(tapes)
    live = env.live
    for index in range(env.clusters):
        futures.write(imagined, tapes, index, float(env.clock_s[index]), int(live.count[index, COUNT.arrived]))
    row = np.arange(env.clusters)[:, None, None] * futures.futures + np.arange(futures.futures)[None, None, :]
    twin.use_tapes(imagined, np.broadcast_to(row, (env.clusters, options, futures.futures)).reshape(-1))
    age_s = np.clip(
        env.clock_s[:, None] - live.run_more[:, :, RUN_MORE.bound_at_s],
        0.0,
        OLDEST * scenario.arrivals.duration_s.median,
    )
    slots, new = age_s.shape[1], np.zeros(live.pod_left_s.shape)
    for k in range(futures.futures):
        ends_at_s = env.clock_s[:, None] + remaining_s(scenario.arrivals.duration_s, age_s, rng)
        left_s = remaining_s(scenario.arrivals.duration_s, new, rng)  # of the pods that wait
        for option in range(options):
            some = np.arange(env.clusters) * options * futures.futures + option * futures.futures + k
            twin.live.run_ends_at_s[some, :slots] = ends_at_s
            twin.live.pod_left_s[some] = left_s


def _play_on(twin: BatchEnv, base: Scorer, actions: IntArray, ahead_s: float, rng: np.random.Generator) -> FloatArray:
    """Cost of each copy until the horizon of the search, the first action given, the others by the base rule."""
    until_s = twin.clock_s + ahead_s
    cost = weighted_cost(twin.step(actions)).copy()
    while True:
        open_ = ~twin.done & (twin.clock_s < until_s)
        if not open_.any():
            return np.asarray(cost)
        cost += np.where(open_, weighted_cost(twin.step(choose(base, twin, rng))), 0.0)


def run(names: list[str], *, episodes: int, seed: int, search: Search, as_json: bool) -> None:
    """Print the headroom of each scenario."""
    for scenario in [load_scenario(name) for name in names]:
        row = measure(scenario, episodes, seed, search)
        if as_json:
            typer.echo(json.dumps(row))
        else:
            _show(row, Console())


def measure(scenario: Scenario, episodes: int, seed: int, search: Search) -> dict[str, object]:
    tape = make_worlds(scenario, seed, episodes)
    costs = {name: played.cost_per_hour for name, played in baselines(tape, seed).items()}
    best = min(costs, key=lambda name: float(costs[name].mean()))
    row: dict[str, object] = {**provenance(scenario, seed), "episodes": episodes, "best_baseline": best}
    means = {name: float(cost.mean()) for name, cost in costs.items()}
    row["baselines"] = dict(sorted(means.items(), key=lambda item: item[1]))
    base = scorer_by_name(best)
    with Bar(console=Console(stderr=True), transient=True) as bar:
        for kind, clairvoyant in (("clairvoyant", True), ("attainable", False)):
            task = bar.add_task(f"{scenario.name}: {kind} rollouts of {best}", total=1.0)
            played = rollouts(scenario, tape, base, seed, search, clairvoyant, partial(_show_share, bar, task))
            mean, half = paired_difference(played.cost_per_hour, costs[best])
            row[kind] = {
                "cost": float(played.cost_per_hour.mean()),
                "headroom_pct": -100.0 * mean / float(costs[best].mean()),
                "ci95_pct": None if math.isnan(half) else 100.0 * half / float(costs[best].mean()),
            }
    return row


def _show_share(bar: Bar, task: TaskID, share: float) -> None:
    bar.update(task, completed=share)


def _show(row: dict[str, object], console: Console) -> None:
    table = Table("policy", "USD/h", "headroom %", title=f"{row['scenario']} ({row['episodes']} episodes)")
    baselines_, best = row["baselines"], row["best_baseline"]
    assert isinstance(baselines_, dict)
    for name, cost in baselines_.items():
        table.add_row(name + (" (best)" if name == best else ""), f"{cost:.3f}", "")
    for kind in ("attainable", "clairvoyant"):
        entry = row[kind]
        assert isinstance(entry, dict)
        spread = "" if entry["ci95_pct"] is None else f" ± {entry['ci95_pct']:.1f}"
        table.add_row(kind, f"{entry['cost']:.3f}", f"{entry['headroom_pct']:.1f}{spread}")
    console.print(table)

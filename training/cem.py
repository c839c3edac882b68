"""``pilotfish cem``: a linear scorer tuned by the cross-entropy method, the honest competitor of every policy.

A generation draws vectors of weights around a mean, plays all of them on the same fresh episodes and moves the mean
towards the cheapest. A scenario counts by cost over the cost of expected_utilisation on the same episodes, so that all
count alike. Weights are searched in units of how much their feature differs between the candidates of one decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from agent.cluster import FloatArray, IntArray
from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.linear import weights_from
from envs.batch_env import BatchEnv
from envs.batch_linear import play_linear
from envs.dynamics.costs import SECONDS_PER_HOUR
from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.rewards import weighted_cost
from envs.workloads.scenario import Scenario, load_scenario, scenario_names
from envs.workloads.synthetic import GENERATOR_VERSION, make_tapes
from envs.workloads.tape import Tape
from models.linear import MIX, load_linear, read_vectors, write_vectors
from training.play import play
from training.populations import costs_on_every_episode
from training.worlds import limited, with_loads

MIX_SCENARIOS = ("microservices", "bursts", "edge", "overload", "mixed", "deployments", "autoscaled", "gpu")
MOST_NODES = 100  # as the policy: more are left for the test of whether it generalises
HELD_OUT_SEED = 1_000_000  # from here on seeds are for evaluation only
NODES_AT_ONCE = 40_000  # over all clusters that are played together: bounds the memory

# The nearer a start is to the best weights, the less it looks around.
START_SPREAD = {"zero": 1.0, "hand": 0.5, "mix": 0.25, "before": 0.15}

# Spread what is expected, keep talkers together, mind latency and NICs that are nearly full.
HAND_RULE = {
    "worst_expected_ratio": -1.0,
    "network_hot": -6.0,
    "cpu_hot": -1.0,
    "memory_hot": -1.0,
    "siblings_in_zone_share": 0.5,
    "siblings_on_node_share": 0.2,
    "cross_zone_traffic": -0.5,
    "latency_excess": -2.0,
}


@dataclass(frozen=True, slots=True)
class Search:
    """Settings of the method."""

    population: int = 64
    elite_share: float = 0.15
    episodes: int = 8  # of each scenario, in every generation
    step: float = 0.7  # how far mean and spread move to those of the elite
    noise: float = 0.25  # least spread at the start, over the length of the mean; decays with the budget
    last_noise: float = 0.03
    trial_share: float = 0.15  # of the budget, for each start, before the best one goes on
    checked_episodes: int = 96


@dataclass(slots=True)
class Cloud:
    """Where the search stands: a normal distribution over the weights, in units of each feature's spread."""

    start: str
    mean: FloatArray  # (features,)
    spread: FloatArray  # (features,)
    decisions: int = 0
    generations: int = 0
    history: list[float] = field(default_factory=list)  # mean ratio of the elite


def tune(
    scenarios: list[Scenario],
    rules: dict[str, FloatArray],
    decisions: int,
    seed: int,
    search: Search,
    told: Callable[[Cloud], None],
) -> dict[str, Any]:
    """The tuned vector with its facts: each of the rules is tried as a start, the best one gets all that is left."""
    scale = feature_spread(scenarios, seed)
    clouds = list(starts(rules, scale))
    trial = int(search.trial_share * decisions) if len(clouds) > 1 else 0
    plan = decisions - trial * (len(clouds) - 1)  # what the best one will have spent
    for cloud in clouds:
        for _ in generations(cloud, scenarios, scale, trial, plan, seed, search):
            told(cloud)
    best = clouds[0] if trial == 0 else _cheapest(clouds, scale, scenarios, seed, search)
    spent = sum(cloud.decisions for cloud in clouds) - best.decisions
    for _ in generations(best, scenarios, scale, plan, plan, seed, search):
        told(best)
    weights = best.mean / scale
    return {
        "weights": {name: round(float(w), 6) for name, w in zip(NODE_FEATURES, weights, strict=True) if w != 0},
        "scenarios": {world.name: world.digest() for world in scenarios},
        "generator_version": GENERATOR_VERSION,
        "weights_digest": WEIGHTS_DIGEST,
        "seed": seed,
        "decisions": best.decisions + spent,
        "generations": sum(cloud.generations for cloud in clouds),
        "start": best.start,
        "checked_episodes": search.checked_episodes,
        "costs": check(weights[None], scenarios, seed, search)[0],
    }


def _cheapest(clouds: list[Cloud], scale: FloatArray, scenarios: list[Scenario], seed: int, search: Search) -> Cloud:
    """By the costs of their means on episodes that none of them has seen."""
    checked = check(np.array([cloud.mean / scale for cloud in clouds]), scenarios, seed, search)
    return clouds[int(np.argmin([np.mean([entry["ratio"] for entry in costs.values()]) for costs in checked]))]


def starts(rules: dict[str, FloatArray], scale: FloatArray) -> Iterator[Cloud]:
    """One cloud around each rule."""
    used = np.isfinite(scale)
    for name, weights in rules.items():
        mean = np.where(used, weights * np.where(used, scale, 0.0), 0.0)
        mean /= max(float(np.abs(mean).max()), 1e-9)
        yield Cloud(name, mean, START_SPREAD[name] * used)


def rules_for(name: str, vectors: dict[str, Any], path: Path) -> dict[str, FloatArray]:
    """Where to begin: what was tuned before, else the tuned mix and a rule made by hand, else that and nothing."""
    if name in vectors:
        return {"before": load_linear(name, path).weights}
    hand = {"hand": weights_from(HAND_RULE)}
    if name != MIX and MIX in vectors:
        return {"mix": load_linear(MIX, path).weights, **hand}
    return {"zero": np.zeros(len(NODE_FEATURES)), **hand}


def generations(
    cloud: Cloud, scenarios: list[Scenario], scale: FloatArray, until: int, plan: int, seed: int, search: Search
) -> Iterator[None]:
    """Move the cloud until it has spent so many decisions of those that are planned for it."""
    rng = np.random.default_rng((seed, cloud.generations))
    while cloud.decisions < until:
        drawn = cloud.mean + cloud.spread * rng.standard_normal((search.population, len(scale)))
        drawn[0] = cloud.mean
        first = cloud.generations * search.episodes
        worlds = [(world, make_tapes(world, seed, range(first, first + search.episodes))) for world in scenarios]
        ratios = []
        for _, tape in worlds:
            cost, spent = costs_of(drawn / scale, tape)
            ratios.append(cost.mean(axis=1) / usual_cost(tape).mean())
            cloud.decisions += spent
        _move(cloud, drawn, np.mean(ratios, axis=0), cloud.decisions / plan, search)
        yield


def _move(cloud: Cloud, drawn: FloatArray, ratio: FloatArray, share: float, search: Search) -> None:
    """Towards the elite, with a least spread that shrinks as the budget is used up."""
    cloud.mean, cloud.spread = towards_elite(cloud.mean, cloud.spread, drawn, ratio, search.elite_share, search.step)
    floor = search.noise * (search.last_noise / search.noise) ** min(share, 1.0)
    length = max(float(np.sqrt((cloud.mean**2).mean())), 0.1)
    cloud.spread = np.where(cloud.spread > 0, np.maximum(cloud.spread, floor * length), 0.0)
    cloud.generations += 1
    cloud.history.append(float(np.sort(ratio)[: elite_size(len(drawn), search.elite_share)].mean()))


def towards_elite(
    mean: FloatArray, spread: FloatArray, drawn: FloatArray, cost: FloatArray, elite_share: float, step: float
) -> tuple[FloatArray, FloatArray]:
    """Mean and spread, so far on the way to those of the cheapest of the vectors that were drawn."""
    elite = drawn[np.argsort(cost)[: elite_size(len(drawn), elite_share)]]
    return mean + step * (elite.mean(axis=0) - mean), spread + step * (elite.std(axis=0) - spread)


def elite_size(population: int, elite_share: float) -> int:
    return max(int(elite_share * population), 2)


def costs_of(weights: FloatArray, tape: Tape) -> tuple[FloatArray, int]:
    """Dollars an hour of each vector on each episode, (vectors, episodes), and the decisions that it took."""

    def played(vector: IntArray, episode: IntArray) -> tuple[FloatArray, int]:
        env = BatchEnv(tape, episode)
        began_s = env.clock_s.copy()
        usd = weighted_cost(play_linear(env, weights, vector))
        hours = np.maximum((env.clock_s - began_s) / SECONDS_PER_HOUR, 1e-9)
        return np.asarray(usd / hours), int(env.decisions.sum())

    return costs_on_every_episode(len(weights), tape, NODES_AT_ONCE, played)


def usual_cost(tape: Tape) -> FloatArray:
    """What the best of the plain heuristics costs: the measure of every scenario."""
    return play(ExpectedUtilisation(), tape).cost_per_hour


def check(weights: FloatArray, scenarios: list[Scenario], seed: int, search: Search) -> list[dict[str, Any]]:
    """Each vector's costs on episodes that no generation has seen, by scenario."""
    results: list[dict[str, Any]] = [{} for _ in weights]
    for world in scenarios:
        tape = make_tapes(world, seed + 1, range(search.checked_episodes))
        usual = float(usual_cost(tape).mean())
        for result, cost in zip(results, costs_of(weights, tape)[0].mean(axis=1), strict=True):
            result[world.name] = {"cost": float(cost), "expected_utilisation": usual, "ratio": float(cost) / usual}
    return results


def feature_spread(scenarios: list[Scenario], seed: int, episodes: int = 16, looks: int = 40) -> FloatArray:
    """How much each feature differs between the candidates of a decision; infinite if never, so its weight is 0."""
    squares, count = np.zeros(len(NODE_FEATURES)), 0
    for world in scenarios:
        env = BatchEnv(make_tapes(world, seed, range(episodes)))
        rng = np.random.default_rng(seed)
        for _ in range(looks):
            mask = env.candidates()
            nodes = env.encode().nodes.astype(np.float64)
            each = np.maximum(mask.sum(axis=1), 1)[:, None]
            mean = nodes.sum(axis=1) / each  # rows of other nodes are zero
            squares += np.sum(np.where(mask[:, :, None], (nodes - mean[:, None]) ** 2, 0.0).sum(axis=1) / each, axis=0)
            count += env.clusters
            env.step(np.argmax(np.where(mask, rng.random(mask.shape), -1.0), axis=1))
    spread = np.sqrt(squares / max(count, 1))
    spread[NODE_COLUMN["metric_missing"]] = 0.0  # such a node is never chosen, whatever its weight
    return np.where(spread > 1e-4, np.maximum(spread, 0.01), np.inf)


def worlds_of(name: str, varied_loads: float | None) -> list[Scenario]:
    """The scenarios that a vector is tuned for."""
    names = MIX_SCENARIOS if name == MIX else [name]
    return [with_loads(limited(load_scenario(each), MOST_NODES), varied=varied_loads) for each in names]


def run(
    names: list[str],
    *,
    decisions: int,
    seed: int,
    out: Path,
    as_json: bool,
    varied_loads: float | None = None,
    search: Search | None = None,
) -> None:
    """Tune a vector for each name and write them all to one file; one that is there already is tuned further."""
    if seed >= HELD_OUT_SEED - 1:
        raise InputError(f"--seed {seed}: seeds from {HELD_OUT_SEED - 1} on are held out for evaluation")
    path = out / "weights.json"
    vectors = read_vectors(path) if path.exists() else {}
    for name, scenarios in [(name, worlds_of(name, varied_loads)) for name in names or [MIX, *scenario_names()]]:
        rules, before = rules_for(name, vectors, path), vectors.get(name, {}).get("decisions", 0)
        with Progress(console=Console(stderr=True), transient=True) as bar:
            shown = Shown(bar, bar.add_task(name, total=1.0), name, decisions)
            vectors[name] = tune(scenarios, rules, decisions, seed, search or Search(), shown.told)
        vectors[name]["decisions"] += before
        write_vectors(vectors, path)
        if as_json:
            typer.echo(json.dumps({"vector": name, **vectors[name]}))
        else:
            _show(name, vectors[name], Console())


@dataclass(slots=True)
class Shown:
    """The bar of one vector."""

    bar: Progress
    task: TaskID
    name: str
    decisions: int
    spent: dict[str, int] = field(default_factory=dict)  # by start

    def told(self, cloud: Cloud) -> None:
        self.spent[cloud.start] = cloud.decisions
        text = f"{self.name} from {cloud.start}: {cloud.history[-1]:.3f} of expected_utilisation"
        self.bar.update(self.task, completed=sum(self.spent.values()) / self.decisions, description=text)


def _show(name: str, entry: dict[str, Any], console: Console) -> None:
    table = Table("scenario", "USD/h", "expected_utilisation", "ratio", title=f"linear scorer {name}")
    for scenario, cost in entry["costs"].items():
        table.add_row(scenario, f"{cost['cost']:.2f}", f"{cost['expected_utilisation']:.2f}", f"{cost['ratio']:.3f}")
    console.print(table)

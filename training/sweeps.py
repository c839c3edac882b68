"""One thing about a scenario changed step by step: load, number of nodes, age of the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from envs.workloads.scenario import Scenario, Span
from training.ablations import world_for_slow_metrics
from training.contestants import Contestant
from training.episodes import NONE, Handicap, Outcome
from training.evaluate import Exam, outcomes_of
from training.statistics import half_width_95

LOADS = (0.3, 0.45, 0.6, 0.75, 0.9)
NODES = (5, 10, 20, 50, 100, 200)
DELAYS_S = (0.0, 5.0, 15.0, 30.0, 60.0)
LARGE_NODES = 500


@dataclass(frozen=True, slots=True)
class Line:
    """One policy along a sweep: mean and half width of the 95 % interval at each step."""

    policy: str
    mean: tuple[float, ...]
    half_width_95: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    title: str
    steps: tuple[float, ...]
    step_label: str
    cost_label: str
    lines: tuple[Line, ...]


def sized(scenario: Scenario, nodes: int) -> Scenario:
    """The same world with so many nodes: the load follows them. Another name: nothing was tuned for it."""
    fleet = scenario.nodes.model_copy(update={"count": Span(low=nodes, high=nodes)})
    return scenario.model_copy(update={"name": f"{scenario.name}_{nodes}_nodes", "nodes": fleet})


def loaded(scenario: Scenario, load: float) -> Scenario:
    arrivals = scenario.arrivals.model_copy(update={"load": Span(low=load, high=load)})
    return scenario.model_copy(update={"arrivals": arrivals})


def by_load(contestants: Sequence[Contestant], scenario: Scenario, exam: Exam, steps: Sequence[float] = LOADS) -> Sweep:
    worlds = [(loaded(scenario, load), NONE) for load in steps]
    lines = _lines(contestants, worlds, exam, per_node=False)
    return Sweep(f"{scenario.name}: cost against load", tuple(steps), "requests over capacity", "USD/h", lines)


def by_nodes(contestants: Sequence[Contestant], scenario: Scenario, exam: Exam, steps: Sequence[int] = NODES) -> Sweep:
    worlds = [(sized(scenario, nodes), NONE) for nodes in steps]
    lines = _lines(contestants, worlds, exam, per_node=True)
    title = f"{scenario.name}: cost against number of nodes"
    return Sweep(title, tuple(map(float, steps)), "nodes", "USD/h for each node", lines)


def by_delay(
    contestants: Sequence[Contestant], scenario: Scenario, exam: Exam, steps: Sequence[float] = DELAYS_S
) -> Sweep:
    worlds = [(world_for_slow_metrics(scenario), Handicap(delay_s=delay_s)) for delay_s in steps]
    lines = _lines(contestants, worlds, exam, per_node=False)
    title = f"{scenario.name}: cost against age of the metrics"
    return Sweep(title, tuple(steps), "delay of the metrics in seconds", "USD/h", lines)


def _lines(
    contestants: Sequence[Contestant], worlds: Sequence[tuple[Scenario, Handicap]], exam: Exam, per_node: bool
) -> tuple[Line, ...]:
    """Synthetic worlds only: a step must change one thing and no other."""
    synthetic = replace(exam, traces=None)
    found: list[dict[str, Outcome]] = []
    scale: list[float] = []
    for world, handicap in worlds:
        found.append(outcomes_of(contestants, world, synthetic, handicap))
        scale.append(1.0 / world.nodes.count.high if per_node else 1.0)
    return tuple(
        Line(
            each.name,
            tuple(float(step[each.name].cost.mean()) * factor for step, factor in zip(found, scale, strict=True)),
            tuple(_spread(step[each.name]) * factor for step, factor in zip(found, scale, strict=True)),
        )
        for each in contestants
    )


def _spread(outcome: Outcome) -> float:
    return float(np.nan_to_num(half_width_95(outcome.cost)))

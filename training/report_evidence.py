"""All that a report shows: what the evaluation has measured, and what is played only for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envs.workloads.scenario import Scenario
from training.ablations import Ablated, ablate
from training.bound_study import Study, of_this_world, read_headroom, study
from training.comparison import Comparison
from training.contestants import Contestant
from training.evaluate import Exam
from training.sweeps import Sweep, by_delay, by_load, by_nodes

SWEPT = "microservices"  # the scenario of the sweeps, if it is among those evaluated
SWEEP_EPISODES = 16
ABLATION_EPISODES = 50
RIVALS = ("linear", "expected_utilisation", "least_allocated")  # beside the model and the best baseline in every plot


@dataclass(frozen=True, slots=True)
class Evidence:
    comparisons: Sequence[Comparison]
    exam: Exam
    ablated: Sequence[Ablated] = ()
    sweeps: Sequence[Sweep] = ()
    study: Study | None = None
    headroom: dict[str, dict[str, Any]] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()  # scenarios whose headroom is of another world than is played


def gather(comparisons: Sequence[Comparison], worlds: Sequence[Scenario], exam: Exam) -> Evidence:
    model = comparisons[0].contestants[0]
    some = replace(exam, episodes=min(exam.episodes, ABLATION_EPISODES))
    ablated = [row for world in worlds for row in ablate(model, world, some)]
    number = next((index for index, world in enumerate(worlds) if world.name == SWEPT), 0)
    few = replace(exam, episodes=min(exam.episodes, SWEEP_EPISODES))
    swept = [each for each in main_rivals(comparisons[number]) if each.kind not in ("linear_own", "thesis")]
    sweeps = [sweep(swept, worlds[number], few) for sweep in (by_load, by_nodes, by_delay)]
    contestants = [each for each in comparisons[0].contestants if each.plays("tiny")]
    headroom = read_headroom()
    return Evidence(
        comparisons, exam, ablated, sweeps, study(contestants, exam), headroom, measured_elsewhere(headroom, worlds)
    )


def measured_elsewhere(headroom: Mapping[str, Mapping[str, Any]], worlds: Sequence[Scenario]) -> frozenset[str]:
    """Scenarios whose headroom is of another generator, other weights, or of the scenario as it was."""
    return frozenset(
        each.name for each in worlds if each.name in headroom and not of_this_world(headroom[each.name], each)
    )


def main_rivals(comparison: Comparison) -> list[Contestant]:
    """The model, the best baseline, and those that every reader knows: few enough for one plot."""
    wanted = [comparison.model, *([comparison.best_baseline] if comparison.baselines else []), *RIVALS]
    by_name = {each.name: each for each in comparison.contestants}
    return [by_name[name] for name in dict.fromkeys(wanted) if name in by_name]

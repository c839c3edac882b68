"""Policies beside bounds: the solved optimum of small worlds, and the headroom that rollouts have measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.errors import InputError
from envs.dynamics.costs import TERM
from envs.workloads.scenario import Scenario
from models.manifest import same_world
from training.bounds import bounded_cost_per_hour, solve
from training.contestants import Contestant
from training.episodes import Outcome
from training.evaluate import Exam, outcomes_of, progress_of
from training.offline_problem import problem_of, tiny_world
from training.statistics import half_width_95, paired_difference
from training.worlds import limited, make_world, provenance

HEADROOM = Path(__file__).parent.parent / "docs" / "headroom.json"
WORLDS = 8
SECONDS_FOR_EACH = 15.0
UNDISTURBED = ("pending_time", "failures", "memory_kills")  # where these are not 0 the bound is of another problem


@dataclass(frozen=True, slots=True)
class Study:
    """Small worlds in which no pod had to wait: dollars an hour of the bounded terms."""

    worlds: int
    left_out: int
    decided_pods: float
    bound: float
    solved: int  # worlds whose optimum was proven to 1 %
    costs: Mapping[str, tuple[float, float, float]]  # by policy: mean, mean above the bound, its half width


def study(contestants: Sequence[Contestant], exam: Exam, worlds: int = WORLDS) -> Study:
    """Every contestant and the optimum on the same small worlds."""
    scenario = tiny_world()
    here = Exam(episodes=worlds, seed=exam.seed, ray_address=exam.ray_address)
    outcomes = outcomes_of(contestants, scenario, here)
    undisturbed = np.all([_undisturbed(outcome) for outcome in outcomes.values()], axis=0)
    chosen = np.flatnonzero(undisturbed)
    bounds = []
    with progress_of("small worlds solved", len(chosen)) as done:
        for number, index in enumerate(chosen):
            bounds.append(solve(problem_of(make_world(scenario, exam.seed, int(index))), SECONDS_FOR_EACH))
            done(number + 1)
    proven = np.array([each.proven for each in bounds])
    solved = sum(each.reached is not None and each.reached <= 1.01 * each.proven for each in bounds)
    return Study(
        len(chosen),
        worlds - len(chosen),
        float(np.mean([each.decided_pods for each in bounds])) if bounds else 0.0,
        float(proven.mean()) if bounds else float("nan"),
        solved,
        {name: _beside(outcome, chosen, proven) for name, outcome in outcomes.items()} if bounds else {},
    )


def _undisturbed(outcome: Outcome) -> BoolArray:
    terms = outcome.played.terms
    return np.asarray(np.all([terms[:, TERM[name]] == 0 for name in UNDISTURBED], axis=0))


def _beside(outcome: Outcome, chosen: IntArray, proven: FloatArray) -> tuple[float, float, float]:
    cost = bounded_cost_per_hour(outcome.played.terms_per_hour)[chosen]
    return float(cost.mean()), *paired_difference(cost, proven)


# --- headroom


def read_headroom(path: Path = HEADROOM) -> dict[str, dict[str, Any]]:
    """The measured rows of ``pilotfish headroom``, by scenario; none if it was never saved."""
    if not path.is_file():
        return {}
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
        return {str(row["scenario"]): row for row in rows}
    except (ValueError, KeyError, TypeError) as why:
        raise InputError(f"{path}: not a file of headroom rows") from why


def of_this_world(row: Mapping[str, Any], scenario: Scenario) -> bool:
    """Whether a row was measured in this very scenario, cut to its nodes, by the present generator and weights."""
    return same_world(row, provenance(limited(scenario, int(row["most_nodes"])), int(row["seed"])))


def has_headroom(row: Mapping[str, Any]) -> bool:
    """Whether the attainable part is surely above nothing."""
    half = row["attainable_ci95"]
    return half is not None and row["best_cost"] - row["attainable_cost"] > half


def headroom_closed(row: Mapping[str, Any], model_cost: FloatArray) -> tuple[float, float]:
    """Share of the attainable headroom that the model closes on the very episodes of the row, and its half width."""
    headroom = row["best_cost"] - row["attainable_cost"]
    spread = half_width_95(model_cost) / headroom
    return float((row["best_cost"] - model_cost.mean()) / headroom), spread

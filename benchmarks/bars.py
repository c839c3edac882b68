"""A bar: one measured number beside the goal that an issue sets for it.

Benchmarks measure and say the bar's name; goal, unit and direction come from ``goals.yaml``, so that nobody can move
a goal in the code that has to meet it::

    yield measured("batch_over_reference", 63.2, clusters=4096)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Literal, cast, get_args

import yaml

from agent.errors import InputError

GOALS_FILE = Path(__file__).with_name("goals.yaml")

Comparison = Literal["at_least", "at_most"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What an issue asks of one number."""

    benchmark: str  # pilotfish benchmark NAME
    bar: str
    comparison: Comparison
    value: float
    unit: str
    issue: int
    words: str

    def met_by(self, value: float) -> bool:
        """NaN meets no goal."""
        return value >= self.value if self.comparison == "at_least" else value <= self.value


@dataclass(frozen=True, slots=True)
class Bar:
    """One measured number, its goal, and what is worth knowing beside it."""

    bar: str
    value: float
    unit: str
    comparison: Comparison
    goal: float
    met: bool
    beside: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """JSON has no NaN or infinity: what could not be measured is null."""
        return asdict(self) | {"value": self.value if isfinite(self.value) else None}


@cache
def goals(file: Path = GOALS_FILE) -> dict[str, Goal]:
    """Every goal by the name of its bar."""
    sections: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    found: dict[str, Goal] = {}
    for benchmark, bars in sections.items():
        for bar, entry in bars.items():
            if bar in found:
                raise InputError(f"{file.name}: the bar {bar} stands in both {found[bar].benchmark} and {benchmark}")
            found[bar] = _goal(benchmark, bar, entry)
    return found


def measured(bar: str, value: float, **beside: Any) -> Bar:
    """The measured value judged by its goal."""
    known = goals()
    if bar not in known:
        raise InputError(f"no goal for the bar {bar}; {GOALS_FILE.name} has {', '.join(sorted(known))}")
    goal = known[bar]
    return Bar(bar, value, goal.unit, goal.comparison, goal.value, goal.met_by(value), beside)


def _goal(benchmark: str, bar: str, entry: dict[str, Any]) -> Goal:
    comparisons = [key for key in get_args(Comparison) if key in entry]
    if len(comparisons) != 1:
        raise InputError(f"the goal of {bar} needs exactly one of at_least and at_most")
    comparison = cast(Comparison, comparisons[0])
    return Goal(benchmark, bar, comparison, float(entry[comparison]), entry["unit"], entry["issue"], entry["words"])

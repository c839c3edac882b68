"""A model beside everybody else on the same episodes of one scenario: costs, terms, paired differences.

A difference is always model minus the other: below zero the model is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.cluster import FloatArray
from envs.dynamics.costs import TERM, TERMS
from envs.rewards import dollars
from training.contestants import Contestant
from training.episodes import Outcome
from training.statistics import half_width_95, paired_difference

# What hurts the users of a cluster; the other terms are traded against each other.
HARM_TERMS = ("network_loss", "cpu_throttling", "memory_kills", "latency_violation", "failures", "pending_time")
HARM_PERCENT = 10.0
HARM_POINTS = 0.5


@dataclass(frozen=True, slots=True)
class Difference:
    """Model minus other, over pairs of episodes, in dollars an hour."""

    mean: float
    half_width_95: float
    percent: float  # of the other's cost
    half_width_95_percent: float

    @property
    def model_is_cheaper(self) -> bool:
        """The whole interval is below zero."""
        return self.mean + self.half_width_95 < 0.0

    def as_json(self) -> dict[str, float | None]:
        return {
            "mean": self.mean,
            "ci95": known(self.half_width_95),
            "percent": known(self.percent),
            "ci95_percent": known(self.half_width_95_percent),
        }


def difference(model: FloatArray, other: FloatArray) -> Difference:
    mean, half = paired_difference(model, other)
    base = float(other.mean())
    scale = 100.0 / base if base > 0 else math.nan
    return Difference(mean, half, mean * scale, half * scale)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcomes of one scenario by contestant; the first model is the one all others are compared with."""

    facts: Mapping[str, object]  # scenario, digests, seed
    contestants: tuple[Contestant, ...]
    outcomes: Mapping[str, Outcome]

    @property
    def scenario(self) -> str:
        return str(self.facts["scenario"])

    @property
    def model(self) -> str:
        return self.contestants[0].name

    @property
    def baselines(self) -> list[str]:
        return [each.name for each in self.contestants if each.baseline and each.name != self.model]

    @property
    def best_baseline(self) -> str:
        return min(self.baselines, key=lambda name: float(self.outcomes[name].cost.mean()))

    def to(self, name: str) -> Difference:
        return difference(self.outcomes[self.model].cost, self.outcomes[name].cost)

    def ranked(self) -> list[str]:
        """The cheapest first."""
        return sorted(self.outcomes, key=lambda name: float(self.outcomes[name].cost.mean()))

    @property
    def below_every_baseline(self) -> bool:
        return bool(self.baselines) and all(self.to(name).model_is_cheaper for name in self.baselines)

    def as_json(self) -> dict[str, Any]:
        model = self.outcomes[self.model]
        return {
            **self.facts,
            "episodes": len(model.cost),
            "model": self.model,
            "models": {key: sha for each in self.contestants for key, sha in each.facts().items()},
            "answered_share": model.answered_share,
            "best_baseline": self.best_baseline if self.baselines else None,
            "below_every_baseline": self.below_every_baseline,
            "policies": {name: self._row(name) for name in self.ranked()},
        }

    def _row(self, name: str) -> dict[str, Any]:
        played = self.outcomes[name].played
        usd = dollars(played.terms_per_hour).mean(axis=0)
        own = played.terms_per_hour.mean(axis=0)
        row: dict[str, Any] = {
            "baseline": name in self.baselines,
            "cost": {"mean": float(played.cost_per_hour.mean()), "ci95": known(half_width_95(played.cost_per_hour))},
            "usd_per_hour": {term: float(usd[index]) for term, index in TERM.items()},
            "per_hour": {term: float(own[index]) for term, index in TERM.items()},
        }
        if name != self.model:
            row["model_minus_this"] = self.to(name).as_json()
        return row


def known(value: float) -> float | None:
    """JSON has no NaN: what one episode cannot tell is null."""
    return value if math.isfinite(value) else None


# --- harm


@dataclass(frozen=True, slots=True)
class Harm:
    """One harm term of the model beside another's, in its own unit an hour and as points of what there was to lose."""

    term: str
    model: float
    other: float
    points: float  # (model - other) in percent of the exposure

    @property
    def worse(self) -> bool:
        """By more than 10 %, and by more than 0.5 points: 10 % of next to nothing harms nobody."""
        return self.model > self.other * (1.0 + HARM_PERCENT / 100.0) and self.points > HARM_POINTS


def harms(model: Outcome, other: Outcome) -> list[Harm]:
    """Every harm term; the other's run says how much there was to lose."""
    mine, theirs = (outcome.played.terms.sum(axis=0) for outcome in (model, other))
    hours = float(other.played.hours.sum())
    exposure = _exposure(other)
    return [
        Harm(
            term,
            float(mine[TERM[term]]) / hours,
            float(theirs[TERM[term]]) / hours,
            100.0 * float(mine[TERM[term]] - theirs[TERM[term]]) / max(exposure[term], 1e-9),
        )
        for term in HARM_TERMS
    ]


def _exposure(outcome: Outcome) -> dict[str, float]:
    """Traffic offered, CPU wanted, pods decided about, pod-seconds run: what each harm is a share of."""
    if outcome.sampled is None:
        raise ValueError("harm needs a sampled outcome")
    sampled, pods = outcome.sampled, float(outcome.played.decisions.sum())
    return {
        "network_loss": sampled.offered_gb,
        "cpu_throttling": sampled.wanted_core_s,
        "memory_kills": pods,
        "latency_violation": sampled.running_pod_s,
        "failures": pods,
        "pending_time": sampled.running_pod_s,
    }


def term_dollars(outcome: Outcome) -> FloatArray:
    """Mean dollars an hour of every term, (terms,)."""
    return np.asarray(dollars(outcome.played.terms_per_hour).mean(axis=0)).reshape(len(TERMS))

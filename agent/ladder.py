"""The ladder: the best scorer that can answer now, and always an answer.

kube-scheduler drops every score without a word when an extender fails, so the sidecar never fails: a step that
is broken, blind or late is skipped, the next one is tried, and the last rung holds all nodes equal. Every answer
says who gave it and why the steps before it were skipped.

One call scores one cluster: which step answers is decided for the whole set of candidates.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from agent.breaker import Breaker, Clock
from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.least_allocated import LeastAllocated
from agent.heuristics.neutral import Neutral
from agent.scorer import OutOfRange, Scorer, Scores, ScoringUnavailable, missing_metrics, neutral_where_missing

logger = logging.getLogger(__name__)

NEUTRAL = Neutral().name

# Why a step was skipped, in one word each: the values of a metric label.
SKIP_REASONS = ("stale", "breaker", "out_of_range", "unavailable", "failed", "not_finite", "deadline")


Within = Callable[[Callable[[], FloatArray], float], FloatArray]

SHARE_OF_A_SLOW_STEP = 0.8  # of the time that is left: the steps after it need some, too


def unlimited(work: Callable[[], FloatArray], limit_s: float) -> FloatArray:
    """Takes as long as it takes."""
    return work()


@dataclass(frozen=True, slots=True)
class Freshness:
    """When metrics are good enough to score by them."""

    stale_after_s: float = 90.0
    min_fresh_share: float = 0.5  # of the candidates; below it a median of the others means nothing


@dataclass(frozen=True, slots=True)
class Step:
    scorer: Scorer
    breaker: Breaker
    freshness: Freshness = field(default_factory=Freshness)
    may_be_slow: bool = False  # it is then given up in time for the next step


@dataclass(frozen=True, slots=True)
class Skip:
    """A step that did not answer: ``reason`` is one of SKIP_REASONS, ``detail`` is for people."""

    step: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.step} skipped: {self.detail}"


class _SkippedError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Question:
    state: ClusterState
    demand: Demand
    candidates: BoolArray
    deadline_s: float


class Ladder:
    """Steps in order, best first; ``on_skip`` is told of every step that did not answer.

    ``within`` runs a step that may be slow and raises TimeoutError when the given seconds are over.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        clock: Clock,
        on_skip: Callable[[Skip], None] = lambda skip: None,
        within: Within = unlimited,
    ) -> None:
        self.steps = tuple(steps)
        self._clock = clock
        self._on_skip = on_skip
        self._within = within

    def with_steps(self, steps: Sequence[Step]) -> Ladder:
        """The same with other steps; whoever climbs this one now is not disturbed."""
        return Ladder(steps, self._clock, self._on_skip, self._within)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray, deadline_s: float = math.inf) -> Scores:
        """Score one cluster; ``deadline_s`` is a time of the ladder's clock, after which no step is begun."""
        if not candidates.any():
            return _neutral(candidates, ["no node is a candidate"])
        question = _Question(state, demand, candidates, deadline_s)
        notes: list[str] = []
        for step in self.steps:
            answer = self._try(step, question)
            if isinstance(answer, Scores):
                return replace(answer, reason="; ".join(filter(None, [*notes, answer.reason]))) if notes else answer
            notes.append(str(answer))
            self._on_skip(answer)
        return _neutral(candidates, notes)

    def _try(self, step: Step, question: _Question) -> Scores | Skip:
        """The one boundary where any exception of a step is caught: a pod must never wait for our mistake."""
        name = step.scorer.name
        try:
            return self._take(step, question)
        except _SkippedError as why:
            return Skip(name, why.reason, str(why))
        except OutOfRange as why:  # says nothing about its health, so it moves no breaker
            return Skip(name, "out_of_range", str(why))
        except TimeoutError as why:
            step.breaker.failed()
            logger.warning("%s skipped: %s", name, why)
            return Skip(name, "deadline", str(why) or "it did not answer in time")
        except ScoringUnavailable as why:
            step.breaker.failed()
            logger.warning("%s skipped: %s", name, why)
            return Skip(name, "unavailable", str(why) or "it cannot answer now")
        except Exception as why:
            step.breaker.failed()
            logger.exception("%s skipped: it failed", name)
            return Skip(name, "failed", f"it failed with {type(why).__name__}")

    def _take(self, step: Step, question: _Question) -> Scores:
        """One step's answer, with the nodes it cannot see held at the median of the others."""
        if self._clock() > question.deadline_s:
            raise _SkippedError("deadline", "the deadline has passed")
        missing = _missing(step, question)
        if not step.breaker.allows():  # asked last: who asks a half-open breaker is its one probe
            raise _SkippedError("breaker", "its breaker is open after repeated failures")
        values = _checked(step, self._score(step, question), question, question.candidates & ~missing)
        notes = [_held_note(step, question, missing)]
        if self._clock() > question.deadline_s:
            step.breaker.failed()  # its answer is here, so it is used; but a slow step must not stay first
            notes.append(f"{step.scorer.name} answered after the deadline")
        else:
            step.breaker.succeeded()
        held = neutral_where_missing(values, question.candidates, missing)
        return Scores(held, step.scorer.name, "; ".join(filter(None, notes)))

    def _score(self, step: Step, question: _Question) -> FloatArray:
        score = partial(step.scorer.score, question.state, question.demand, question.candidates)
        if not step.may_be_slow:
            return score()
        return self._within(score, SHARE_OF_A_SLOW_STEP * (question.deadline_s - self._clock()))


def _missing(step: Step, question: _Question) -> BoolArray:
    """Nodes without a fresh metric that the step needs; too many of them and the step is skipped."""
    missing = missing_metrics(question.state, step.scorer.needs, step.freshness.stale_after_s)
    count = np.count_nonzero(question.candidates)
    fresh = count - np.count_nonzero(question.candidates & missing)
    if fresh < max(1.0, step.freshness.min_fresh_share * count):
        raise _SkippedError("stale", f"only {fresh} of {count} candidates have fresh {', '.join(step.scorer.needs)}")
    return missing


def _checked(step: Step, answer: FloatArray, question: _Question, usable: BoolArray) -> FloatArray:
    values = np.asarray(answer, dtype=np.float64)
    if values.shape != question.candidates.shape:
        raise ValueError(f"{step.scorer.name} gave {values.shape} values for {question.candidates.shape} nodes")
    wrong = np.count_nonzero(~np.isfinite(values) & usable)
    if wrong:
        step.breaker.failed()
        logger.warning("%s skipped: %d values are not finite", step.scorer.name, wrong)
        raise _SkippedError("not_finite", f"{wrong} of its values are not finite")
    return values


def _held_note(step: Step, question: _Question, missing: BoolArray) -> str:
    held = np.count_nonzero(question.candidates & missing)
    if not held:
        return ""
    total = np.count_nonzero(question.candidates)
    return f"{held} of {total} nodes without fresh {', '.join(step.scorer.needs)} held at the median"


def _neutral(candidates: BoolArray, notes: Sequence[str]) -> Scores:
    """The last rung needs nothing and cannot fail."""
    return Scores(np.zeros(candidates.shape), NEUTRAL, "; ".join(notes))


def standard_ladder(
    clock: Clock,
    new_breaker: Callable[[], Breaker],
    freshness: Freshness,
    on_skip: Callable[[Skip], None] = lambda skip: None,
    policy: Scorer | None = None,
    within: Within = unlimited,
    heuristic: Scorer | None = None,
) -> Ladder:
    """The trained policy, where there is one, then a heuristic (by traffic, if none is named), requests, neutral."""
    heuristics: tuple[Scorer, ...] = (heuristic or ExpectedUtilisation(), LeastAllocated())
    steps = [Step(scorer, new_breaker(), freshness) for scorer in heuristics]
    if policy is not None:
        steps.insert(0, Step(policy, new_breaker(), freshness, may_be_slow=True))
    return Ladder(steps, clock, on_skip, within)

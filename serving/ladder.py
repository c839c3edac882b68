"""The ladder that the settings describe, at the start and when they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agent.breaker import Breaker, Clock
from agent.heuristics.registry import scorer_by_name
from agent.ladder import Freshness, Ladder, Skip, Step, Within, standard_ladder, unlimited
from serving.policy import Policy
from serving.settings import Settings


def new_ladder(
    settings: Settings,
    clock: Clock,
    policy: Policy,
    on_skip: Callable[[Skip], None] = lambda skip: None,
    within: Within = unlimited,
) -> Ladder:
    """Without a usable model it begins with the heuristics."""
    freshness = Freshness(settings.ladder.stale_after_s, settings.ladder.min_fresh_share)

    def new_breaker() -> Breaker:
        return Breaker(clock, settings.breaker.failures_to_open, settings.breaker.cooldown_s)

    heuristic = scorer_by_name(settings.ladder.heuristic)
    return standard_ladder(clock, new_breaker, freshness, on_skip, policy.scorer, within, heuristic)


def changed_ladder(old: Ladder, settings: Settings, clock: Clock, policy: Policy, keep_breakers: bool) -> Ladder:
    """The same for a ladder in use: a step that stays keeps its breaker, a new model begins with a closed one."""
    breakers = {step.scorer.name: step for step in old.steps}

    def kept(step: Step) -> Step:
        before = breakers.get(step.scorer.name)
        same = before is not None and before.scorer == step.scorer
        return replace(step, breaker=before.breaker) if before is not None and same and keep_breakers else step

    return old.with_steps([kept(step) for step in new_ladder(settings, clock, policy).steps])

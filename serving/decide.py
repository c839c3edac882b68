"""The one path that every API calls: assumed placements, feasibility, ladder, levels.

Routes translate and never decide; the embedded simulation decides through the same object. Nothing here waits: the
snapshot is in memory, and the ladder always answers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agent.assumed import Assumed, expected_of, requests_of
from agent.breaker import Breaker, Clock
from agent.cluster import BoolArray, ClusterState, Demand, IntArray, Pod
from agent.demand import demand_of
from agent.feasibility import feasibility
from agent.ladder import Freshness, Ladder, Skip, standard_ladder
from agent.quantise import quantise
from agent.scorer import METRIC_GROUPS, Scores
from envs.live.snapshot import Snapshot
from serving.exploration import Exploration
from serving.policy import Policy, load_policy
from serving.settings import Settings

Ages = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates in order: raw values with their source, levels 0 to 10, and the best of them."""

    scores: Scores
    levels: IntArray  # (nodes,)
    best: int | None  # index of a node; None without candidates


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one pod, with everything that explains it."""

    names: tuple[str, ...]
    candidates: BoolArray  # (nodes,): asked for and feasible
    ranking: Ranking
    filtered: dict[str, list[str]]  # nodes that were asked for and cannot take the pod
    demand: Demand
    ages_s: Ages  # median over the asked nodes that have the metric
    model: str | None  # label of the model that answered; None if a heuristic did

    @property
    def best(self) -> str | None:
        return None if self.ranking.best is None else self.names[self.ranking.best]


class Decider:
    def __init__(
        self,
        ladder: Ladder,
        assumed: Assumed,
        clock: Clock,
        deadline_s: float,
        on_ranking: Callable[[Ranking], None] = lambda ranking: None,
        policy: Policy | None = None,
        exploration: Exploration | None = None,
    ) -> None:
        self.ladder = ladder
        self.assumed = assumed
        self.clock = clock
        self.deadline_s = deadline_s
        self.policy = policy or Policy()
        self.exploration = exploration or Exploration()
        self._on_ranking = on_ranking

    def decide(self, snapshot: Snapshot, pod: Pod, asked: BoolArray | None = None, assume: bool = True) -> Decision:
        """Score the asked nodes (all by default); a pod with a UID then counts on the best one until it is seen."""
        now_s = self.clock()
        state = self.assumed.added_to(snapshot.state_at(now_s), snapshot.index_of, now_s, without_uid=pod.uid)
        asked = np.ones(len(snapshot.nodes), dtype=np.bool_) if asked is None else asked
        feasible = feasibility(snapshot.nodes, state, pod)
        demand = demand_of(pod, snapshot.observed, state, snapshot.siblings_of(pod), snapshot.queue_length)
        candidates = feasible.mask & asked
        ranking = self.rank(state, demand, candidates, pod.uid or pod.name, now_s + self.deadline_s)
        names = snapshot.nodes.names
        if assume and pod.uid and ranking.best is not None:
            self.assumed.assume(pod.uid, names[ranking.best], requests_of(demand), expected_of(demand), now_s)
        filtered = {name: why for name, why in feasible.reasons.items() if asked[snapshot.index_of[name]]}
        model = self.policy.label_for(demand, ranking.scores.source)
        return Decision(names, candidates, ranking, filtered, demand, median_ages(state, asked), model)

    def rank(
        self, state: ClusterState, demand: Demand, candidates: BoolArray, key: str, deadline_s: float | None = None
    ) -> Ranking:
        """Order the candidates; ``key`` tells pods apart where nodes are equal."""
        deadline_s = self.clock() + self.deadline_s if deadline_s is None else deadline_s
        explored = self.exploration.scores(key, candidates)
        scores = explored or self.ladder.score(state, demand, candidates, deadline_s)
        ranking = Ranking(scores, quantise(scores.values, candidates), best_node(scores, candidates, key))
        self._on_ranking(ranking)
        return ranking


def best_node(scores: Scores, candidates: BoolArray, key: str) -> int | None:
    """The best candidate; among equals the pod's key chooses, or all pods would meet on the first node."""
    nodes = np.flatnonzero(candidates)
    if not len(nodes):
        return None
    equals = nodes[scores.values[nodes] == scores.values[nodes].max()]
    return int(equals[zlib.crc32(key.encode()) % len(equals)])


def median_ages(state: ClusterState, asked: BoolArray) -> Ages:
    """How old each metric group is on the middle one of these nodes; None where no node has it."""
    ages: Ages = {}
    for group in METRIC_GROUPS:
        age_s = getattr(state, f"{group}_age_s")[asked]
        known = age_s[np.isfinite(age_s)]
        ages[group] = float(np.median(known)) if len(known) else None
    return ages


def new_decider(
    settings: Settings, clock: Clock, on_ranking: Callable[[Ranking], None], on_skip: Callable[[Skip], None]
) -> Decider:
    """The ladder as the settings say; without a usable model it begins with the heuristics."""
    freshness = Freshness(settings.ladder.stale_after_s, settings.ladder.min_fresh_share)
    breaker = settings.breaker
    policy = load_policy(settings.model)

    def new_breaker() -> Breaker:
        return Breaker(clock, breaker.failures_to_open, breaker.cooldown_s)

    return Decider(
        standard_ladder(clock, new_breaker, freshness, on_skip, policy.scorer),
        Assumed(settings.assumed.provisional_s, settings.assumed.bound_s, settings.assumed.window_s),
        clock,
        settings.ladder.deadline_ms / 1000.0,
        on_ranking,
        policy,
        Exploration(settings.exploration.share),
    )

"""The one path that every API calls: assumed placements, feasibility, ladder, levels.

Routes translate and never decide; the embedded simulation decides through the same object. Nothing here waits: the
snapshot is in memory, and the ladder always answers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.assumed import Assumed, expected_of, requests_of
from agent.breaker import Clock
from agent.cluster import BoolArray, ClusterState, Demand, IntArray, Pod
from agent.demand import demand_of
from agent.feasibility import feasibility
from agent.ladder import Ladder, Skip
from agent.quantise import quantise
from agent.scorer import Scores
from envs.live.snapshot import Snapshot
from serving.decision import Decision, Ranking
from serving.decisions import Decisions
from serving.exploration import Exploration
from serving.ladder import changed_ladder, new_ladder
from serving.policy import Policy, load_policy
from serving.rollout import ACTIVE, Verdict
from serving.settings import Settings
from serving.worker import Worker

Number = TypeVar("Number", np.float64, np.int64)


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
        decisions: Decisions | None = None,
    ) -> None:
        self.ladder = ladder
        self.assumed = assumed
        self.clock = clock
        self.deadline_s = deadline_s
        self.policy = policy or Policy()
        self.exploration = exploration or Exploration()
        self.decisions = Decisions() if decisions is None else decisions  # an empty one is false
        self._on_ranking = on_ranking

    def reconfigure(self, settings: Settings, policy: Policy, keep_breakers: bool = True) -> None:
        """Other settings or models while requests go on."""
        self.ladder = changed_ladder(self.ladder, settings, self.clock, policy, keep_breakers)
        self.policy = policy
        self.exploration = Exploration(settings.exploration.share)
        self.deadline_s = settings.ladder.deadline_ms / 1000.0

    def decide(
        self,
        snapshot: Snapshot,
        pod: Pod,
        asked: BoolArray | None = None,
        assume: bool = True,
        rollout: Verdict = ACTIVE,
        deadline_at_s: float | None = None,
    ) -> Decision:
        """Score the asked nodes (all by default); a pod with a UID then counts on the best one until it is seen."""
        decision = self.consider(snapshot, pod, asked, rollout, deadline_at_s)
        self.settle(decision, assume)
        return decision

    def settle(self, decision: Decision, assume: bool = True) -> None:
        """What was considered is the answer: with all consequences."""
        pod, demand = decision.pod, decision.demand
        if assume and decision.applied and pod.uid and decision.best is not None:
            requests, expected = requests_of(demand), expected_of(demand)
            self.assumed.assume(pod.uid, decision.best, requests, expected, self.clock(), pod.app_key)
        self._note(decision)

    def consider(
        self,
        snapshot: Snapshot,
        pod: Pod,
        asked: BoolArray | None = None,
        rollout: Verdict = ACTIVE,
        deadline_at_s: float | None = None,
    ) -> Decision:
        """What ``decide`` would answer, without any consequence. The deadline counts from now if none is given."""
        now_s = self.clock()
        state = snapshot.state_at(now_s, self.assumed, without_uid=pod.uid)
        asked = np.ones(len(snapshot.nodes), dtype=np.bool_) if asked is None else asked
        feasible = feasibility(snapshot.nodes, state, pod)
        siblings = snapshot.siblings_of(pod, self.assumed)
        queue_length = snapshot.queue_with(pod, self.assumed)
        demand = demand_of(pod, snapshot.observed, state, siblings, queue_length)
        candidates = feasible.mask & asked
        ranking = self.rank(state, demand, candidates, pod.uid or pod.name, deadline_at_s or now_s + self.deadline_s)
        return Decision(
            pod=pod,
            names=snapshot.nodes.names,
            candidates=candidates,
            ranking=ranking,
            asked=asked,
            feasible=feasible,
            state=state,
            demand=demand,
            model=self.policy.label_for(demand, ranking.scores.source),
            deadline_s=self.deadline_s,
            took_s=self.clock() - now_s,
            mode=rollout.mode,
            applied=rollout.applied,
        )

    def decide_offered(self, snapshot: Snapshot, pod: Pod, demand: Demand, candidates: BoolArray) -> Decision:
        """The same for a caller that knows the demand and the candidates already, and keeps its own placements."""
        now_s = self.clock()
        ranking = self.rank(snapshot.state, demand, candidates, pod.uid)
        decision = Decision(
            pod=pod,
            names=snapshot.nodes.names,
            candidates=candidates,
            ranking=ranking,
            asked=candidates,
            feasible=None,
            state=snapshot.state,
            demand=demand,
            model=self.policy.label_for(demand, ranking.scores.source),
            deadline_s=self.deadline_s,
            took_s=self.clock() - now_s,
        )
        self._note(decision)
        return decision

    def rank(
        self, state: ClusterState, demand: Demand, candidates: BoolArray, key: str, deadline_s: float | None = None
    ) -> Ranking:
        """Order the candidates; ``key`` tells pods apart where nodes are equal.

        A node that is no candidate changes nothing, so none is looked at: kube-scheduler offers 500 of 5,000.
        """
        deadline_s = self.clock() + self.deadline_s if deadline_s is None else deadline_s
        (places,) = candidates.nonzero()
        everyone = np.ones(len(places), dtype=np.bool_)
        if len(places) < len(candidates):
            state, demand = state.take(places), demand.take(places)
        scores = self.exploration.scores(key, everyone) or self.ladder.score(state, demand, everyone, deadline_s)
        levels, best = quantise(scores.values, everyone), best_node(scores, everyone, key)
        whole = Scores(_spread(scores.values, places, candidates), scores.source, scores.reason)
        return Ranking(whole, _spread(levels, places, candidates), None if best is None else int(places[best]))

    def _note(self, decision: Decision) -> None:
        self._on_ranking(decision.ranking)
        self.decisions.note(decision)


def best_node(scores: Scores, candidates: BoolArray, key: str) -> int | None:
    """The best candidate; among equals the pod's key chooses, or all pods would meet on the first node."""
    (nodes,) = candidates.nonzero()
    if not len(nodes):
        return None
    values = scores.values[nodes]
    equals = nodes[values == values.max()]
    return int(equals[zlib.crc32(key.encode()) % len(equals)])


def _spread(values: NDArray[Number], places: IntArray, over: BoolArray) -> NDArray[Number]:
    """The values at their places among all nodes, 0 elsewhere."""
    spread = np.zeros(len(over), dtype=values.dtype)
    spread[places] = values
    return spread


def new_decider(
    settings: Settings, clock: Clock, on_ranking: Callable[[Ranking], None], on_skip: Callable[[Skip], None]
) -> Decider:
    """Ready to answer as the settings say."""
    policy = load_policy(settings.model)
    return Decider(
        new_ladder(settings, clock, policy, on_skip, Worker().within),
        Assumed(settings.assumed.provisional_s, settings.assumed.bound_s, settings.assumed.window_s),
        clock,
        settings.ladder.deadline_ms / 1000.0,
        on_ranking,
        policy,
        Exploration(settings.exploration.share),
        Decisions(settings.decisions.keep),
    )

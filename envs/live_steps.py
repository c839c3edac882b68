"""One step on a real cluster, from the decision to the next one: what was done, what it cost, what the rewards read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from agent.cluster import FloatArray
from envs.dynamics import costs
from envs.live.session import LiveDecision
from envs.live_costs import Look
from envs.rewards import Outcome, weighted_cost

NOWHERE = -1


class Happened(NamedTuple):
    """What came of one action."""

    bound: int  # index of the node in the decision; NOWHERE: nothing was bound
    after: Look | None  # with metrics that show the pod
    refused: str = ""  # why nothing was bound, where that was not the action's fault

    @property
    def unseen(self) -> bool:
        """Bound, but no metrics came."""
        return self.bound != NOWHERE and self.after is None


@dataclass(frozen=True, slots=True)
class LiveStep:
    decision: LiveDecision
    happened: Happened
    before: FloatArray  # terms a second, (terms,)
    after: FloatArray
    now_s: float
    invalid: bool

    @property
    def elapsed_s(self) -> float:
        return self.now_s - self.decision.at_s

    @property
    def terms(self) -> FloatArray:
        """Of the whole step, at the rates that the metrics showed after it; nothing where they showed nothing."""
        if self.happened.unseen:
            return costs.no_costs()
        terms = self.after * self.elapsed_s
        terms[costs.PENDING] = self.decision.waiting * self.elapsed_s
        return np.asarray(terms)

    def outcome(self) -> Outcome:
        """For the rewards of the thesis: the nodes after the pod came, and its own part."""
        before, after = self.decision.state, self.happened.after
        assert after is not None
        name = self.decision.names[self.happened.bound]
        node, state = after.node(name), after.state
        was = self.happened.bound

        def own(now: FloatArray, then: FloatArray) -> FloatArray:
            return np.asarray(max(float(np.nan_to_num(now[node] - then[was])), 0.0))

        return Outcome(
            terms=self.terms,
            node=np.asarray(node),
            present=np.isfinite(state.rx_mbps),
            pods=state.pods_running,
            connections=np.nan_to_num(state.connections),
            traffic_mbps=np.nan_to_num(state.rx_mbps),
            latency_ms=state.user_latency_ms,
            own_connections=own(state.connections, before.connections),
            own_traffic_mbps=own(state.rx_mbps, before.rx_mbps),
            latency_soft_ms=self.decision.demand.latency_soft_ms,
            latency_hard_ms=self.decision.demand.latency_hard_ms,
        )

    def info(self) -> dict[str, Any]:
        terms, bound = self.terms, self.happened.bound
        return {
            "cost_usd": float(weighted_cost(terms)),
            "terms": dict(zip(costs.TERMS, terms.tolist(), strict=True)),
            "elapsed_s": self.elapsed_s,
            "clock_s": self.now_s,
            "invalid_action": self.invalid,
            "bound_node": bound,
            "bound_node_name": "" if bound == NOWHERE else self.decision.names[bound],
            "decision_source": "none" if bound == NOWHERE else "agent",
            "refused": self.happened.refused,
            "measured": self.happened.after is not None,
            "pod": self.decision.pod_name,
            "added_usd_per_hour": float(weighted_cost(self.after - self.before)) * costs.SECONDS_PER_HOUR,
        }

"""What became of the last decisions, and who makes them: read when somebody looks (S1.35).

A number per node is exported for small clusters only: thousands of series say nothing to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.features import SCHEMA_VERSION
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from envs.live.snapshot import Snapshot
from serving.decide import Decider
from serving.decision import Decision
from serving.decisions import Noted

LAST = 30  # decisions
MOST_NODES = 500
BREAKER_STATES = ("closed", "half-open", "open")


class OutcomeCollector(Collector):
    def __init__(self, snapshot: Callable[[], Snapshot | None], decider: Decider) -> None:
        self._snapshot = snapshot
        self._decider = decider

    def collect(self) -> Iterator[GaugeMetricFamily]:
        last = self._decider.decisions.last(LAST)
        yield self._models()
        yield from self._ladder(last[0].summary()["source"] if last else "")
        yield from _recent(last)
        snapshot = self._snapshot()
        if snapshot is not None and len(snapshot.nodes) <= MOST_NODES:
            yield from _by_node(snapshot)

    def _models(self) -> GaugeMetricFamily:
        info = GaugeMetricFamily("pilotfish_model_info", "1 for each model in use", labels=["kind", "model", "schema"])
        for model in self._decider.policy.models:
            info.add_metric([model.manifest.kind, model.manifest.label, str(SCHEMA_VERSION)], 1.0)
        return info

    def _ladder(self, answered: str) -> Iterator[GaugeMetricFamily]:
        steps = GaugeMetricFamily("pilotfish_ladder_step", "1 for the step that answered last", labels=["step"])
        breakers = GaugeMetricFamily("pilotfish_breaker_state", "1 for its state", labels=["step", "state"])
        for step in self._decider.ladder.steps:
            name, state = step.scorer.name, step.breaker.state
            steps.add_metric([name], float(name == answered))
            for each in BREAKER_STATES:
                breakers.add_metric([name, each], float(each == state))
        yield steps
        yield breakers


def _recent(last: list[Noted]) -> Iterator[GaugeMetricFamily]:
    """NaN where nothing is known: no decision yet, or none that is bound."""
    summaries = [noted.summary() for noted in last]
    bound = [each for each in summaries if each["bound"] and each["best"]]
    decided = [(noted.decision, noted.bound) for noted in last]
    rewards = [reward_of(decision, node) for decision, node in decided if decision is not None]
    figures = {
        "pilotfish_recent_success_ratio": ("Decisions that found a node", [bool(each["best"]) for each in summaries]),
        "pilotfish_recent_first_choice_ratio": (
            "Bound pods on the node ranked first",
            [each["bound"] == each["best"] for each in bound],
        ),
        "pilotfish_recent_reward": ("Estimated reward", [reward for reward in rewards if reward is not None]),
    }
    for name, (meaning, values) in figures.items():
        yield GaugeMetricFamily(name, meaning, value=float(np.mean(values)) if values else float("nan"))


def reward_of(decision: Decision, bound: str | None) -> float | None:
    """Room that is expected to be left on the node, 1 for an empty one, below 0 when overloaded; None if unknown."""
    node = bound if bound in decision.names else decision.best
    if node is None or node not in decision.names:
        return None
    values = ExpectedUtilisation().score(decision.state, decision.demand, decision.candidates)
    value = float(values[decision.names.index(node)]) / 100.0
    return value if np.isfinite(value) else None


def _by_node(snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
    pods = GaugeMetricFamily("pilotfish_node_pods", "Pods on the node", labels=["node"])
    latency = GaugeMetricFamily("pilotfish_node_user_latency_ms", "Latency to the users", labels=["node"])
    state = snapshot.state
    for index, name in enumerate(snapshot.nodes.names):
        pods.add_metric([name], float(state.pods_running[index]))
        latency.add_metric([name], float(state.user_latency_ms[index]))
    yield pods
    yield latency

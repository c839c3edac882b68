"""Decisions and bindings as records of docs/recording.md."""

from __future__ import annotations

import numpy as np

from agent.features import FeatureArray, encode
from envs.workloads.recording_building import column, known, pod_demand
from envs.workloads.recording_records import Bound
from envs.workloads.recording_records import Decision as DecisionRecord
from serving.decision import Decision
from serving.decisions import Event

DIGITS = 6  # of a feature, which is a 32 bit number


def decision_record(event: Event, decision: Decision, feature_nodes: int) -> DecisionRecord:
    asked = np.flatnonzero(decision.candidates)
    best = decision.best_first(feature_nodes)
    encoding = encode(decision.state, decision.demand, decision.candidates)
    scores, ages_s = decision.ranking.scores, decision.ages_s
    return DecisionRecord(
        at_s=event.at_s,
        pod_uid=event.uid,
        demand=pod_demand(decision.demand, decision.pod.namespace, decision.pod.app),
        candidates=tuple(decision.names[node] for node in asked),
        scores=column(scores.values[asked], negative=True),
        source=scores.source,
        reason=scores.reason,
        chosen=decision.best,
        shadow=not decision.applied,
        mode=decision.mode,
        model=decision.model,
        took_ms=known(1000.0 * max(decision.took_s, 0.0)),
        deadline_ms=known(1000.0 * decision.deadline_s),
        cpu_age_s=ages_s["cpu"],
        memory_age_s=ages_s["memory"],
        network_age_s=ages_s["network"],
        levels=tuple(decision.ranking.levels[asked].tolist()),
        pod_features=_row(encoding.pod),
        feature_nodes=tuple(decision.names[node] for node in best),
        node_features=tuple(_row(encoding.nodes[node]) for node in best),
    )


def bound_record(event: Event, node: str, decision: Decision | None, feature_nodes: int) -> Bound:
    """With the features of that node, if the record of the decision lacks them and they are still known."""
    features: tuple[float, ...] = ()
    if decision is not None and node in decision.names:
        place = decision.names.index(node)
        if place not in decision.best_first(feature_nodes):
            features = _row(encode(decision.state, decision.demand, decision.candidates).nodes[place])
    return Bound(at_s=event.at_s, pod_uid=event.uid, node=node, features=features)


def _row(values: FeatureArray) -> tuple[float, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") for value in values.tolist())

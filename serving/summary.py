"""A decision as a few kilobytes of JSON, however large the cluster: what people look at first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from agent.cluster import DEMAND_SOURCES, Demand
from serving.decision import Decision

SHOWN_NODES = 10
SHOWN_REASONS = 10
SHOWN_CHARS = 1000  # of a reason


def summary_of(decision: Decision) -> dict[str, Any]:
    pod, scores = decision.pod, decision.ranking.scores
    return {
        "uid": pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "app": pod.app,
        "best": decision.best,
        "source": scores.source,
        "reason": scores.reason[:SHOWN_CHARS],
        "model": decision.model,
        "mode": decision.mode,
        "applied": decision.applied,
        "candidates": int(np.count_nonzero(decision.candidates)),
        "top": scored(decision, SHOWN_NODES),
        "filtered": filtered_counts(decision.filtered),
        "demand": from_demand(decision.demand),
        "ages_s": decision.ages_s,
        "deadline_ms": 1000.0 * decision.deadline_s,
        "took_ms": 1000.0 * decision.took_s,
    }


def scored(decision: Decision, most: int | None = None) -> list[dict[str, Any]]:
    """The candidates, best first."""
    ranking = decision.ranking
    return [
        {
            "node": decision.names[node],
            "score": int(ranking.levels[node]),
            "value": float(ranking.scores.values[node]),
        }
        for node in decision.best_first(most)
    ]


def filtered_counts(filtered: dict[str, list[str]]) -> dict[str, int]:
    """How many nodes each reason rejects; the text before a colon is the same for every node."""
    counts = Counter(reason.partition(": ")[0] for reasons in filtered.values() for reason in reasons)
    return dict(counts.most_common(SHOWN_REASONS))


def from_demand(demand: Demand) -> dict[str, Any]:
    """What the pod is expected to use, and how that is known."""
    return {
        "cpu_millicores": float(demand.expected_cpu_millicores),
        "memory_mib": float(demand.expected_memory_mib),
        "rx_mbps": float(demand.expected_rx_mbps),
        "tx_mbps": float(demand.expected_tx_mbps),
        "source": DEMAND_SOURCES[int(demand.demand_source)],
        "siblings": int(demand.siblings),
    }

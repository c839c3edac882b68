"""The native score API: its request and its reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agent.cluster import BoolArray, Pod
from agent.errors import InputError
from envs.live import fields
from envs.live.fields import Json
from envs.live.pods import pod_from_api
from envs.live.snapshot import Snapshot
from serving.decision import Decision
from serving.summary import from_demand, scored
from serving.wire.pod import pod_from_requirements

FIELDS = ("pod", "requirements", "nodes", "assume")


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    pod: Pod
    nodes: tuple[str, ...] | None  # None: all
    assume: bool
    warnings: tuple[str, ...]


def to_score_request(content: Json, max_nodes: int) -> ScoreRequest:
    fields.only(content, FIELDS, "the body")
    if (content.get("pod") is None) == (content.get("requirements") is None):
        raise InputError("give either 'pod' (a Kubernetes pod) or 'requirements' (plain values)")
    nodes = None if content.get("nodes") is None else fields.texts(content, "nodes")
    if nodes is not None and len(nodes) > max_nodes:
        raise InputError(f"'nodes' lists {len(nodes)} names, at most {max_nodes} are allowed")
    if content.get("pod") is not None:
        pod, warnings = pod_from_api(fields.an_object(content, "pod"))
    else:
        pod, warnings = pod_from_requirements(fields.an_object(content, "requirements"))
    return ScoreRequest(pod, nodes, fields.typed(content, "assume", bool, True), tuple(warnings))


def asked_nodes(request: ScoreRequest, snapshot: Snapshot) -> BoolArray | None:
    """The named nodes as a mask; an unknown name is the caller's mistake."""
    if request.nodes is None:
        return None
    unknown = [name for name in request.nodes if name not in snapshot.index_of]
    if unknown:
        raise InputError(f"unknown node {unknown[0]!r} in 'nodes'; GET /v1/state lists the {len(snapshot.nodes)} known")
    asked = np.zeros(len(snapshot.nodes), dtype=np.bool_)
    asked[[snapshot.index_of[name] for name in request.nodes]] = True
    return asked


def from_decision(decision: Decision, warnings: tuple[str, ...], deadline_ms: float) -> dict[str, Any]:
    scores = decision.ranking.scores
    return {
        "scores": scored(decision),
        "best": decision.best,
        "source": scores.source,
        "reason": scores.reason,
        "ages_s": decision.ages_s,
        "filtered": decision.filtered,
        "demand": from_demand(decision.demand),
        "warnings": warnings,
        "model": decision.model,
        "deadline_ms": deadline_ms,
    }

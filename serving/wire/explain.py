"""The explain API: its request and its reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.errors import InputError
from agent.explain import Explanation
from envs.live import fields
from envs.live.fields import Json
from serving.decision import Decision
from serving.explaining import Why
from serving.summary import filtered_counts, from_demand, scored
from serving.wire.score import FIELDS as SCORE_FIELDS
from serving.wire.score import ScoreRequest, to_score_request

FIELDS = ("pod", "requirements", "nodes", "uid", "node")
NEXT_BEST = 5
MOST_FILTERED = 100


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A past decision by the UID of its pod, or a question to decide now."""

    uid: str
    question: ScoreRequest | None
    node: str | None


def to_explain_request(content: Json, max_nodes: int) -> ExplainRequest:
    fields.only(content, FIELDS, "the body")
    uid, node = fields.text(content, "uid"), fields.text(content, "node") or None
    asked = {key: content[key] for key in SCORE_FIELDS if content.get(key) is not None}
    if uid and asked:
        raise InputError("give either 'uid' (of a past decision) or a pod to decide about, not both")
    return ExplainRequest(uid, None if uid else to_score_request(asked, max_nodes), node)


def from_why(decision: Decision, why: Why, bound: str | None = None) -> dict[str, Any]:
    scores = decision.ranking.scores
    others = [each for each in scored(decision, NEXT_BEST + 1) if each["node"] != why.node]
    return {
        "node": why.node,
        "sentence": why.sentence,
        **_from_explanation(why.explanation),
        "best": decision.best,
        "bound": bound,
        "next_best": others[:NEXT_BEST],
        "source": scores.source,
        "reason": scores.reason,
        "model": decision.model,
        "demand": from_demand(decision.demand),
        "ages_s": decision.ages_s,
        "filtered": dict(list(decision.filtered.items())[:MOST_FILTERED]),
        "filtered_counts": filtered_counts(decision.filtered),
    }


def _from_explanation(explanation: Explanation | None) -> dict[str, Any]:
    if explanation is None:
        return {"value": None, "value_of_average": None, "contributions": [], "remainder": None}
    return {
        "value": explanation.score,
        "value_of_average": explanation.score_at_mean,
        "contributions": [{"feature": part.feature, "change": part.change} for part in explanation.contributions],
        "remainder": explanation.remainder,
    }

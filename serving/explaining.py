"""Why this node: what moved its score, asked of the step of the ladder that gave it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import InputError
from agent.explain import Explanation, explain
from agent.ladder import Ladder
from agent.scorer import Scorer, ScoringUnavailable
from serving.decision import Decision
from serving.exploration import SOURCE as EXPLORATION


@dataclass(frozen=True, slots=True)
class Why:
    """The explained node of a decision; no explanation means that ``sentence`` says why there is none."""

    node: str | None
    explanation: Explanation | None
    sentence: str


def why(decision: Decision, ladder: Ladder, node: str | None = None) -> Why:
    """Explain the best node of a decision, or the one that is asked for."""
    node = node if node is not None else decision.best
    if node is None:
        return Why(None, None, "No node can take the pod.")
    if node not in decision.names:
        raise InputError(f"unknown node {node!r} in 'node'; GET /v1/state lists the {len(decision.names)} known")
    index = decision.names.index(node)
    if not decision.candidates[index]:
        reasons = "; ".join(decision.filtered.get(node, ["it was not among the nodes asked for"]))
        return Why(node, None, f"{node} was no candidate: {reasons}.")
    return _explained(decision, ladder, node, index)


def _explained(decision: Decision, ladder: Ladder, node: str, index: int) -> Why:
    source = decision.ranking.scores.source
    scorer = _scorer(ladder, source)
    if scorer is None:
        equal = "its place was drawn at random" if source == EXPLORATION else "all candidates are equal"
        return Why(node, None, f"{node}: {equal}, because {source} answered.")
    try:
        (explanation,) = explain(scorer, decision.state, decision.demand, decision.candidates, [index])
    except ScoringUnavailable as unable:
        return Why(node, None, f"{node}: {source} cannot explain it now: {unable}.")
    return Why(node, explanation, explanation.sentence(node))


def _scorer(ladder: Ladder, source: str) -> Scorer | None:
    return next((step.scorer for step in ladder.steps if step.scorer.name == source), None)

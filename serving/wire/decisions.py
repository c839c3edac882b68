"""What was asked about past decisions, and what they were made from."""

from __future__ import annotations

from agent.errors import InputError
from agent.features import NODE_FEATURES, encode
from serving.decisions import Noted

MOST = 1000


def limit_from(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST):
        raise InputError(f"'limit' must be a whole number from 1 to {MOST}, not {text[:40]!r}")
    return int(text)


def features_of(noted: Noted) -> dict[str, dict[str, float]] | None:
    """What the policy saw of the best node and of the one that was bound; None when that is no longer kept."""
    decision = noted.decision
    if decision is None:
        return None
    nodes = encode(decision.state, decision.demand, decision.candidates).nodes
    wanted = [name for name in dict.fromkeys((decision.best, noted.bound)) if name in decision.names]
    return {name: dict(zip(NODE_FEATURES, nodes[decision.names.index(name)].tolist(), strict=True)) for name in wanted}

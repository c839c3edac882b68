"""Which nodes kube-scheduler offers us: it stops looking once it has found enough feasible ones."""

from __future__ import annotations


def candidates_wanted(nodes: int, minimum: int) -> int:
    """kube-scheduler's default: (50 - nodes/125) % of the nodes, at least 5 % and at least ``minimum``."""
    if nodes <= minimum:
        return nodes
    percent = max(50 - nodes // 125, 5)
    return max(nodes * percent // 100, minimum)


def first_node(start: float, nodes: int) -> int:
    """Where the search begins; kube-scheduler goes round, which a random start stands in for."""
    return min(int(start * nodes), nodes - 1)


def latency_allows(latency_ms: float, hard_ms: float) -> bool:
    """A node beyond the hard limit is no candidate (S1.17); NaN means no limit."""
    return not latency_ms > hard_ms

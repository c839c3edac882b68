"""What every search by the cross-entropy method shares: many vectors play the same episodes, the cheapest pull."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agent.cluster import FloatArray, IntArray
from envs.workloads.tape import Tape

# The costs, and the decisions made, of the clusters whose vector and episode these are.
PlayedTogether = Callable[[IntArray, IntArray], tuple[FloatArray, int]]


def towards_elite(
    mean: FloatArray, spread: FloatArray, drawn: FloatArray, cost: FloatArray, elite_share: float, step: float
) -> tuple[FloatArray, FloatArray]:
    """Mean and spread, so far on the way to those of the cheapest of the vectors that were drawn."""
    elite = drawn[np.argsort(cost)[: elite_size(len(drawn), elite_share)]]
    return mean + step * (elite.mean(axis=0) - mean), spread + step * (elite.std(axis=0) - spread)


def elite_size(population: int, elite_share: float) -> int:
    return max(int(elite_share * population), 2)


def costs_on_every_episode(
    vectors: int, tape: Tape, nodes_at_once: int, played: PlayedTogether
) -> tuple[FloatArray, int]:
    """What each vector costs on each episode, (vectors, episodes), and all decisions, within bounded memory."""
    episodes = len(tape.horizon_s)
    which, episode = np.divmod(np.arange(vectors * episodes), episodes)
    at_once = max(nodes_at_once // tape.node_slots, 1)
    cost, decisions = np.empty(len(which)), 0
    for first in range(0, len(which), at_once):
        some = slice(first, first + at_once)
        cost[some], made = played(which[some], episode[some])
        decisions += made
    return cost.reshape(vectors, episodes), decisions

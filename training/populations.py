"""What every search for weights shares: many vectors play the same episodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agent.cluster import FloatArray, IntArray
from envs.workloads.tape import Tape

# The costs, and the decisions made, of the clusters whose vector and episode these are.
PlayedTogether = Callable[[IntArray, IntArray], tuple[FloatArray, int]]


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

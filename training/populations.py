"""What searches for weights share: many vectors play the same episodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import NODE_COLUMN, Encoding
from agent.scorer import neutral_where_missing
from envs.batch_env import BatchEnv
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.rewards import weighted_cost
from envs.workloads.tape import Tape
from training.play import best

# The costs, and the decisions made, of the clusters whose vector and episode these are.
PlayedTogether = Callable[[IntArray, IntArray], tuple[FloatArray, int]]
# The scores of the candidates in these clusters, which see this, (clusters, nodes).
ScoredTogether = Callable[[IntArray, Encoding, BoolArray], FloatArray]
_MISSING = NODE_COLUMN["metric_missing"]


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


def played_by(score: ScoredTogether, tape: Tape, episodes: IntArray, seed: int) -> tuple[FloatArray, int]:
    """Dollars an hour of one cluster for each of these episodes, as ``training.play`` plays it, and all decisions."""
    env, rng = BatchEnv(tape, episodes, threads=1), np.random.default_rng(seed)
    began_s, terms = env.clock_s.copy(), np.zeros((env.clusters, len(TERMS)))
    while not env.done.all():
        (going_on,) = (~env.done).nonzero()
        encoding, candidates = env.encode(), env.candidates()[going_on]
        seen = Encoding(encoding.nodes[going_on], encoding.pod[going_on])
        scores = score(going_on, seen, candidates)
        held = neutral_where_missing(scores, candidates, seen.nodes[..., _MISSING] > 0)
        chosen = np.zeros(env.clusters, dtype=np.int64)
        chosen[going_on] = best(held, candidates, rng)
        terms += env.step(chosen)
    hours = (env.clock_s - began_s) / SECONDS_PER_HOUR
    return np.asarray(weighted_cost(terms) / np.maximum(hours, 1e-9)), int(env.decisions.sum())

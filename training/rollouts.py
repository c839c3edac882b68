"""Look before every decision: try some nodes in copies of the cluster, play each on, and take the cheapest.

The copies are played on by a linear rule, compiled, for some minutes. With the true future this is a clairvoyant; with
futures drawn anew (training.futures) it uses only what an agent may know. The rule's own choice is kept unless another
was cheaper by more than the noise: cheap in one imagined future is not cheap. A node without metrics is taken only if
there is no other, as the sidecar holds it at the median of its peers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import NODE_COLUMN
from envs.batch_env import BatchEnv
from envs.batch_linear import play_linear
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.rewards import weighted_cost
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import make_tapes
from training.futures import Futures, Imagination
from training.play import Played, Progress

POOL = 4  # futures drawn for each that a decision looks at, so that not all decisions expect the same ones
MISSING = NODE_COLUMN["metric_missing"]


@dataclass(frozen=True, slots=True)
class Search:
    """How far and how wide the rollouts look."""

    candidates: int = 6
    ahead_s: float = 300.0
    futures: int = 4


def rollouts(
    scenario: Scenario,
    seed: int,
    episodes: range,
    weights: FloatArray,
    search: Search,
    clairvoyant: bool,
    progress: Progress | None = None,
) -> Played:
    """Play these episodes of the seed, each decision the best of rollouts of the rule with these weights."""
    tape, rng = make_tapes(scenario, seed, episodes), np.random.default_rng((seed, episodes.start))
    env = BatchEnv(tape)
    drawn = POOL * search.futures
    imagined = None if clairvoyant else Imagination(env, Futures(scenario, seed, episodes, drawn), rng)
    began_s = env.clock_s.copy()
    terms = np.zeros((env.clusters, len(TERMS)))
    while not env.done.all():
        terms += env.step(_look_ahead(env, weights, search, imagined, rng))
        if progress is not None:
            progress(float((env.clock_s / tape.horizon_s).mean()))
    return Played(terms, (env.clock_s - began_s) / SECONDS_PER_HOUR, env.decisions)


def _look_ahead(
    env: BatchEnv, weights: FloatArray, search: Search, imagined: Imagination | None, rng: np.random.Generator
) -> IntArray:
    """The node to choose, for every cluster."""
    options, open_ = options_of(env, weights, search.candidates, rng)
    open_[env.done | (open_.sum(axis=1) < 2)] = False  # nothing to choose
    cost = np.full((*options.shape, 1 if imagined is None else search.futures), np.nan)
    for future in range(cost.shape[2]):
        rows, option = np.nonzero(open_)
        if not len(rows):
            break
        twin = env.clone(rows)
        if imagined is not None:
            imagined.apply(env, twin, rows)
        terms = play_linear(twin, weights, until_s=twin.clock_s + search.ahead_s, actions=options[rows, option])
        cost[rows, option, future] = weighted_cost(terms)
        open_ = still_ahead(cost[:, :, : future + 1])
    return np.asarray(np.take_along_axis(options, clearly_cheapest(cost)[:, None], axis=1)[:, 0])


def options_of(env: BatchEnv, weights: FloatArray, count: int, rng: np.random.Generator) -> tuple[IntArray, BoolArray]:
    """The rule's own choice first, then others it likes, then some at random; and which of these may be taken."""
    candidates, nodes = env.candidates(), env.encode().nodes
    seen = candidates & (nodes[:, :, MISSING] == 0)
    candidates = np.where(seen.any(axis=1, keepdims=True), seen, candidates)
    values = np.where(candidates, nodes @ weights, -1e30)
    noise = rng.random(values.shape)
    ranked = np.lexsort((noise, -values, ~candidates), axis=1)
    count = min(count, ranked.shape[1])
    top = (count + 1) // 2
    rest = ranked[:, top:]
    order = np.lexsort((np.take_along_axis(noise, rest, 1), ~np.take_along_axis(candidates, rest, 1)), axis=1)
    options = np.concatenate([ranked[:, :top], np.take_along_axis(rest, order[:, : count - top], 1)], axis=1)
    return options, np.take_along_axis(candidates, options, axis=1)


def still_ahead(cost: FloatArray) -> BoolArray:
    """Options that beat the first one in the mean of the futures so far, and the first one beside any such.

    ``cost`` is (clusters, options, futures); NaN for what was not played.
    """
    difference = (cost - cost[:, :1]).mean(axis=2)
    ahead = difference < 0  # false for NaN
    ahead[:, 0] = ahead[:, 1:].any(axis=1)
    return np.asarray(ahead)


def clearly_cheapest(cost: FloatArray) -> IntArray:
    """The cheapest option if it beats the first one by more than a standard error over the futures, else the first."""
    difference = cost - cost[:, :1]
    mean, futures = difference.mean(axis=2), cost.shape[2]
    error = difference.std(axis=2, ddof=1) / np.sqrt(futures) if futures > 1 else np.zeros(mean.shape)
    return np.asarray(np.argmin(np.where(mean + error < 0, mean, 0.0), axis=1))  # NaN compares as false

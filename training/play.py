"""Play whole episodes with a scorer, many at once; every comparison of policies goes through here.

The same tapes give every scorer the same arrivals, so costs are compared in pairs. The scorer is used as the sidecar
uses it: nodes without metrics are held neutral, and equal values are told apart at random, as kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import STALE_AFTER_S
from agent.scorer import FeatureScorer, Scorer, held_scores, missing_metrics, neutral_where_missing
from envs.batch_env import BatchEnv
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.rewards import weighted_cost
from envs.workloads.tape import Tape

Progress = Callable[[float], None]  # told the share of the work that is done


@dataclass(frozen=True, slots=True)
class Played:
    """What each episode cost: the sum of every term, and the hours over which it ran up."""

    terms: FloatArray  # (episodes, terms)
    hours: FloatArray  # (episodes,)
    decisions: IntArray  # (episodes,)

    @property
    def cost_per_hour(self) -> FloatArray:
        """US dollars an hour, by episode."""
        return np.asarray(weighted_cost(self.terms) / self.hours)

    @property
    def terms_per_hour(self) -> FloatArray:
        return np.asarray(self.terms / self.hours[:, None])


def play(scorer: Scorer, tape: Tape, seed: int = 0, assume: bool = True, progress: Progress | None = None) -> Played:
    """One episode on each tape of the stack."""
    env = BatchEnv(tape, assume=assume)
    rng = np.random.default_rng(seed)
    began_s = env.clock_s.copy()
    terms = np.zeros((env.clusters, len(TERMS)))
    while not env.done.all():
        terms += env.step(choose(scorer, env, rng))
        if progress is not None:
            progress(float((env.clock_s / tape.horizon_s).mean()))
    hours = (env.clock_s - began_s) / SECONDS_PER_HOUR
    return Played(terms, np.maximum(hours, 1e-9), env.decisions)


def choose(scorer: Scorer, env: BatchEnv, rng: np.random.Generator) -> IntArray:
    """The node that the scorer likes best, for every cluster."""
    return best(values_of(scorer, env), env.candidates(), rng)


def values_of(scorer: Scorer, env: BatchEnv) -> FloatArray:
    """The scorer's values for every cluster, as the sidecar uses them; compiled features for who needs no more."""
    state, candidates = env.state(), env.candidates()
    if not isinstance(scorer, FeatureScorer):
        return held_scores(scorer, state, env.demand(), candidates, STALE_AFTER_S)
    missing = missing_metrics(state, scorer.needs, STALE_AFTER_S)
    return neutral_where_missing(scorer.rate(env.encode(), candidates), candidates, missing)


def best(values: FloatArray, candidates: BoolArray, rng: np.random.Generator) -> IntArray:
    """Index of the largest candidate; among equals one at random."""
    allowed = np.where(candidates, values, -np.inf)
    ties = allowed >= allowed.max(axis=-1, keepdims=True)
    return np.asarray(np.argmax(np.where(ties & candidates, rng.random(values.shape), -1.0), axis=-1))

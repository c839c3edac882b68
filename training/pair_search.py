"""Weights by an evolution strategy that is asked for the true cost alone: steps along pairs of opposites.

A generation draws corrections in pairs of opposites, plays all of them on the same fresh episodes and moves along each
pair by how much cheaper the one is than the other: where a few episodes decide the cost, that finds the way from fewer
of them than following the cheapest vectors does (docs/experiments.md). Weights are searched in units in which each of
them tells the candidates of a decision apart as much as the whole score does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray, FloatArray
from agent.features import FeatureArray

AVERAGED_FROM = 0.6  # of the decisions: the means of the generations after it are averaged, as each of them jitters
MOST_USUAL = 3.0  # a pair counts by at most so much: one wild episode must not decide
LEAST_SPREAD, SPREAD_FLOOR = 1e-4, 0.01  # an input that differs by less than the first is left alone

# What each of these vectors costs in the generation of this number, and the decisions that were made.
Costs = Callable[[FloatArray, int], tuple[FloatArray, int]]


@dataclass(frozen=True, slots=True)
class PairSearch:
    """Settings of the method."""

    population: int = 64
    step: float = 0.7  # along a pair, times how much cheaper the one is than the other, over the usual
    first_spread: float = 0.1
    last_spread: float = 0.06  # when all decisions are spent


def search_by_pairs(
    start: FloatArray, used: BoolArray, costs: Costs, decisions: int, search: PairSearch, seed: int
) -> FloatArray:
    """The vector that so many decisions lead to from this start; only those weights move that are used."""
    mean, rng = start, np.random.default_rng(seed)
    spent, generation, later = 0, 0, []
    while spent < decisions:
        spread = search.first_spread * (search.last_spread / search.first_spread) ** (spent / decisions)
        half = spread * used * rng.standard_normal((search.population // 2, len(mean)))
        cost, played = costs(mean + np.concatenate([half, -half]), generation)
        one, other = np.split(cost, 2)
        mean = mean + search.step * along(half, other - one)
        spent, generation = spent + played, generation + 1
        if spent >= AVERAGED_FROM * decisions:
            later.append(mean)
    return np.asarray(np.mean(later, axis=0))


def along(half: FloatArray, cheaper: FloatArray) -> FloatArray:
    """Mean of these directions, (pairs, weights), each by how much cheaper it is than its opposite, over the usual."""
    usual = float(np.sqrt(np.mean(cheaper**2)))
    by = np.clip(cheaper / max(usual, 1e-12), -MOST_USUAL, MOST_USUAL)
    return np.asarray((by[:, None] * half).mean(axis=0))


def per_unit(input_variances: FloatArray, score_variance: float) -> FloatArray:
    """What one unit of a correction adds to each weight, by how far inputs and scores lie apart between candidates.

    0 where an input tells no nodes apart.
    """
    spread = np.sqrt(input_variances)
    return np.where(spread > LEAST_SPREAD, np.sqrt(score_variance) / np.maximum(spread, SPREAD_FLOOR), 0.0)


def variances(values: FloatArray | FeatureArray, candidates: BoolArray) -> FloatArray:
    """Of each column over the candidates, (clusters, columns)."""
    inside = candidates[..., None]
    count = np.maximum(inside.sum(axis=1), 1)
    mean = np.where(inside, values, 0.0).sum(axis=1) / count
    return np.asarray(np.where(inside, (values - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)

"""``pilotfish train-gpu``: the GPU model, tuned by the cross-entropy method on what it is judged by.

Two worlds at once: how much GPU the published packing runs leave unallocated, and what scenario ``gpu`` costs. A
generation draws vectors of weights around a mean, plays all of them on the same new problems and episodes, and moves
the mean towards the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray, IntArray
from agent.features import NODE_COLUMN, NODE_FEATURES, Encoding, FeatureArray, encode
from agent.heuristics.thesis_policies import MostPods
from envs.batch_env import BatchEnv
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.openb_packing import PackingProblem, PublishedRun, published_run, read_percent
from envs.openb_policy import pack_weighted, static_pods
from envs.rewards import weighted_cost
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tapes
from envs.workloads.tape import Tape
from models.gpu_network import GATES, STATES, GpuScorer, gates
from models.linear import load_linear
from training.gpu_config import GpuConfig, Kinds, Phase
from training.gpu_problems import OpenbLists
from training.play import best, play

SCENARIO = "gpu"
FIXED = -1
NO_METRICS = 1e6  # taken off the score of a node without metrics: the sidecar never prefers one
_SLOPE = GATES.index("share x its size")
# Which gates have a packing weight of their own; the slope has none until all have.
_KIND: dict[Kinds, IntArray] = {
    "two": np.array([0, 1, FIXED, 1, 1]),
    "four": np.array([0, 1, FIXED, 2, 3]),
    "all": np.arange(len(GATES)),
}
SHAPE = (len(STATES), len(GATES), len(NODE_FEATURES))


@dataclass(frozen=True, slots=True)
class Generation:
    """What one step of the search found."""

    phase: str
    number: int
    objective: float  # mean of the elite; compares vectors of one generation only
    unallocated_percent: float  # of the mean vector; NaN in a phase without packing problems
    cost_ratio: float  # of the mean vector, over most pods first; NaN in a phase without episodes


@dataclass(slots=True)
class Trained:
    weights: FloatArray  # SHAPE
    decisions: int = 0
    history: list[Generation] = field(default_factory=list)


def train(config: GpuConfig, lists: OpenbLists, told: Callable[[Generation], None]) -> Trained:
    """All phases, each from where the last one ended."""
    trained = Trained(first_weights(config))
    for number, phase in enumerate(config.phases):
        search(trained, config, phase, lists, np.random.default_rng((config.seed, number)), told)
    trained.weights = with_linear(trained.weights, load_linear(SCENARIO).weights, config.from_linear)
    return trained


def with_linear(weights: FloatArray, own: FloatArray, names: Sequence[str]) -> FloatArray:
    """The weights with those of a linear scorer for these features."""
    taken = [NODE_COLUMN[name] for name in names]
    changed = weights.copy()
    changed[0][:, taken] = own[taken]
    changed[0][_SLOPE, taken] = 0.0
    return changed


def first_weights(config: GpuConfig) -> FloatArray:
    weights = np.zeros(SHAPE)
    for name, weight in config.start.items():
        weights[0, :, NODE_COLUMN[name]] = weight
    weights[:, _SLOPE] = 0.0
    return weights


def search(
    trained: Trained,
    config: GpuConfig,
    phase: Phase,
    lists: OpenbLists,
    rng: np.random.Generator,
    told: Callable[[Generation], None],
) -> None:
    """One phase; ``trained`` has its result after every generation."""
    place = moving(config, phase)
    begin = trained.weights.copy()
    mean, spread = np.zeros(place.max() + 1), np.full(place.max() + 1, phase.spread)
    for number in range(phase.generations):
        drawn = mean + spread * rng.standard_normal((config.population, len(mean)))
        drawn[0] = mean
        vectors = begin + np.where(place == FIXED, 0.0, drawn[:, place])
        percent = percents(vectors, config, phase, lists, rng, trained)
        cost = cost_ratios(vectors, config, phase, len(trained.history), trained)
        relative = np.mean(percent / np.maximum(percent.mean(axis=0), 1.0), axis=1) if phase.problems else 0.0
        objective = relative + (config.dollar_weight * cost if phase.episodes else 0.0)
        elite = drawn[np.argsort(objective)[: config.elite]]
        mean = mean + config.step * (elite.mean(axis=0) - mean)
        spread = np.maximum(spread + config.step * (elite.std(axis=0) - spread), config.least_spread)
        trained.weights = begin + np.where(place == FIXED, 0.0, mean[place])
        best = float(np.sort(objective)[: config.elite].mean())
        seen = float(percent[0].mean()) if phase.problems else math.nan
        trained.history.append(Generation(phase.name, number, best, seen, float(cost[0])))
        told(trained.history[-1])


def moving(config: GpuConfig, phase: Phase) -> IntArray:
    """Which number of the search moves each weight, (states, gates, features); FIXED where none does."""
    place = np.full(SHAPE, FIXED)
    numbers = 0
    for state, columns in enumerate((config.columns, config.empty_columns)):
        for name in columns.cost if "cost" in phase.columns else ():
            place[state, :, NODE_COLUMN[name]] = numbers
            place[state, _SLOPE, NODE_COLUMN[name]] = FIXED
            numbers += 1
        for name in columns.packing if "packing" in phase.columns else ():
            place[state, :, NODE_COLUMN[name]] = numbers + _KIND[phase.kinds]
            place[state, _KIND[phase.kinds] == FIXED, NODE_COLUMN[name]] = FIXED
            numbers += len(GATES)
    return np.unique(place, return_inverse=True)[1].reshape(SHAPE) - 1


def percents(
    vectors: FloatArray, config: GpuConfig, phase: Phase, lists: OpenbLists, rng: np.random.Generator, trained: Trained
) -> FloatArray:
    """Unallocated GPU of each vector on new problems, (vectors, problems)."""
    found = np.empty((len(vectors), phase.problems))
    for index in range(phase.problems):
        problem, seed = lists.mixed(config.pods, config.node_share, rng), int(rng.integers(1_000_000))
        gated, the_run = gates_of(static_pods(problem.kinds)), published_run(problem, seed)
        found[:, index] = [played_percent(gated @ weights, problem, the_run) for weights in vectors]
        trained.decisions += len(vectors) * len(the_run[1])
    return found


def played_percent(weights: FloatArray, problem: PackingProblem, the_run: PublishedRun) -> float:
    """Unallocated GPU with these weights, (states, kinds, features)."""
    nodes, arrivals, _ = the_run
    return read_percent(problem, arrivals, pack_weighted(nodes, problem.kinds, arrivals, weights))


def gates_of(pods: FeatureArray) -> FloatArray:
    return np.asarray(gates(torch.from_numpy(pods)).numpy(), dtype=np.float64)


def cost_ratios(vectors: FloatArray, config: GpuConfig, phase: Phase, generation: int, trained: Trained) -> FloatArray:
    """Cost of scenario gpu over that of most pods first, on new episodes, (vectors,); NaN in a phase without them."""
    if not phase.episodes:
        return np.full(len(vectors), np.nan)
    first = generation * phase.episodes
    tape = make_tapes(load_scenario(SCENARIO), config.seed, range(first, first + phase.episodes))
    cost, decisions = costs_of(vectors, tape, np.random.default_rng((config.seed, generation)))
    trained.decisions += decisions
    return np.asarray(cost.mean(axis=1) / play(MostPods(), tape).cost_per_hour.mean())


def costs_of(vectors: FloatArray, tape: Tape, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Dollars an hour of each vector on each episode, (vectors, episodes), and the decisions that it took.

    Scores are whole numbers, and an unmodified kube-scheduler draws among equals.
    """
    episodes = len(tape.horizon_s)
    vector, episode = np.divmod(np.arange(len(vectors) * episodes), episodes)
    env = BatchEnv(tape, episode, threads=1)
    weights = vectors.astype(np.float32)[vector]
    began_s, terms = env.clock_s.copy(), np.zeros((env.clusters, len(TERMS)))
    encoding = env.new_encoding()
    while not env.done.all():
        env.encode(encoding)
        scores = rated(encoding, weights) - NO_METRICS * encoding.nodes[..., NODE_COLUMN["metric_missing"]]
        terms += env.step(best(scores, env.candidates(), rng))
    hours = np.maximum((env.clock_s - began_s) / SECONDS_PER_HOUR, 1e-9)
    return (weighted_cost(terms) / hours).reshape(len(vectors), episodes), int(env.decisions.sum())


def rated(encoding: Encoding, weights: FeatureArray) -> FeatureArray:
    """What GpuScorer answers, for weights of its own in each cluster, (clusters, *SHAPE)."""
    chosen = gates(torch.from_numpy(encoding.pod)).numpy()
    by_feature = np.einsum("...g,...sgf->...sf", chosen, weights)
    always, if_empty = (np.matmul(encoding.nodes, by_feature[..., state, :, None])[..., 0] for state in range(2))
    return np.asarray(np.floor(always + encoding.nodes[..., NODE_COLUMN["empty"]] * if_empty))


@dataclass(frozen=True, slots=True)
class WeightedScorer:
    """A ``FeatureScorer`` with these weights: the network before it is exported."""

    weights: FloatArray  # SHAPE
    name: str = "gpu"
    needs: tuple[str, ...] = ("cpu", "memory", "network")

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        clusters = encoding.pod.shape[:-1]
        weights = np.broadcast_to(self.weights.astype(np.float32), (*clusters, *SHAPE))
        return np.asarray(rated(encoding, weights), dtype=np.float64)

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        return self.rate(encode(state, demand, candidates), candidates)


def network(weights: FloatArray) -> GpuScorer:
    scorer = GpuScorer()
    with torch.no_grad():
        scorer.weights.copy_(torch.from_numpy(weights))
    return scorer

"""A head of its own for one world, on top of what was learned: an evolution strategy, asked for the true cost alone.

Learning judges a decision by an account that is good, not perfect (docs/training.md); near the best weights of a world
its errors outweigh what is left to gain. A search has no such errors, and the head of a network, its linear rule and
its last layer, has few enough weights for one. A generation draws corrections of the head in pairs of opposites, plays
all of them on the same fresh episodes and moves along each pair by how much cheaper the one is than the other: where a
few episodes decide the cost, that finds the way from fewer of them than following the cheapest vectors does
(docs/experiments.md). Pods that ask for GPUs are placed by the released model for them, as they are when it is served.
Weights are searched in units in which each of them tells the candidates of a decision apart as much as the whole
network does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import NODE_COLUMN, NODE_FEATURES, Encoding
from agent.scorer import neutral_where_missing
from envs.batch_env import BatchEnv
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.rewards import weighted_cost
from envs.workloads.tape import Tape
from models.linear import MIX, load_linear, vector_names
from models.network import NodeScorer
from models.onnx_scorer import OnnxScorer
from training.as_served import GPU_REQUEST
from training.contestants import GPU_FOLDER
from training.play import best
from training.populations import costs_on_every_episode
from training.ppo import TrainingWorld, make_stack

NODES_AT_ONCE = 20_000  # over all clusters that are played together: bounds the memory
LOOKS, LOOKED_AT_TAPES = 40, 16  # to find out how far the inputs of the head lie apart
FEWEST_EPISODES = 4  # in a generation
AVERAGED_FROM = 0.6  # of the decisions: the means of the generations after it are averaged, as each of them jitters
MOST_USUAL = 3.0  # a pair counts by at most so much: one wild episode must not decide
LEAST_SPREAD, SPREAD_FLOOR = 1e-4, 0.01  # an input that differs by less than the first is left alone
SEED = 840_000  # of the tapes, and of what is drawn
_MISSING = NODE_COLUMN["metric_missing"]


@dataclass(frozen=True, slots=True)
class Search:
    """Settings of the method."""

    population: int = 64
    generation: int = 600_000  # decisions, of all vectors together
    step: float = 0.7  # along a pair, times how much cheaper the one is than the other, over the usual
    first_spread: float = 0.1
    last_spread: float = 0.06  # when all decisions are spent
    tried: int = 200_000  # decisions of each start, to choose where to start from
    compared: int = 256  # new tapes, on which the head that was found meets what was learned


@dataclass(frozen=True, slots=True)
class Units:
    """How a correction is counted: ``weights = correction x per_unit``; 0 where an input tells no nodes apart."""

    per_unit: FloatArray  # (features + hidden,)

    def corrections(self, weights: FloatArray) -> FloatArray:
        return np.divide(weights, self.per_unit, out=np.zeros_like(self.per_unit), where=self.per_unit > 0)


def search_head(network: NodeScorer, world: TrainingWorld, decisions: int, search: Search) -> FloatArray:
    """Corrections of the network's first head for this world, ``(features + hidden,)``: for its rule and last layer."""
    units = units_of(network, world)
    used = units.per_unit > 0
    episode = _decisions_of_an_episode(network, world)
    episodes = max(round(search.generation / (search.population * episode)), FEWEST_EPISODES)
    mean = units.corrections(_start(network, world, max(round(search.tried / episode), FEWEST_EPISODES)))
    rng = np.random.default_rng(SEED)
    spent, generation, later = 0, 0, []
    while spent < decisions:
        spread = search.first_spread * (search.last_spread / search.first_spread) ** (spent / decisions)
        half = spread * used * rng.standard_normal((search.population // 2, len(mean)))
        drawn = mean + np.concatenate([half, -half])
        tape = make_stack(world, SEED, range(generation * episodes, (generation + 1) * episodes))
        cost, played = costs_of_heads(network, drawn * units.per_unit, tape)
        one, other = np.split(cost.mean(axis=1), 2)
        mean = mean + search.step * along(half, other - one)
        spent, generation = spent + played, generation + 1
        if spent >= AVERAGED_FROM * decisions:
            later.append(mean)
    return np.asarray(np.mean(later, axis=0) * units.per_unit)


def along(half: FloatArray, cheaper: FloatArray) -> FloatArray:
    """Mean of these directions, (pairs, weights), each by how much cheaper it is than its opposite, over the usual."""
    usual = float(np.sqrt(np.mean(cheaper**2)))
    by = np.clip(cheaper / max(usual, 1e-12), -MOST_USUAL, MOST_USUAL)
    return np.asarray((by[:, None] * half).mean(axis=0))


def costs_of_heads(network: NodeScorer, corrections: FloatArray, tape: Tape) -> tuple[FloatArray, int]:
    """Dollars an hour of the network with each correction on each episode, (corrections, episodes), and decisions."""
    heads = torch.from_numpy(corrections.astype(np.float32))

    def played(which: IntArray, episodes: IntArray) -> tuple[FloatArray, int]:
        return _played(network, heads[torch.from_numpy(which)], tape, episodes)

    return costs_on_every_episode(len(corrections), tape, NODES_AT_ONCE, played)


def _played(network: NodeScorer, heads: Tensor, tape: Tape, episodes: IntArray) -> tuple[FloatArray, int]:
    """One cluster for each row of heads, as ``training.play`` plays it."""
    env, rng = BatchEnv(tape, episodes, threads=1), np.random.default_rng(SEED)
    began_s, terms = env.clock_s.copy(), np.zeros((env.clusters, len(TERMS)))
    while not env.done.all():
        (going_on,) = (~env.done).nonzero()
        encoding, candidates = env.encode(), env.candidates()[going_on]
        nodes, pod = encoding.nodes[going_on], encoding.pod[going_on]
        scores = _scores(network, heads[going_on], *map(torch.from_numpy, (nodes, pod, candidates)))
        (asks,) = (pod[:, GPU_REQUEST] > 0).nonzero()
        if len(asks) and (gpu := _gpu_model()) is not None:
            scores[asks] = gpu.rate(Encoding(nodes[asks], pod[asks]), candidates[asks])
        held = neutral_where_missing(scores, candidates, nodes[..., _MISSING] > 0)
        chosen = np.zeros(env.clusters, dtype=np.int64)
        chosen[going_on] = best(held, candidates, rng)
        terms += env.step(chosen)
    hours = (env.clock_s - began_s) / SECONDS_PER_HOUR
    return np.asarray(weighted_cost(terms) / np.maximum(hours, 1e-9)), int(env.decisions.sum())


@cache
def _gpu_model() -> OnnxScorer | None:
    return OnnxScorer.load(GPU_FOLDER) if GPU_FOLDER.is_dir() else None


@torch.no_grad()
def _scores(network: NodeScorer, heads: Tensor, nodes: Tensor, pod: Tensor, mask: Tensor) -> FloatArray:
    embedding = network.embed(nodes, pod, mask)
    seen = torch.cat([nodes, embedding.nodes], dim=-1)
    scores = network.from_embedding(embedding, nodes) + (seen @ heads.unsqueeze(-1)).squeeze(-1)
    return np.asarray(scores.double().numpy())


def _decisions_of_an_episode(network: NodeScorer, world: TrainingWorld) -> float:
    nothing = np.zeros((1, len(NODE_FEATURES) + network.hidden))
    return costs_of_heads(network, nothing, make_stack(world, SEED, range(FEWEST_EPISODES)))[1] / FEWEST_EPISODES


@torch.no_grad()
def units_of(network: NodeScorer, world: TrainingWorld) -> Units:
    """From how far the inputs of the head, and the scores, lie apart between the candidates of a decision."""
    env = BatchEnv(make_stack(world, SEED, range(LOOKED_AT_TAPES)), threads=1)
    variances, score_variance = np.zeros(len(NODE_FEATURES) + network.hidden), 0.0
    for _ in range(LOOKS):
        candidates, encoding = env.candidates(), env.encode()
        nodes, pod, mask = map(torch.from_numpy, (encoding.nodes, encoding.pod, candidates))
        embedding = network.embed(nodes, pod, mask)
        scores = network.from_embedding(embedding, nodes)
        variances += _variances(torch.cat([nodes, embedding.nodes], dim=-1).numpy(), candidates).mean(axis=0)
        score_variance += float(_variances(scores.unsqueeze(-1).numpy(), candidates).mean())
        env.step(np.where(candidates, scores.numpy(), -np.inf).argmax(axis=-1))
    spread = np.sqrt(variances / LOOKS)
    spread[_MISSING] = 0.0  # such a node is never chosen, whatever its weight
    per_unit = np.sqrt(score_variance / LOOKS) / np.maximum(spread, SPREAD_FLOOR)
    return Units(np.where(spread > LEAST_SPREAD, per_unit, 0.0))


def _variances(values: FloatArray, candidates: BoolArray) -> FloatArray:
    """Of each column over the candidates, (clusters, columns)."""
    inside = candidates[..., None]
    count = np.maximum(inside.sum(axis=1), 1)
    mean = np.where(inside, values, 0.0).sum(axis=1) / count
    return np.asarray(np.where(inside, (values - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)


def _start(network: NodeScorer, world: TrainingWorld, tapes: int) -> FloatArray:
    """No correction, or a linear scorer (the mix, the world's own) in place of the rule or of the whole head.

    Whichever is cheapest on a few tapes.
    """
    rule = network.rule.weight.detach().double().numpy()[0] * network.sharpness.item()
    score = network.score.weight.detach().double().numpy()[0]
    starts = [np.zeros(len(rule) + len(score))]
    for name in sorted({MIX, world.scenario.name} & set(vector_names())):
        linear = load_linear(name).weights
        as_long = linear * np.linalg.norm(rule) / np.linalg.norm(linear)
        starts += [np.concatenate([as_long - rule, layer]) for layer in (np.zeros_like(score), -score)]
    cost, _ = costs_of_heads(network, np.array(starts), make_stack(world, SEED - 1, range(tapes)))
    return starts[int(cost.mean(axis=1).argmin())]

"""A head of its own for one world, on top of what was learned: an evolution strategy, asked for the true cost alone.

Learning judges a decision by an account that is good, not perfect (docs/training.md); near the best weights of a world
its errors outweigh what is left to gain. A search has no such errors, and the head of a network, its linear rule and
its last layer, has few enough weights for one (training.pair_search). Pods that ask for GPUs are placed by the released
model for them, as they are when it is served.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import NODE_COLUMN, NODE_FEATURES, Encoding
from envs.batch_env import BatchEnv
from envs.workloads.tape import Tape
from models.linear import MIX, load_linear, vector_names
from models.network import NodeScorer
from models.onnx_scorer import OnnxScorer
from training.as_served import GPU_REQUEST
from training.contestants import GPU_FOLDER
from training.pair_search import PairSearch, per_unit, search_by_pairs, variances
from training.populations import costs_on_every_episode, played_by
from training.ppo import TrainingWorld, make_stack

NODES_AT_ONCE = 20_000  # over all clusters that are played together: bounds the memory
LOOKS, LOOKED_AT_TAPES = 40, 16  # to find out how far the inputs of the head lie apart
FEWEST_EPISODES = 4  # in a generation
SEED = 840_000  # of the tapes, and of what is drawn
_MISSING = NODE_COLUMN["metric_missing"]


@dataclass(frozen=True, slots=True)
class Search(PairSearch):
    """Of a head: how much a generation plays, where it starts, and how it is judged in the end."""

    generation: int = 600_000  # decisions, of all vectors together
    tried: int = 200_000  # decisions of each start, to choose where to start from
    compared: int = 256  # new tapes, on which the head that was found meets what was learned


@dataclass(frozen=True, slots=True)
class Units:
    """How a correction is counted: ``weights = correction x per_unit``; 0 where an input tells no nodes apart."""

    per_unit: FloatArray  # (features + hidden,)

    def corrections(self, weights: FloatArray) -> FloatArray:
        return np.divide(weights, self.per_unit, out=np.zeros_like(self.per_unit), where=self.per_unit > 0)


def search_head(
    network: NodeScorer, world: TrainingWorld, decisions: int, search: Search, start: FloatArray | None = None
) -> FloatArray:
    """Corrections of the network's first head for this world, ``(features + hidden,)``: for its rule and last layer.

    ``start`` is a correction, too; without one the cheapest of some is taken.
    """
    units = units_of(network, world)
    used = units.per_unit > 0
    episode = _decisions_of_an_episode(network, world)
    episodes = max(round(search.generation / (search.population * episode)), FEWEST_EPISODES)
    if start is None:
        start = _start(network, world, max(round(search.tried / episode), FEWEST_EPISODES))

    def costs(drawn: FloatArray, generation: int) -> tuple[FloatArray, int]:
        tape = make_stack(world, SEED, range(generation * episodes, (generation + 1) * episodes))
        cost, played = costs_of_heads(network, drawn * units.per_unit, tape)
        return cost.mean(axis=1), played

    return search_by_pairs(units.corrections(start), used, costs, decisions, search, SEED) * units.per_unit


def costs_of_heads(network: NodeScorer, corrections: FloatArray, tape: Tape) -> tuple[FloatArray, int]:
    """Dollars an hour of the network with each correction on each episode, (corrections, episodes), and decisions."""
    heads = torch.from_numpy(corrections.astype(np.float32))

    def played(which: IntArray, episodes: IntArray) -> tuple[FloatArray, int]:
        own = heads[torch.from_numpy(which)]

        def score(clusters: IntArray, seen: Encoding, candidates: BoolArray) -> FloatArray:
            scores = _scores(network, own[clusters], *map(torch.from_numpy, (seen.nodes, seen.pod, candidates)))
            (asks,) = (seen.pod[:, GPU_REQUEST] > 0).nonzero()
            if len(asks) and (gpu := _gpu_model()) is not None:
                scores[asks] = gpu.rate(Encoding(seen.nodes[asks], seen.pod[asks]), candidates[asks])
            return scores

        return played_by(score, tape, episodes, SEED)

    return costs_on_every_episode(len(corrections), tape, NODES_AT_ONCE, played)


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
    of_inputs, of_scores = np.zeros(len(NODE_FEATURES) + network.hidden), 0.0
    for _ in range(LOOKS):
        candidates, encoding = env.candidates(), env.encode()
        nodes, pod, mask = map(torch.from_numpy, (encoding.nodes, encoding.pod, candidates))
        embedding = network.embed(nodes, pod, mask)
        scores = network.from_embedding(embedding, nodes)
        of_inputs += variances(torch.cat([nodes, embedding.nodes], dim=-1).numpy(), candidates).mean(axis=0)
        of_scores += float(variances(scores.unsqueeze(-1).numpy(), candidates).mean())
        env.step(np.where(candidates, scores.numpy(), -np.inf).argmax(axis=-1))
    of_inputs[_MISSING] = 0.0  # such a node is never chosen, whatever its weight
    return Units(per_unit(of_inputs / LOOKS, of_scores / LOOKS))


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

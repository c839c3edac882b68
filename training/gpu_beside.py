"""The last step of the GPU model: the weights that say nothing about packing, searched for beside the default model.

Pods without GPUs are placed by the released model for them, as they are when it is served; before this step the GPU
model placed all of them. What moves is of no effect in the packing world, so packing stays as it was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import NODE_COLUMN, NODE_FEATURES, Encoding
from agent.heuristics.thesis_policies import MostPods
from envs.batch_env import BatchEnv
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tapes
from envs.workloads.tape import Tape
from models.gpu_network import GATES
from models.onnx_scorer import OnnxScorer
from training.as_served import GPU_REQUEST
from training.contestants import DEFAULT_FOLDER
from training.head_search import NODES_AT_ONCE
from training.pair_search import PairSearch, per_unit, search_by_pairs, variances
from training.play import best, play
from training.populations import costs_on_every_episode, played_by
from training.train_gpu import NO_METRICS, SCENARIO, Generation, rated

SEED = 870_000  # of the tapes, and of what is drawn
EPISODES = 10  # in a generation
LOOKED_AT_TAPES = 24  # to find out how far the features lie apart
KINDS = [GATES.index(name) for name in ("share", "one GPU", "several GPUs")]  # each has weights of its own


def search_beside(
    weights: FloatArray,
    names: Sequence[str],
    decisions: int,
    told: Callable[[Generation], None],
    search: PairSearch | None = None,
) -> FloatArray:
    """The weights, (states, gates, features), with cheaper ones for these features."""
    columns, units = [NODE_COLUMN[name] for name in names], units_of(weights)
    scale = np.tile(units[columns], len(KINDS))
    scenario, default = load_scenario(SCENARIO), OnnxScorer.load(DEFAULT_FOLDER)

    def corrected(corrections: FloatArray) -> FloatArray:
        vectors = np.repeat(weights[None], len(corrections), axis=0)
        more = (corrections * scale).reshape(len(corrections), len(KINDS), len(columns))
        for number, kind in enumerate(KINDS):
            vectors[:, 0, kind, columns] += more[:, number]
        return vectors

    def costs(drawn: FloatArray, generation: int) -> tuple[FloatArray, int]:
        tape = make_tapes(scenario, SEED, range(generation * EPISODES, (generation + 1) * EPISODES))
        cost, played = costs_beside(default, corrected(drawn), tape)
        usual = play(MostPods(), tape).cost_per_hour.mean()
        told(Generation("beside", generation, float(cost.mean()), math.nan, float(cost.mean() / usual)))
        return cost.mean(axis=1), played

    found = search_by_pairs(np.zeros(len(scale)), scale > 0, costs, decisions, search or PairSearch(), SEED)
    return np.asarray(corrected(found[None])[0])


def costs_beside(default: OnnxScorer, vectors: FloatArray, tape: Tape) -> tuple[FloatArray, int]:
    """Dollars an hour of each vector of weights on each episode, (vectors, episodes), and the decisions."""
    single = vectors.astype(np.float32)

    def played(which: IntArray, episodes: IntArray) -> tuple[FloatArray, int]:
        def score(clusters: IntArray, seen: Encoding, candidates: BoolArray) -> FloatArray:
            scores, asks = np.zeros(candidates.shape), seen.pod[:, GPU_REQUEST] > 0
            if asks.any():
                scores[asks] = rated(Encoding(seen.nodes[asks], seen.pod[asks]), single[which[clusters[asks]]])
            if not asks.all():
                others = Encoding(seen.nodes[~asks], seen.pod[~asks])
                scores[~asks] = default.rate(others, candidates[~asks])
            return scores

        return played_by(score, tape, episodes, SEED)

    return costs_on_every_episode(len(vectors), tape, NODES_AT_ONCE, played)


def units_of(weights: FloatArray) -> FloatArray:
    """What one unit of a correction adds to the weight of each feature (``training.pair_search``)."""
    tape = make_tapes(load_scenario(SCENARIO), SEED - 1, range(LOOKED_AT_TAPES))
    env, rng = BatchEnv(tape, np.arange(LOOKED_AT_TAPES), threads=1), np.random.default_rng(SEED)
    everywhere = np.broadcast_to(weights.astype(np.float32), (env.clusters, *weights.shape))
    of_features, of_scores, looks = np.zeros(len(NODE_FEATURES)), 0.0, 0
    while not env.done.all():
        encoding, candidates = env.encode(), env.candidates()
        scores = rated(encoding, everywhere)
        asks = (encoding.pod[:, GPU_REQUEST] > 0) & ~env.done & candidates.any(axis=-1)
        if asks.any():
            of_features += variances(encoding.nodes[asks], candidates[asks]).mean(axis=0)
            of_scores += float(variances(scores[asks][..., None], candidates[asks]).mean())
            looks += 1
        env.step(best(scores - NO_METRICS * encoding.nodes[..., NODE_COLUMN["metric_missing"]], candidates, rng))
    return per_unit(of_features / looks, of_scores / looks)

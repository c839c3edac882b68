"""The released GPU model on the published packing lists, beside the policies that were published for them.

A run of 1,213 nodes and 8,000 pods would be millions of calls of the model. Its score is a rounded sum over features
of a node, given the pod and whether the node is empty, so the weights are taken out of the model once for every kind of
pod and the run is played compiled. That they give what the model answers is checked on a real run, never assumed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agent.cluster import FloatArray
from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES, FeatureArray, encode
from envs.openb_packing import PackingProblem, PublishedRun, published_run, read_percent, unallocated_percent
from envs.openb_policy import as_seen, pack_weighted, place, static_pods, views
from envs.packing import UNPLACED, empty_world
from models.manifest import Manifest, read_model
from models.onnx_scorer import OnnxScorer
from models.onnx_weights import gpu_weights
from training.gpu_problems import OpenbLists, list_names
from training.train_gpu import gates_of

MODEL = "model"
OTHERS = ("best_fit", "fgd", "first_fit")
CHECK_EVERY = 500  # pods of a run
MAX_OTHER_SHARE = 0.02  # of the scores: the model adds in single precision, and at the edge of a level that shows
_EMPTY = NODE_COLUMN["empty"]


def gpu_list_results(folder: Path, model: Path, seeds: int = 10) -> dict[str, dict[str, float]]:
    """Mean unallocated GPU in percent at 100 % arrived, by list and policy, every policy on the same runs.

    ``folder`` holds the openb lists, ``model`` is a model folder.
    """
    lists = OpenbLists.read(folder, list_names(folder))
    return {name: _results(lists.problem(name), model, range(seeds)) for name in lists.pods}


def _results(problem: PackingProblem, model: Path, seeds: range) -> dict[str, float]:
    manifest, content = read_model(model)
    scorer = OnnxScorer(manifest, content)
    weights = kept_weights(content, static_pods(problem.kinds))
    clip = clip_of(scorer.manifest)
    runs = [published_run(problem, seed) for seed in seeds]
    check_kept(scorer, weights, problem, runs[0])
    percent = [
        read_percent(problem, run.arrivals, pack_weighted(run.nodes, problem.kinds, run.arrivals, weights, clip))
        for run in runs
    ]
    others = {
        policy: float(np.mean([unallocated_percent(problem, policy, seed) for seed in seeds])) for policy in OTHERS
    }
    return {MODEL: float(np.mean(percent)), **others}


def kept_weights(model: bytes, pods: FeatureArray) -> FloatArray:
    """The weights that an ONNX model gives each of these pods, as ``pack_weighted`` takes them: (2, pods, features)."""
    return np.asarray(gates_of(pods) @ gpu_weights(model))


def clip_of(manifest: Manifest) -> FloatArray:
    """What the sidecar clips the features of a node to, as ``pack_weighted`` takes it."""
    ranges = [manifest.node_features[name] for name in NODE_FEATURES]
    return np.array([[each.min for each in ranges], [each.max for each in ranges]])


def check_kept(scorer: OnnxScorer, weights: FloatArray, problem: PackingProblem, run: PublishedRun) -> None:
    """Refuse a model that answers otherwise than by these weights, as it is served, anywhere in this run."""
    world = empty_world(run.nodes, problem.kinds)
    live, _ = views(run.nodes, world)
    clip = clip_of(scorer.manifest)
    chosen = pack_weighted(run.nodes, problem.kinds, run.arrivals, weights, clip)
    for arrival, (kind, node) in enumerate(zip(run.arrivals.tolist(), chosen.tolist(), strict=True)):
        if arrival % CHECK_EVERY == 0:
            state, demand, candidates = as_seen(run.nodes, world, live, kind)
            encoding = encode(state, demand, candidates)
            rows = np.clip(encoding.nodes, *clip)
            kept = np.floor(rows @ weights[0, kind] + rows[:, _EMPTY] * (rows @ weights[1, kind]))
            same = (scorer.rate(encoding, candidates) == kept)[candidates]
            if candidates.any() and same.mean() < 1.0 - MAX_OTHER_SHARE:
                raise InputError(
                    f"model {scorer.manifest.label} does not score a node by itself and the pod's GPUs alone ("
                    f"{1.0 - same.mean():.0%} of the scores differ): a packing run cannot keep its scores"
                )
        if node != UNPLACED:
            place(world, live, kind, node)

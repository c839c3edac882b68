"""The released GPU model on the published packing lists, beside the policies that were published for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agent.cluster import FloatArray
from agent.features import Encoding, FeatureArray
from envs.openb_packing import PackingProblem, published_run, read_percent, unallocated_percent
from envs.openb_policy import pack_rated
from models.onnx_scorer import OnnxScorer
from training.gpu_problems import OpenbLists, list_names

MODEL = "model"
OTHERS = ("best_fit", "fgd", "first_fit")


def gpu_list_results(folder: Path, model: Path, seeds: int = 10) -> dict[str, dict[str, float]]:
    """Mean unallocated GPU in percent at 100 % arrived, by list and policy, every policy on the same runs.

    ``folder`` holds the openb lists, ``model`` is a model folder; it plays through onnxruntime, as it is served.
    """
    scorer = OnnxScorer.load(model)
    lists = OpenbLists.read(folder, list_names(folder))
    return {name: _results(lists.problem(name), scorer, range(seeds)) for name in lists.pods}


def model_percent(problem: PackingProblem, scorer: OnnxScorer, seed: int) -> float:
    """One published run of the model."""
    nodes, arrivals, _ = published_run(problem, seed)

    def rate(rows: FeatureArray, pod: FeatureArray) -> FloatArray:
        return scorer.rate(Encoding(rows, pod), np.ones(len(rows), dtype=np.bool_))

    return read_percent(problem, arrivals, pack_rated(nodes, problem.kinds, arrivals, rate))


def _results(problem: PackingProblem, scorer: OnnxScorer, seeds: range) -> dict[str, float]:
    results = {MODEL: float(np.mean([model_percent(problem, scorer, seed) for seed in seeds]))}
    for policy in OTHERS:
        results[policy] = float(np.mean([unallocated_percent(problem, policy, seed) for seed in seeds]))
    return results

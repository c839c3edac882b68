"""The last search of the GPU model: played as it is served, cheaper, and of no effect on anything else."""

from __future__ import annotations

import numpy as np
import pytest

from agent.errors import InputError
from agent.features import NODE_COLUMN
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tapes
from models.manifest import read_model
from models.onnx_scorer import OnnxScorer
from models.onnx_weights import gpu_weights
from training import gpu_beside
from training.as_served import ByGpus
from training.contestants import DEFAULT_FOLDER, GPU_FOLDER
from training.gpu_beside import KINDS, costs_beside, search_beside
from training.pair_search import PairSearch
from training.play import play
from training.train_gpu import SCENARIO, Generation, WeightedScorer

FRESH = 5
FEATURE = "cross_zone_traffic"


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    return gpu_weights(read_model(GPU_FOLDER)[1])


@pytest.fixture(scope="module")
def default() -> OnnxScorer:
    return OnnxScorer.load(DEFAULT_FOLDER)


def test_pods_without_gpus_are_placed_by_the_default_model(weights: np.ndarray, default: OnnxScorer) -> None:
    tape = make_tapes(load_scenario(SCENARIO), FRESH, range(1))
    (cost,), decisions = costs_beside(default, weights[None], tape)
    served = play(ByGpus(default, WeightedScorer(weights)), tape, seed=gpu_beside.SEED)  # type: ignore[arg-type]
    alone = play(WeightedScorer(weights), tape, seed=gpu_beside.SEED)
    np.testing.assert_allclose(cost, served.cost_per_hour, rtol=1e-6)
    assert decisions == int(served.decisions.sum())
    assert cost != pytest.approx(alone.cost_per_hour)


def test_a_spoilt_weight_is_mended_and_the_others_stay(
    weights: np.ndarray, default: OnnxScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_beside, "EPISODES", 2)
    spoilt, column, told = weights.copy(), NODE_COLUMN[FEATURE], list[Generation]()
    spoilt[0, KINDS, column] = 10.0  # prefers the nodes that cost most traffic between zones
    search = PairSearch(population=8, first_spread=0.5, last_spread=0.2)
    found = search_beside(spoilt, [FEATURE], 30_000, told.append, search)
    tape = make_tapes(load_scenario(SCENARIO), FRESH, range(6))
    (before, after), _ = costs_beside(default, np.array([spoilt, found]), tape)
    assert after.mean() < 0.995 * before.mean()
    assert [each.number for each in told] == list(range(len(told)))
    moved = found != spoilt
    assert moved[0, KINDS, column].all()
    moved[0, KINDS, column] = False
    assert not moved.any()


def test_the_weights_of_another_model_are_no_start() -> None:
    with pytest.raises(InputError, match="does not hold the weights"):
        gpu_weights(read_model(DEFAULT_FOLDER)[1])

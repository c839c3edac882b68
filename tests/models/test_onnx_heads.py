"""A network with specialists, as the shipped one, on its way to the sidecar: the gate must come along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from agent.features import NODE_FEATURES, POD_FEATURES, Encoding
from models.network import NodeScorer
from models.onnx_scorer import OnnxScorer
from tests.tiny_model import facts
from training.export import export

SEEDS = range(20)


def three_heads() -> NodeScorer:
    """Every weight drawn at random, so that the gate differs from cluster to cluster."""
    scorer = NodeScorer(hidden=8, priors=np.zeros((3, len(NODE_FEATURES))))
    draws = torch.Generator().manual_seed(0)
    for parameter in scorer.parameters():
        parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=draws))
    return scorer


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> OnnxScorer:
    folder: Path = tmp_path_factory.mktemp("heads") / "default"
    export(three_heads(), folder, facts(), checked_states=5)
    return OnnxScorer.load(folder)


def a_question(seed: int) -> tuple[Encoding, np.ndarray]:
    """Two clusters of one size."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(1, 60))
    features = rng.normal(size=(2, nodes, len(NODE_FEATURES))).astype(np.float32)
    mask = rng.random((2, nodes)) < 0.7
    mask[:, rng.integers(nodes)] = True
    return Encoding(features, rng.normal(size=(2, len(POD_FEATURES))).astype(np.float32)), mask


@pytest.mark.parametrize("seed", SEEDS)
def test_onnx_equals_torch(scorer: OnnxScorer, seed: int) -> None:
    encoding, mask = a_question(seed)
    with torch.no_grad():
        wanted = three_heads()(*map(torch.from_numpy, (encoding.nodes, encoding.pod, mask))).numpy()
    np.testing.assert_allclose(scorer.rate(encoding, mask)[mask], wanted[mask], atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_permuting_the_nodes_permutes_the_scores(scorer: OnnxScorer, seed: int) -> None:
    encoding, mask = a_question(seed)
    order = np.random.default_rng(seed).permutation(mask.shape[-1])
    permuted = scorer.rate(Encoding(encoding.nodes[:, order], encoding.pod), mask[:, order])
    wanted = scorer.rate(encoding, mask)[:, order]
    np.testing.assert_allclose(permuted[mask[:, order]], wanted[mask[:, order]], atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_adding_infeasible_nodes_changes_nothing(scorer: OnnxScorer, seed: int) -> None:
    encoding, mask = a_question(seed)
    strange = np.full((2, 3, len(NODE_FEATURES)), 9.0, dtype=np.float32)
    larger = Encoding(np.concatenate([encoding.nodes, strange], axis=1), encoding.pod)
    values = scorer.rate(larger, np.concatenate([mask, np.zeros((2, 3), dtype=bool)], axis=1))
    np.testing.assert_allclose(values[:, : mask.shape[-1]][mask], scorer.rate(encoding, mask)[mask], atol=1e-5)

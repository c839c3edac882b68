"""What holds a trained policy together on its way from torch to the sidecar."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent.features import NODE_FEATURES, POD_FEATURES, Encoding
from models.onnx_scorer import OnnxScorer
from tests.tiny_model import tiny_scorer

NODE_COUNTS = st.integers(1, 60)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def scorer(model_folder):
    return OnnxScorer.load(model_folder)


def a_question(seed: int, nodes: int, *lead: int) -> tuple[Encoding, np.ndarray]:
    rng = np.random.default_rng(seed)
    encoding = Encoding(
        rng.normal(size=(*lead, nodes, len(NODE_FEATURES))).astype(np.float32),
        rng.normal(size=(*lead, len(POD_FEATURES))).astype(np.float32),
    )
    mask = rng.random((*lead, nodes)) < 0.7
    mask[..., rng.integers(nodes)] = True
    return encoding, mask


@given(seed=SEEDS, nodes=st.integers(1, 500))
def test_onnx_equals_torch(scorer, seed, nodes):
    encoding, mask = a_question(seed, nodes, 2)
    with torch.no_grad():
        wanted = tiny_scorer()(*map(torch.from_numpy, (encoding.nodes, encoding.pod, mask))).numpy()
    np.testing.assert_allclose(scorer.rate(encoding, mask)[mask], wanted[mask], atol=1e-5)


@given(seed=SEEDS, nodes=NODE_COUNTS)
def test_permuting_the_nodes_permutes_the_scores(scorer, seed, nodes):
    encoding, mask = a_question(seed, nodes)
    order = np.random.default_rng(seed).permutation(nodes)
    permuted = scorer.rate(Encoding(encoding.nodes[order], encoding.pod), mask[order])
    np.testing.assert_allclose(permuted[mask[order]], scorer.rate(encoding, mask)[order][mask[order]], atol=1e-5)


@given(seed=SEEDS, nodes=NODE_COUNTS, more=st.integers(1, 20))
def test_adding_infeasible_nodes_changes_nothing(scorer, seed, nodes, more):
    encoding, mask = a_question(seed, nodes)
    strange = np.full((more, len(NODE_FEATURES)), 9.0, dtype=np.float32)
    larger = Encoding(np.concatenate([encoding.nodes, strange]), encoding.pod)
    values = scorer.rate(larger, np.concatenate([mask, np.zeros(more, dtype=bool)]))
    np.testing.assert_allclose(values[:nodes][mask], scorer.rate(encoding, mask)[mask], atol=1e-5)


@given(seed=SEEDS, nodes=NODE_COUNTS)
def test_a_batch_is_rated_like_its_clusters_one_by_one(scorer, seed, nodes):
    encoding, mask = a_question(seed, nodes, 3)
    together = scorer.rate(encoding, mask)
    assert together.shape == (3, nodes)
    for row in range(3):
        alone = scorer.rate(Encoding(encoding.nodes[row], encoding.pod[row]), mask[row])
        np.testing.assert_allclose(alone[mask[row]], together[row][mask[row]], atol=1e-5)

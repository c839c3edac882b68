"""The weights that are taken out of a model are those that it scores by."""

from __future__ import annotations

import numpy as np
import pytest

from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES, POD_FEATURES, Encoding
from models.manifest import read_model
from models.onnx_scorer import OnnxScorer
from training.contestants import DEFAULT_FOLDER, GPU_FOLDER
from training.gpu_lists import clip_of, kept_weights


def test_kept_weights_score_nodes_as_the_model_does() -> None:
    manifest, content = read_model(GPU_FOLDER)
    rng = np.random.default_rng(2)
    pods = rng.random((5, len(POD_FEATURES))).astype(np.float32)
    weights = kept_weights(content, pods)
    nodes = np.clip(rng.random((5, 9, len(NODE_FEATURES))), *clip_of(manifest)).astype(np.float32)
    empty = nodes[..., NODE_COLUMN["empty"]]
    empty[...] = rng.random(empty.shape) < 0.5
    always, if_empty = (np.einsum("pnf,pf->pn", nodes, weights[state]) for state in range(2))
    scored = OnnxScorer(manifest, content).rate(Encoding(nodes, pods), np.ones((5, 9), dtype=np.bool_))
    np.testing.assert_allclose(np.floor(always + empty * if_empty), scored)


def test_model_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="does not hold the weights"):
        kept_weights(read_model(DEFAULT_FOLDER)[1], np.zeros((1, len(POD_FEATURES)), dtype=np.float32))

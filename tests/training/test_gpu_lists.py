"""The weights that are asked out of a model are those that it scores by."""

from __future__ import annotations

import numpy as np

from agent.features import NODE_FEATURES, POD_FEATURES, Encoding
from training.gpu_lists import asked_weights
from training.train_gpu import SHAPE, WeightedScorer


def test_asked_weights_score_nodes_as_the_model_does() -> None:
    rng = np.random.default_rng(2)
    scorer = WeightedScorer(rng.normal(size=SHAPE))
    pods = rng.random((5, len(POD_FEATURES))).astype(np.float32)
    weights = asked_weights(scorer.rate, pods)
    nodes = rng.random((5, 9, len(NODE_FEATURES))).astype(np.float32)
    empty = nodes[..., list(NODE_FEATURES).index("empty")]
    empty[...] = rng.random(empty.shape) < 0.5
    always, if_empty = (np.einsum("pnf,pf->pn", nodes, weights[state]) for state in range(2))
    wanted = scorer.rate(Encoding(nodes, pods), np.ones((5, 9), dtype=np.bool_))
    np.testing.assert_allclose(always + empty * if_empty, wanted, rtol=1e-3, atol=1e-3)

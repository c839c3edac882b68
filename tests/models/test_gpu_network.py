"""The GPU model: which weights a pod chooses, and that one node's score is nobody else's business."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agent.features import NODE_COLUMN, NODE_FEATURES, POD_COLUMN, POD_FEATURES
from models.gpu_network import GATES, GpuScorer, gates


def pod(gpus: float, gpu_milli: float) -> torch.Tensor:
    features = torch.rand(1, len(POD_FEATURES), generator=torch.Generator().manual_seed(3))
    features[0, POD_COLUMN["gpu_request"]] = gpus * gpu_milli / 8000
    features[0, POD_COLUMN["gpu_share"]] = gpu_milli / 1000 if gpus else 0.0
    return features


@pytest.mark.parametrize(
    ("gpus", "gpu_milli", "expected"),
    [
        (0, 0, {"no GPU": 1}),
        (1, 470, {"share": 1, "share x its size": 0.47}),
        (1, 1000, {"one GPU": 1}),
        (2, 1000, {"several GPUs": 1}),
        (8, 1000, {"several GPUs": 1}),
    ],
)
def test_pod_chooses_the_weights_of_its_kind(gpus: float, gpu_milli: float, expected: dict[str, float]) -> None:
    wanted = [expected.get(gate, 0.0) for gate in GATES]
    np.testing.assert_allclose(gates(pod(gpus, gpu_milli))[0].numpy(), wanted, atol=1e-5)


def some_scorer() -> GpuScorer:
    scorer = GpuScorer()
    torch.nn.init.normal_(scorer.weights, generator=torch.Generator().manual_seed(1))
    return scorer


def test_score_of_a_node_depends_on_that_node_alone() -> None:
    nodes = torch.rand(1, 9, len(NODE_FEATURES), generator=torch.Generator().manual_seed(2))
    mask = torch.ones(1, 9, dtype=torch.bool)
    scorer, order = some_scorer(), torch.randperm(9, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        scores = scorer(nodes, pod(1, 470), mask)
        torch.testing.assert_close(scorer(nodes[:, order], pod(1, 470), mask), scores[:, order])
        torch.testing.assert_close(scorer(nodes[:, :1], pod(1, 470), mask[:, :1]), scores[:, :1])


def test_empty_node_is_looked_at_with_weights_of_its_own() -> None:
    scorer = GpuScorer()
    price, empty = NODE_COLUMN["price"], NODE_COLUMN["empty"]
    with torch.no_grad():
        scorer.weights[1, :, price] = -3.0
        nodes = torch.zeros(1, 2, len(NODE_FEATURES))
        nodes[0, :, price], nodes[0, 1, empty] = 0.5, 1.0
        assert scorer(nodes, pod(1, 1000), torch.ones(1, 2, dtype=torch.bool)).tolist() == [[0.0, -2.0]]

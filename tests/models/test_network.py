"""What makes the network fit for any cluster."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from agent.features import NODE_COLUMN, NODE_FEATURES, POD_FEATURES
from envs.cluster_env import observation_space
from models.network import NodeScorer, usable
from models.policy import ScorerPolicy

MISSING = NODE_COLUMN["metric_missing"]
State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


HEADS = [1, 3]  # without specialists, and with: the softmax over one head hides whatever its gate does


def network(heads: int = 1) -> NodeScorer:
    """As a trained one, which does not end in zeros; its gate is neither even nor the same for all clusters."""
    torch.manual_seed(5)
    scorer = NodeScorer(32, np.random.default_rng(5).normal(size=(heads, len(NODE_FEATURES))))
    for layer in (scorer.score, scorer.gate):
        torch.nn.init.normal_(layer.weight)
    return scorer.eval()


def state(nodes: int, clusters: int = 3, seed: int = 0) -> State:
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(clusters, nodes, len(NODE_FEATURES), generator=generator)
    features[..., MISSING] = 0.0
    mask = torch.rand(clusters, nodes, generator=generator) < 0.7
    mask[:, 0] = True
    return features * mask[..., None], torch.rand(clusters, len(POD_FEATURES), generator=generator), mask


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("nodes", [1, 2, 20, 500, 5000])
def test_permuting_nodes_permutes_scores(nodes: int, heads: int) -> None:
    scorer, (features, pod, mask) = network(heads), state(nodes)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores, permuted = scorer(features, pod, mask), scorer(features[:, order], pod, mask[:, order])
    torch.testing.assert_close(permuted, scores[:, order], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("heads", HEADS)
def test_an_infeasible_node_more_changes_nothing(heads: int) -> None:
    scorer, (features, pod, mask) = network(heads), state(12)
    more = torch.cat([features, torch.full((3, 1, features.shape[2]), 9.0)], dim=1)
    wider = torch.cat([mask, torch.zeros(3, 1, dtype=torch.bool)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(scorer(more, pod, wider)[:, :12], scorer(features, pod, mask), atol=1e-6, rtol=1e-6)


def test_a_gate_weighs_the_heads_for_each_cluster() -> None:
    with torch.no_grad():
        heads = network(3).embed(*state(12, clusters=50)).heads
    torch.testing.assert_close(heads.sum(dim=-1), torch.ones(50))
    assert len(set(heads.argmax(dim=-1).tolist())) > 1
    assert heads.amax(dim=-1).min() < 0.99


@pytest.mark.parametrize("heads", HEADS)
def test_another_candidate_is_taken_note_of(heads: int) -> None:
    scorer, (features, pod, mask) = network(heads), state(12)
    changed = features.clone()
    changed[:, 0] += 5.0
    with torch.no_grad():
        assert (scorer(changed, pod, mask)[:, 1:] - scorer(features, pod, mask)[:, 1:]).abs().max() > 1e-3


def test_learning_starts_from_the_prior() -> None:
    prior = np.random.default_rng(2).normal(size=len(NODE_FEATURES))
    features, pod, mask = state(20)
    with torch.no_grad():
        scores = NodeScorer(16, prior[None], sharpness=2.0)(features, pod, mask)
    np.testing.assert_allclose(scores.numpy(), 2.0 * features.numpy() @ prior, rtol=1e-4, atol=1e-5)


def test_no_candidate_gives_finite_numbers() -> None:
    features, pod, _ = state(4)
    with torch.no_grad():
        assert torch.isfinite(network()(features, pod, torch.zeros(3, 4, dtype=torch.bool))).all()


def test_nodes_without_metrics_are_usable_only_where_all_lack_them() -> None:
    features = torch.zeros(2, 3, len(NODE_FEATURES))
    features[0, 0, MISSING] = 1.0
    features[1, :, MISSING] = 1.0
    mask = torch.tensor([[True, True, False], [True, True, False]])
    assert usable(features, mask).tolist() == [[False, True, False], [True, True, False]]


def policy() -> ScorerPolicy:
    torch.manual_seed(0)
    return ScorerPolicy(observation_space(20), spaces.Discrete(20), lambda _: 1e-3, hidden=16)


def test_policy_never_chooses_outside_the_mask() -> None:
    features, pod, mask = state(20, clusters=400)
    actions, _, log_p = policy()({"nodes": features, "pod": pod}, action_masks=mask)
    assert mask.gather(1, actions[:, None]).all()
    assert torch.isfinite(log_p).all()


def test_policy_takes_other_numbers_of_nodes_than_its_space() -> None:
    features, pod, mask = state(7)
    values, log_p, entropy = policy().evaluate_actions({"nodes": features, "pod": pod}, torch.zeros(3), mask)
    assert values.shape == log_p.shape == entropy.shape == (3,)


def test_policy_predicts_as_stable_baselines_does() -> None:
    features, pod, mask = state(20)
    observation = {"nodes": features.numpy(), "pod": pod.numpy()}
    actions, _ = policy().predict(observation, deterministic=True, action_masks=mask.numpy())
    assert actions.shape == (3,)
    assert mask.numpy()[np.arange(3), actions].all()

"""A small network with random weights, exported as a model folder: for tests that need a policy, good or not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import torch

from agent.features import NODE_FEATURES, POD_FEATURES
from models.manifest import FeatureRange, TrainingFacts
from models.network import NodeScorer
from training.export import ModelFacts, export

ANYTHING = FeatureRange(min=-10.0, low=-10.0, high=10.0, max=10.0)
TRAINING = TrainingFacts(
    config_digest="c0ffee",
    scenarios={"microservices": "abc123"},
    generator_version=1,
    weights_digest="0ddba11",
    seeds=(0,),
    decisions=1000,
    minutes=1.0,
)


def tiny_scorer(seed: int = 0) -> NodeScorer:
    """Every weight drawn at random, so that every part of the network has its say."""
    scorer = NodeScorer(hidden=8)
    draws = torch.Generator().manual_seed(seed)
    for parameter in scorer.parameters():
        parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=draws))
    return scorer


def facts(kind: str = "default", **ranges: FeatureRange) -> ModelFacts:
    """Every value is in range, but for the features given."""
    return ModelFacts(
        kind=kind,
        created=date(2026, 11, 16),
        node_features={name: ranges.get(name, ANYTHING) for name in NODE_FEATURES},
        pod_features={name: ranges.get(name, ANYTHING) for name in POD_FEATURES},
        training=TRAINING,
    )


def release(folder: Path, kind: str = "default", seed: int = 0, **ranges: FeatureRange) -> Path:
    export(tiny_scorer(seed), folder, facts(kind, **ranges), checked_states=5)
    return folder

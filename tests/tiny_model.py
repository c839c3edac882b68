"""A small network of the released one's kind, exported as a model folder: for tests that need a policy, good or not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import torch

from agent.features import NODE_FEATURES, POD_FEATURES
from models.manifest import FeatureRange, TrainingFacts
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


class TinyScorer(torch.nn.Module):
    """Each node by itself and in view of the candidates' mean and maximum."""

    def __init__(self, seed: int = 0, width: int = 8) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.node = torch.nn.Linear(len(NODE_FEATURES), width)
            self.pod = torch.nn.Linear(len(POD_FEATURES), width)
            self.context = torch.nn.Linear(2 * width, width)
            self.out = torch.nn.Linear(width, 1)

    def forward(self, nodes: torch.Tensor, pod: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        own = torch.tanh(self.node(nodes) + self.pod(pod)[:, None, :])
        inside = mask[..., None]
        mean = (own * inside).sum(1) / inside.sum(1).clamp(min=1)
        most = own.masked_fill(~inside, -1e9).amax(1)
        context = self.context(torch.cat([mean, most], -1))
        scores: torch.Tensor = self.out(torch.relu(own + context[:, None, :])).squeeze(-1)
        return scores


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
    export(TinyScorer(seed), folder, facts(kind, **ranges), checked_states=5)
    return folder

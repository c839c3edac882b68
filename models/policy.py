"""The network as stable-baselines3's MaskablePPO wants a policy, for any number of nodes in each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from agent.cluster import FloatArray
from models.network import Critic, NodeScorer, usable

Observation = dict[str, Tensor]
Masks = Tensor | NDArray[np.bool_] | None

NEVER = -1e4  # the logit of a node that must not be chosen; larger ones would leave no digits for differences


class ScorerPolicy(MaskableActorCriticPolicy):
    """Actor: a NodeScorer. Critic: a head on its embedding. Observations are those of BatchVecEnv."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        hidden: int = 64,
        priors: FloatArray | None = None,
        sharpness: float = 1.0,
        **options: Any,
    ) -> None:
        self.hidden, self.priors, self.first_sharpness = hidden, priors, sharpness
        options.setdefault("optimizer_kwargs", {"eps": 1e-5})
        super().__init__(
            observation_space, action_space, lr_schedule, features_extractor_class=_AsItIs, ortho_init=False, **options
        )

    def _build(self, lr_schedule: Schedule) -> None:
        self.scorer = NodeScorer(self.hidden, self.priors, self.first_sharpness)
        self.critic = Critic(self.hidden)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        inherited = {name: value for name, value in super()._get_constructor_parameters().items() if name not in _FIXED}
        return {**inherited, "hidden": self.hidden, "priors": self.priors, "sharpness": self.first_sharpness}

    # --- what MaskablePPO calls

    def forward(self, obs: Observation, deterministic: bool = False, action_masks: Masks = None) -> tuple[Tensor, ...]:  # type: ignore[override]
        log_p, values = self.judge(obs, action_masks)
        actions = log_p.argmax(dim=-1) if deterministic else sampled(log_p)
        return actions, values, chosen(log_p, actions)

    def evaluate_actions(self, obs: Observation, actions: Tensor, action_masks: Masks = None) -> tuple[Tensor, ...]:  # type: ignore[override]
        log_p, values = self.judge(obs, action_masks)
        entropy = -(log_p.exp() * log_p).sum(dim=-1)
        return values, chosen(log_p, actions.long()), entropy

    def predict_values(self, obs: Observation) -> Tensor:  # type: ignore[override]
        return self.judge(obs, None)[1]

    def get_distribution(self, obs: Observation, action_masks: Masks = None) -> MaskableDistribution:  # type: ignore[override]
        log_p, _ = self.judge(obs, action_masks)
        return self.action_dist.proba_distribution(action_logits=log_p)

    def judge(self, obs: Observation, action_masks: Masks) -> tuple[Tensor, Tensor]:
        """Logarithms of the probabilities, (batch, nodes), and values, (batch,)."""
        nodes, pod = obs["nodes"], obs["pod"]
        mask = _mask(nodes, action_masks)
        embedding = self.scorer.embed(nodes, pod, mask)
        logits = self.scorer.from_embedding(embedding, nodes)
        log_p = torch.log_softmax(torch.where(usable(nodes, mask), logits, NEVER), dim=-1)
        return log_p, self.critic(embedding.nodes, pod, mask)


_FIXED = {"net_arch", "activation_fn", "ortho_init", "features_extractor_class", "features_extractor_kwargs"}


def _mask(nodes: Tensor, action_masks: Masks) -> Tensor:
    """Without masks the candidates are those that have features: all others are rows of zeros."""
    if action_masks is None:
        return nodes.abs().sum(dim=-1) > 0
    return torch.as_tensor(action_masks).reshape(nodes.shape[:2]).bool()


class _AsItIs(BaseFeaturesExtractor):
    """agent.features has made the features: nothing is left to extract."""

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=1)

    def forward(self, observations: Observation) -> Observation:
        return observations


def sampled(log_p: Tensor) -> Tensor:
    """One node at random for each row, by the Gumbel trick: much cheaper than torch.multinomial."""
    noise = -torch.log(-torch.log(torch.rand_like(log_p).clamp(1e-9, 1.0 - 1e-7)))
    return (log_p + noise).argmax(dim=-1)


def chosen(log_p: Tensor, actions: Tensor) -> Tensor:
    return log_p.gather(-1, actions.reshape(-1, 1)).squeeze(-1)

"""The DQN of the NetworkTraffic thesis on stable-baselines3: its published settings, and masks where it had a flaw.

The original reused the mask of its last exploring step. Here the mask is a part of every observation
(training.thesis_worlds), so exploring, choosing and valuing the next state each take the mask of its own state
(S1.22).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import typer
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn

from agent.cluster import BoolArray, IntArray
from agent.errors import InputError
from envs.workloads.scenario import Scenario, load_scenario
from training.thesis_agents import AGENTS, FOLDER, SCORER_OF, Layers, ThesisScorer, path_of, save
from training.thesis_worlds import FlatWorlds, thesis_worlds
from training.vec_env import BatchVecEnv

HIDDEN = [120, 84]
MASKED = -1e8  # finite: at an episode's end it is multiplied by 0
CLUSTERS = 10  # of equal number as train_every: one update for every step of all of them


@dataclass(frozen=True, slots=True)
class DqnSettings:
    """As published (S1.30); steps are decisions of single clusters, however many run side by side."""

    steps: int = 500_000
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    tau: float = 1.0
    buffer_size: int = 10_000
    batch_size: int = 128
    first_epsilon: float = 1.0
    last_epsilon: float = 0.05
    epsilon_fraction: float = 0.5  # of the steps, until the last epsilon is reached
    learning_starts: int = 10_000
    train_every: int = 10
    target_every: int = 500
    seed: int = 1


PUBLISHED = DqnSettings()
LAUNCH = replace(PUBLISHED, steps=2_000, learning_rate=2.5e-3, epsilon_fraction=0.3, learning_starts=300)
SETTINGS = {"published": PUBLISHED, "launch": LAUNCH}


class MaskedQNetwork(QNetwork):
    """The last numbers of the observation are the mask: they are no input, and forbidden actions have no value."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actions = int(self.action_space.n)
        sizes = [self.features_dim - self.actions, *(self.net_arch or []), self.actions]
        self.q_net = _multilayer(sizes)

    def forward(self, obs: Any) -> torch.Tensor:
        values: torch.Tensor = self.q_net(obs[:, : -self.actions])
        return torch.where(obs[:, -self.actions :] > 0.5, values, torch.full_like(values, MASKED))


def _multilayer(sizes: Sequence[int]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class MaskedDqnPolicy(DQNPolicy):
    def make_q_net(self) -> MaskedQNetwork:
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return MaskedQNetwork(**arguments).to(self.device)


class MaskedDqn(DQN):
    """Explores among allowed actions only; each cluster throws its own coin."""

    def _setup_model(self) -> None:
        super()._setup_model()
        self.coins = np.random.default_rng(self.seed)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        observation = np.asarray(self._last_obs)
        if self.num_timesteps < learning_starts:
            action = self._random(observation)
        else:
            action, _ = self.predict(observation)
        return action, action

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        best, state = self.policy.predict(observation, state, episode_start, deterministic)
        if deterministic:
            return best, state
        explores = self.coins.random(np.shape(best)) < self.exploration_rate
        return np.where(explores, self._random(np.asarray(observation)), best), state

    def _random(self, observation: NDArray[Any]) -> IntArray:
        actions = int(cast(spaces.Discrete, self.action_space).n)
        allowed: BoolArray = observation[..., -actions:] > 0.5
        return np.asarray(np.argmax(np.where(allowed, self.coins.random(allowed.shape), -1.0), axis=-1))


def train_agent(name: str, scenario: Scenario, settings: DqnSettings, tape_seed: int = 0) -> ThesisScorer:
    """One agent for one scenario; the same settings and seeds give the same weights on one machine."""
    started_s = time.perf_counter()
    clusters = min(CLUSTERS, settings.train_every)
    worlds = thesis_worlds(name, BatchVecEnv(scenario, clusters, seed=tape_seed, threads=1))
    learner = new_learner(worlds, settings, clusters).learn(settings.steps)
    facts = {
        "scenario": scenario.name,
        "scenario_digest": scenario.digest(),
        "tape_seed": tape_seed,
        "clusters": clusters,
        "settings": asdict(settings),
        "seconds": round(time.perf_counter() - started_s, 1),
    }
    return SCORER_OF[name](worlds.slots, layers_of(learner), facts)


def new_learner(worlds: FlatWorlds, settings: DqnSettings, clusters: int) -> MaskedDqn:
    return MaskedDqn(
        MaskedDqnPolicy,
        worlds,
        learning_rate=settings.learning_rate,
        buffer_size=settings.buffer_size,
        learning_starts=settings.learning_starts,
        batch_size=settings.batch_size,
        tau=settings.tau,
        gamma=settings.gamma,
        train_freq=max(settings.train_every // clusters, 1),  # in steps of all clusters together
        gradient_steps=1,
        target_update_interval=settings.target_every,  # stable-baselines3 divides this one by the clusters itself
        exploration_initial_eps=settings.first_epsilon,
        exploration_final_eps=settings.last_epsilon,
        exploration_fraction=settings.epsilon_fraction,
        policy_kwargs={"net_arch": HIDDEN, "optimizer_kwargs": {"fused": True}},  # Adam, as published; fused is faster
        seed=settings.seed,
        device="cpu",
    )


def layers_of(learner: MaskedDqn) -> Layers:
    """The network that chooses, as plain arrays."""
    linear = [part for part in learner.policy.q_net.q_net if isinstance(part, nn.Linear)]
    return tuple((part.weight.detach().numpy().copy(), part.bias.detach().numpy().copy()) for part in linear)


# --- the command


def run(scenarios: Sequence[str], *, settings: str, out: Path | None) -> None:
    """Train both agents for each scenario and save them."""
    if settings not in SETTINGS:
        raise InputError(f"unknown settings {settings!r}: choose one of {', '.join(SETTINGS)}")
    worlds = [load_scenario(name) for name in scenarios]
    for scenario in worlds:
        for name in AGENTS:
            agent = train_agent(name, scenario, SETTINGS[settings])
            path = path_of(name, scenario.name, out or FOLDER)
            save(agent, path)
            typer.echo(f"{path}: {SETTINGS[settings].steps} steps in {agent.facts['seconds']:.0f} s")

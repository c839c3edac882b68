"""BatchVecEnv as the agents of the thesis see it: flat numbers for a fixed number of nodes, the mask at their end.

With the mask inside the observation it goes through the replay buffer, so a DQN respects it wherever it looks at a
state: when it explores, when it chooses, and when it values the next state (training.dqn).
"""

from __future__ import annotations

from typing import cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from agent.cluster import FloatArray, IntArray
from agent.features import Encoding, FeatureArray
from envs.cluster_env import FEATURE_HIGH, FEATURE_LOW
from training.thesis_agents import document_observation, dqn_observation, slots_observed
from training.vec_env import BatchVecEnv, Observations

DQN_REWARD_SCALE = 10.0  # dollars of one decision are some cents


class FlatWorlds(VecEnvWrapper):
    """What both agents share: their spaces, and an end that is an end.

    The horizon cuts episodes off at a moment without a decision, so there is no next state to value: it counts as 0.
    """

    name: str
    extra_actions = 0  # beyond the nodes

    def __init__(self, worlds: BatchVecEnv) -> None:
        self.worlds = worlds
        self.slots = worlds.env.node_slots
        self.actions = self.slots + self.extra_actions
        width = slots_observed(self.name, self.slots) + self.actions
        space = spaces.Box(FEATURE_LOW, FEATURE_HIGH, (width,), np.float32)
        super().__init__(worlds, space, spaces.Discrete(self.actions))

    def reset(self) -> FeatureArray:
        return self._flat(self.worlds.reset())

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.worlds.step_wait()
        flat = self._flat(cast(Observations, observations))
        for cluster in np.flatnonzero(dones):
            infos[cluster]["terminal_observation"] = np.zeros_like(flat[cluster])
            infos[cluster]["TimeLimit.truncated"] = False
        return flat, self._rewards(rewards), dones, infos

    def _flat(self, observations: Observations) -> FeatureArray:
        mask = np.ones((self.num_envs, self.actions), dtype=np.float32)
        mask[:, : self.slots] = self.worlds.action_masks()
        return np.concatenate([self._seen(observations), mask], axis=1)

    def _seen(self, observations: Observations) -> FeatureArray:
        raise NotImplementedError

    def _rewards(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        return rewards


class DqnWorlds(FlatWorlds):
    """Features of all nodes and of the pod; minus the dollars until the next decision, times 10."""

    name = "dqn"

    def _seen(self, observations: Observations) -> FeatureArray:
        return dqn_observation(Encoding(observations["nodes"], observations["pod"]), self.slots)

    def _rewards(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        return rewards * np.float32(DQN_REWARD_SCALE)


class DocumentWorlds(FlatWorlds):
    """Receive rates; 1 for the candidate whose rate is lowest in what the agent sees, else 0, also for the last action.

    The last action is "do not schedule": the pod waits for the next tick. An agent that learns this well is as good as
    the NetworkTraffic heuristic and no better: nothing rewards it for what the placement did.
    """

    name = "document"
    extra_actions = 1

    def step_async(self, actions: IntArray) -> None:
        rates = np.where(self.worlds.action_masks(), self._rates(), np.inf)
        chosen = np.minimum(actions, self.slots - 1)
        lowest = np.take_along_axis(rates, chosen[:, None], axis=1)[:, 0] <= rates.min(axis=1)
        self._right = lowest & (actions < self.slots)
        self.worlds.step_async(np.where(actions < self.slots, actions, -1))

    def _seen(self, observations: Observations) -> FeatureArray:
        return document_observation(self.worlds.env.state().rx_mbps, self.slots)

    def _rates(self) -> FloatArray:
        return document_observation(self.worlds.env.state().rx_mbps, self.slots).astype(np.float64)

    def _rewards(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self._right, dtype=np.float32)


WORLDS: dict[str, type[FlatWorlds]] = {"document": DocumentWorlds, "dqn": DqnWorlds}


def thesis_worlds(name: str, worlds: BatchVecEnv) -> FlatWorlds:
    return WORLDS[name](worlds)

"""BatchEnv as stable-baselines3 wants it: thousands of clusters that begin anew by themselves.

Clusters come in groups. The members of a group play the same tapes in the same order, so that their returns can be
compared with each other (design.md, section 6): episode ``e`` of every member of group ``g`` is one tape, whoever gets
there first. A member that is done begins its next tape at once and waits for nobody.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium import Wrapper, spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from agent.cluster import BoolArray, IntArray
from agent.errors import InputError
from agent.features import FeatureArray
from envs.batch_env import BatchEnv
from envs.cluster_env import observation_space
from envs.rewards import INVALID_ACTION_USD, weighted_cost
from envs.workloads.scenario import Scenario, load_scenario
from envs.workloads.synthetic import make_tape
from training.group_tapes import GroupTapes, TapeMaker

Observations = dict[str, FeatureArray]
Infos = list[dict[str, Any]]

SHARED = ("render_mode", "observation_space", "action_space", "scenario", "reward_scale")  # the same for all clusters
TRIES = 20  # tapes without any decision in a row before the scenario is blamed


class BatchVecEnv(VecEnv):
    """``clusters`` environments in one, ``group_size`` of them on each tape.

    Rewards are minus the dollars until the next decision, times ``reward_scale``; ``infos`` carry ``elapsed_s``, by
    which to discount. As arrays for all clusters at once: ``elapsed_s``, ``terms`` and ``action_masks()``.
    """

    def __init__(
        self,
        scenario: str | Scenario,
        clusters: int,
        group_size: int = 1,
        seed: int = 0,
        reward_scale: float = 1.0,
        assume: bool = True,
        threads: int = 2,
        make: TapeMaker = make_tape,
    ) -> None:
        self.render_mode = None
        if clusters < 1 or group_size < 1 or clusters % group_size:
            raise InputError(f"{clusters} clusters cannot be split into groups of {group_size}: choose a multiple")
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self.reward_scale = reward_scale
        self.tapes = GroupTapes(self.scenario, clusters // group_size, group_size, seed, make)
        self.env = BatchEnv(self.tapes.first_stack(), self.tapes.rows(), assume, threads)
        nodes = self.env.node_slots
        super().__init__(clusters, observation_space(nodes), spaces.Discrete(nodes))
        self.elapsed_s = np.zeros(clusters)
        self.terms = np.zeros_like(self.env.live.terms)
        self._actions = np.zeros(clusters, dtype=np.int64)
        self._untouched = True
        self._begin_where_done(np.arange(clusters))

    # --- stepping

    def reset(self) -> Observations:
        """All clusters begin the same next episode; after ``seed`` the first one of that seed."""
        seed = self._seeds[0]
        if seed is not None or not self._untouched:
            self.tapes.restart(seed)
            self._begin(np.arange(self.num_envs))
            self._begin_where_done(np.arange(self.num_envs))
        self._untouched = True
        self._reset_seeds()
        self._reset_options()
        return self._observations()

    def step_async(self, actions: NDArray[Any]) -> None:
        if np.shape(actions) != (self.num_envs,):
            raise InputError(f"actions of shape {np.shape(actions)}: one node for each of {self.num_envs} clusters")
        self._actions = np.asarray(actions, dtype=np.int64)

    def step_wait(self) -> VecEnvStepReturn:
        self._untouched = False
        before_s, invalid_before = self.env.clock_s.copy(), self.env.invalid
        self.terms = self.env.step(self._actions).copy()
        self.elapsed_s = self.env.clock_s - before_s
        penalty_usd = INVALID_ACTION_USD * (self.env.invalid - invalid_before)
        rewards = -self.reward_scale * (weighted_cost(self.terms) + penalty_usd)
        infos: Infos = [{"elapsed_s": elapsed_s} for elapsed_s in self.elapsed_s.tolist()]
        done = self.env.done
        if done.any():
            self._end(np.flatnonzero(done), infos)
        return self._observations(), rewards.astype(np.float32), done, infos

    def action_masks(self) -> BoolArray:
        """(clusters, nodes)"""
        return self.env.candidates().copy()

    def close(self) -> None:
        """Nothing to release."""

    # --- what stable-baselines3 asks of single environments

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        clusters = list(self._get_indices(indices))
        if attr_name == "action_masks":
            return [partial(self._mask_of, cluster) for cluster in clusters]
        if attr_name in SHARED:
            return [getattr(self, attr_name, None)] * len(clusters)
        raise AttributeError(f"a cluster has no attribute {attr_name!r}; it has action_masks, {', '.join(SHARED)}")

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise AttributeError(f"cannot set {attr_name!r}: the clusters of a batch have no attributes of their own")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        if method_name != "action_masks":
            raise AttributeError(f"a cluster has no method {method_name!r}; it has action_masks")
        return list(self.action_masks()[list(self._get_indices(indices))])

    def env_is_wrapped(
        self, wrapper_class: type[Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def _mask_of(self, cluster: int) -> BoolArray:
        return np.array(self.env.candidates()[cluster])

    # --- episodes

    def _end(self, clusters: IntArray, infos: Infos) -> None:
        """The horizon cuts an episode off, it does not finish it: the last observation is kept to bootstrap from."""
        last = self.env.clone(clusters).encode()
        for index, cluster in enumerate(clusters.tolist()):
            observation = {"nodes": last.nodes[index], "pod": last.pod[index]}
            infos[cluster].update({"terminal_observation": observation, "TimeLimit.truncated": True})
        self._begin_where_done(clusters)

    def _begin_where_done(self, clusters: IntArray) -> None:
        """The next episode that has a decision at all."""
        for _ in range(TRIES):
            clusters = clusters[self.env.done[clusters]]
            if len(clusters) == 0:
                return
            self.tapes.episode[clusters] += 1
            self._begin(clusters)
        raise InputError(
            f"{TRIES} tapes of scenario {self.scenario.name!r} in a row have no decision before the horizon"
        )

    def _begin(self, clusters: IntArray) -> None:
        self.tapes.provide(clusters, self.env)
        self.env.reset(clusters, self.tapes.rows()[clusters])

    def _observations(self) -> Observations:
        encoding = self.env.encode()  # new arrays each time: a learner holds on to the last ones
        return {"nodes": encoding.nodes, "pod": encoding.pod}

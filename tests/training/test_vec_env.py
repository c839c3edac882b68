from __future__ import annotations

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.vec_env import VecMonitor

from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_COLUMN, POD_FEATURES
from envs.batch_arrays import TAPE_POD
from envs.cluster_env import ClusterEnv
from envs.rewards import INVALID_ACTION_USD, weighted_cost
from envs.workloads.scenario import Scenario, Scraping, Span, load_scenario
from envs.workloads.synthetic import make_tape
from training.vec_env import BatchVecEnv

pytestmark = pytest.mark.timeout(600)  # on a fresh clone numba compiles the batch first


def tiny() -> Scenario:
    """Under a minute of decisions on four nodes or five."""
    scenario = load_scenario("microservices")
    update = {
        "nodes": scenario.nodes.model_copy(update={"count": Span(low=4, high=5)}),
        "arrivals": scenario.arrivals.model_copy(update={"load": Span(low=0.8, high=0.9)}),
        "scraping": Scraping(interval_s=[10.0], window_s=[20.0], delay_s=[0.0]),
        "horizon_s": 90.0,
    }
    return scenario.model_copy(update=update)


def first_candidates(env: BatchVecEnv):
    return env.action_masks().argmax(axis=1)


def random_candidates(env: BatchVecEnv, rng):
    masks = env.action_masks()
    return np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1)


def until_every_cluster_ended(env: BatchVecEnv, choose, times: int = 1):
    """The infos of the steps at which clusters ended, as (cluster, info)."""
    ended = []
    while min(np.bincount([cluster for cluster, _ in ended], minlength=env.num_envs)) < times:
        _, _, dones, infos = env.step(choose(env))
        ended += [(int(cluster), infos[cluster]) for cluster in np.flatnonzero(dones)]
    return ended


class TestInterface:
    def test_observations_have_the_declared_shapes_and_types(self):
        env = BatchVecEnv(tiny(), 6)
        observations = env.reset()
        assert observations["nodes"].shape == (6, 5, len(NODE_FEATURES))
        assert observations["pod"].shape == (6, len(POD_FEATURES))
        for cluster in range(6):
            assert env.observation_space.contains({name: values[cluster] for name, values in observations.items()})
        observations, rewards, dones, infos = env.step(first_candidates(env))
        assert (rewards.shape, rewards.dtype) == ((6,), np.float32)
        assert (dones.shape, dones.dtype) == ((6,), np.bool_)
        assert len(infos) == 6

    def test_earlier_observations_are_not_overwritten(self):
        env = BatchVecEnv(tiny(), 2)
        first = env.reset()
        kept = first["nodes"].copy()
        env.step(first_candidates(env))
        np.testing.assert_array_equal(first["nodes"], kept)

    def test_masks_are_found_by_sb3_contrib_and_are_never_empty(self):
        env = BatchVecEnv(tiny(), 4)
        env.reset()
        assert is_masking_supported(env)
        for _ in range(60):
            masks = get_action_masks(env)
            np.testing.assert_array_equal(masks, env.action_masks())
            assert masks.any(axis=1).all()
            env.step(first_candidates(env))
        np.testing.assert_array_equal(env.env_method("action_masks", indices=[2])[0], env.action_masks()[2])
        np.testing.assert_array_equal(env.get_attr("action_masks", indices=2)[0](), env.action_masks()[2])

    def test_attributes_of_single_clusters(self):
        env = BatchVecEnv(tiny(), 3)
        assert env.get_attr("render_mode") == [None] * 3
        assert env.get_attr("scenario", indices=[0, 2]) == [tiny(), tiny()]
        assert env.env_is_wrapped(VecMonitor) == [False] * 3
        with pytest.raises(AttributeError, match="a cluster has no attribute 'colour'"):
            env.get_attr("colour")
        with pytest.raises(AttributeError, match="a cluster has no method 'fly'"):
            env.env_method("fly")
        with pytest.raises(AttributeError, match="cannot set 'colour'"):
            env.set_attr("colour", 1)
        assert not env.has_attr("colour")

    def test_what_cannot_be_split_into_groups_is_refused(self):
        with pytest.raises(InputError, match="10 clusters cannot be split into groups of 4"):
            BatchVecEnv(tiny(), 10, group_size=4)

    def test_actions_of_the_wrong_shape_are_refused(self):
        env = BatchVecEnv(tiny(), 3)
        env.reset()
        with pytest.raises(InputError, match=r"actions of shape \(2,\): one node for each of 3 clusters"):
            env.step(np.zeros(2, dtype=np.int64))


class TestRewards:
    def test_reward_is_minus_the_scaled_dollars_and_infos_tell_the_time(self):
        env = BatchVecEnv(tiny(), 5, reward_scale=100.0)
        env.reset()
        for _ in range(20):
            before_s = env.env.clock_s.copy()
            _, rewards, dones, infos = env.step(first_candidates(env))
            np.testing.assert_allclose(rewards, -100.0 * weighted_cost(env.terms), rtol=1e-6)
            goes_on = ~dones
            np.testing.assert_allclose(env.elapsed_s[goes_on], (env.env.clock_s - before_s)[goes_on])
            assert [info["elapsed_s"] for info in infos] == env.elapsed_s.tolist()
        assert rewards.min() < 0

    def test_equal_to_the_reference_environment(self):
        scenario = tiny()
        batch, reference = BatchVecEnv(scenario, 3, seed=4), ClusterEnv(scenario, tape_seed=4)
        batch.reset()
        expected = reference.reset(options={"tape": 1})[0]
        for _ in range(200):
            action = first_candidates(batch)
            observations, rewards, dones, infos = batch.step(action)
            expected, reward, _, truncated, info = reference.step(int(action[1]))
            assert rewards[1] == pytest.approx(reward, rel=1e-5, abs=1e-9)
            assert infos[1]["elapsed_s"] == info["elapsed_s"]
            assert dones[1] == truncated
            observation = infos[1]["terminal_observation"] if truncated else {k: v[1] for k, v in observations.items()}
            np.testing.assert_allclose(observation["nodes"], expected["nodes"], atol=1e-5)
            np.testing.assert_allclose(observation["pod"], expected["pod"], atol=1e-5)
            if truncated:
                break
        assert truncated

    def test_an_action_outside_the_mask_costs_a_failure_as_in_the_reference(self):
        scenario = tiny()
        batch, reference = BatchVecEnv(scenario, 8, seed=4), ClusterEnv(scenario, tape_seed=4, invalid_action="wait")
        batch.reset()
        small = next(number for number in range(8) if make_tape(scenario, 4, number).node_slots == 4)
        reference.reset(options={"tape": small})
        nowhere = 4  # a slot that the four nodes of this tape leave empty
        for _ in range(10):
            actions = first_candidates(batch)
            actions[small] = nowhere
            _, rewards, _, infos = batch.step(actions)
            _, reward, _, truncated, info = reference.step(nowhere)
            assert rewards[small] == pytest.approx(reward, rel=1e-5)
            assert reward == pytest.approx(-INVALID_ACTION_USD - info["cost_usd"])
            assert infos[small]["elapsed_s"] == info["elapsed_s"]
            if truncated:
                break
        assert info["clock_s"] > reference.reset(options={"tape": small})[1]["clock_s"]


class TestEpisodes:
    def test_a_done_cluster_begins_anew_by_itself_and_keeps_its_last_observation(self):
        env = BatchVecEnv(tiny(), 4)
        env.reset()
        while True:
            observations, _, dones, infos = env.step(first_candidates(env))
            if dones.any():
                break
        ended = int(np.flatnonzero(dones)[0])
        last = infos[ended]["terminal_observation"]
        assert infos[ended]["TimeLimit.truncated"] is True
        assert env.observation_space.contains(last)
        assert last["pod"][POD_COLUMN["queue"]] == 0.0  # nobody waits after the horizon
        assert (observations["nodes"][ended] != last["nodes"]).any()
        assert env.env.clock_s[ended] < 90.0
        others = np.flatnonzero(~dones)
        assert all("terminal_observation" not in infos[cluster] for cluster in others)

    def test_same_seed_gives_the_same_episodes_and_another_reset_new_ones(self):
        env = BatchVecEnv(tiny(), 4, seed=1)
        first = env.reset()["nodes"]
        np.testing.assert_array_equal(env.reset()["nodes"], first)  # nothing happened in between
        env.step(first_candidates(env))
        assert (env.reset()["nodes"] != first).any()
        assert env.env.decisions.tolist() == [0] * 4
        env.seed(1)
        np.testing.assert_array_equal(env.reset()["nodes"], first)
        env.seed(2)
        assert (env.reset()["nodes"] != first).any()
        np.testing.assert_array_equal(BatchVecEnv(tiny(), 4, seed=2).reset()["nodes"], self.after_seed(env, 2))

    @staticmethod
    def after_seed(env, seed):
        env.seed(seed)
        return env.reset()["nodes"]

    def test_a_scenario_without_decisions_is_refused(self):
        with pytest.raises(InputError, match="in a row have no decision before the horizon"):
            BatchVecEnv(tiny().model_copy(update={"horizon_s": 40.0}), 2)


class TestGroups:
    def test_members_see_the_same_tapes_in_the_same_order_whoever_is_first(self):
        played: dict[int, list[tuple[float, ...]]] = {cluster: [] for cluster in range(6)}
        env = BatchVecEnv(tiny(), 6, group_size=3)
        env.reset()
        rng = np.random.default_rng(0)

        def note(clusters):
            for cluster in clusters:
                row = env.env.tape_of[cluster]
                played[cluster].append(tuple(env.env.tapes.pod[row, :20, TAPE_POD.duration_s]))

        note(range(6))
        while min(map(len, played.values())) < 4:
            _, _, dones, _ = env.step(random_candidates(env, rng))
            note(np.flatnonzero(dones).tolist())
        for group in ((0, 1, 2), (3, 4, 5)):
            for episode in range(4):
                assert len({played[member][episode] for member in group}) == 1
        assert len({played[0][episode] for episode in range(4)}) == 4
        assert played[0][0] != played[3][0]

    def test_equal_actions_give_the_members_equal_rewards(self):
        env = BatchVecEnv(tiny(), 8, group_size=4)
        env.reset()
        for _ in range(80):
            _, rewards, dones, _ = env.step(first_candidates(env))
            by_group = rewards.reshape(2, 4)
            np.testing.assert_array_equal(by_group, np.repeat(by_group[:, :1], 4, axis=1))
            assert len(set(dones.reshape(2, 4)[0])) == 1

    def test_only_the_tapes_in_use_are_kept(self):
        env = BatchVecEnv(tiny(), 8, group_size=4)
        env.reset()
        until_every_cluster_ended(env, first_candidates, times=3)
        assert len(env.env.tapes.rule) == 4
        alone = BatchVecEnv(tiny(), 3)
        alone.reset()
        until_every_cluster_ended(alone, first_candidates, times=2)
        assert len(alone.env.tapes.rule) == 3

    def test_a_member_far_ahead_gets_room_and_the_slow_ones_keep_their_tape(self):
        env = BatchVecEnv(tiny(), 4, group_size=2)
        env.reset()
        fast, slow = 2, 3
        tape = env.env.tapes.pod[env.env.tape_of[slow]].copy()
        for _ in range(3):
            env.tapes.episode[fast] += 1
            env._begin(np.array([fast]))
            np.testing.assert_array_equal(env.env.tapes.pod[env.env.tape_of[slow]], tape)
        assert env.tapes.ring == 4
        expected = make_tape(tiny(), 0, 3 * 2 + 1)  # the third episode after the first, of the second group
        durations_s = env.env.tapes.pod[env.env.tape_of[fast], :20, TAPE_POD.duration_s]
        np.testing.assert_allclose(durations_s, expected.pod_duration_s[:20], rtol=1e-6)
        env.step(first_candidates(env))


class TestLearning:
    @pytest.mark.slow
    def test_maskable_ppo_learns_for_a_few_hundred_steps(self):
        env = VecMonitor(BatchVecEnv(tiny(), 8, group_size=4, reward_scale=100.0))
        model = MaskablePPO("MultiInputPolicy", env, n_steps=40, batch_size=80, n_epochs=1, seed=0, device="cpu")
        before = [parameter.detach().clone() for parameter in model.policy.parameters()]
        model.learn(640)
        changed = [bool((old != new).any()) for old, new in zip(before, model.policy.parameters(), strict=True)]
        assert any(changed)
        assert env.venv.env.invalid.sum() == 0
        assert len(model.ep_info_buffer) > 0

"""The DQN of the thesis: its settings, its masks, and that it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from training.dqn import CLUSTERS, LAUNCH, MASKED, PUBLISHED, DqnSettings, layers_of, new_learner, train_agent
from training.thesis_agents import AGENTS, forward
from training.thesis_worlds import DocumentWorlds, DqnWorlds, thesis_worlds
from training.vec_env import BatchVecEnv

pytestmark = pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator

SHORT = replace(LAUNCH, steps=400, learning_starts=100)


@pytest.fixture
def worlds_of(small):
    return lambda name: thesis_worlds(name, BatchVecEnv(small, CLUSTERS, threads=1))


# --- settings


def test_settings_are_the_published_ones():
    assert (
        DqnSettings(
            steps=500_000,
            learning_rate=2.5e-4,
            gamma=0.99,
            tau=1.0,
            buffer_size=10_000,
            batch_size=128,
            first_epsilon=1.0,
            last_epsilon=0.05,
            epsilon_fraction=0.5,
            learning_starts=10_000,
            train_every=10,
            target_every=500,
            seed=1,
        )
        == PUBLISHED
    )
    changed = {"steps": 2_000, "learning_rate": 2.5e-3, "epsilon_fraction": 0.3, "learning_starts": 300}
    assert replace(PUBLISHED, **changed) == LAUNCH


def test_learner_has_them_all(worlds_of):
    learner = new_learner(worlds_of("dqn"), PUBLISHED, CLUSTERS)
    assert [len(bias) for _, bias in layers_of(learner)] == [120, 84, 4]
    assert isinstance(learner.policy.optimizer, torch.optim.Adam)
    assert (learner.learning_rate, learner.gamma, learner.tau) == (2.5e-4, 0.99, 1.0)
    assert (learner.buffer_size, learner.batch_size, learner.learning_starts) == (10_000, 128, 10_000)
    assert learner.train_freq.frequency * learner.n_envs == 10
    assert learner.target_update_interval == 500
    epsilons = [learner.exploration_schedule(1.0 - done) for done in (0.0, 0.25, 0.5, 0.9)]
    assert epsilons == pytest.approx([1.0, 0.525, 0.05, 0.05])


def test_updates_are_as_many_as_one_cluster_would_make(worlds_of):
    settings = replace(SHORT, steps=600)
    learner = new_learner(worlds_of("dqn"), settings, CLUSTERS).learn(settings.steps)
    assert learner._n_updates == (600 - 100) // 10


# --- masks


def test_forbidden_actions_have_no_value_and_the_mask_is_no_input(worlds_of):
    learner = new_learner(worlds_of("dqn"), SHORT, CLUSTERS)
    observation = torch.rand(5, learner.observation_space.shape[0])
    observation[:, -4:] = torch.tensor([1.0, 0.0, 1.0, 0.0])
    with torch.no_grad():
        values, target = learner.q_net(observation), learner.q_net_target(observation)
        observation[:, -4:] = 1.0
        free = learner.q_net(observation)
    assert (values[:, [1, 3]] == MASKED).all()
    assert (target[:, [1, 3]] == MASKED).all()
    torch.testing.assert_close(values[:, [0, 2]], free[:, [0, 2]])


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_neither_choosing_nor_exploring_leaves_the_mask_of_its_own_state(worlds_of, epsilon):
    learner = new_learner(worlds_of("dqn"), SHORT, CLUSTERS)
    learner.exploration_rate = epsilon
    rng = np.random.default_rng(0)
    observation = rng.random((500, learner.observation_space.shape[0])).astype(np.float32)
    allowed = rng.random((500, 4)) < 0.4
    allowed[np.arange(500), rng.integers(0, 4, 500)] = True
    observation[:, -4:] = allowed
    action, _ = learner.predict(observation)
    assert allowed[np.arange(500), action].all()
    if epsilon == 1.0:
        assert set(action) == {0, 1, 2, 3}


def test_first_steps_are_random_among_the_candidates(worlds_of):
    worlds = worlds_of("dqn")
    learner = new_learner(worlds, replace(SHORT, learning_starts=1_000), CLUSTERS)
    learner.learn(500)
    assert worlds.worlds.env.invalid.tolist() == [0] * CLUSTERS


def test_a_deterministic_answer_never_explores(worlds_of):
    learner = new_learner(worlds_of("dqn"), SHORT, CLUSTERS)
    learner.exploration_rate = 1.0
    observation = np.ones((50, learner.observation_space.shape[0]), dtype=np.float32)
    assert len(set(learner.predict(observation, deterministic=True)[0])) == 1


# --- worlds


def test_document_agent_earns_one_for_the_lowest_rate_it_sees_and_nothing_for_waiting(small):
    worlds = DocumentWorlds(BatchVecEnv(small, 6, threads=1))
    seen = worlds.reset()
    assert worlds.action_space.n == 5
    rates, mask = seen[:, :4], seen[:, 4:]
    assert (mask[:, 4] == 1.0).all()
    lowest = np.where(mask[:, :4] > 0, rates, np.inf).argmin(axis=1)
    highest = np.where(mask[:, :4] > 0, rates, -np.inf).argmax(axis=1)
    actions = np.array([*lowest[:2], *highest[2:4], 4, 4])
    before = worlds.worlds.env.invalid.copy()
    _, rewards, _, _ = worlds.step(actions)
    assert rewards.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert (worlds.worlds.env.invalid - before).tolist() == [0, 0, 0, 0, 1, 1]  # nothing was placed


def test_dqn_earns_minus_the_costs_and_an_end_has_no_next_value(small):
    worlds, twin = DqnWorlds(BatchVecEnv(small, 4, threads=1)), BatchVecEnv(small, 4, threads=1)
    seen, _ = worlds.reset(), twin.reset()
    ended = False
    while not ended:
        actions = seen[:, -4:].argmax(axis=1)
        seen, rewards, dones, infos = worlds.step(actions)
        np.testing.assert_allclose(rewards, 10.0 * twin.step(actions)[1], rtol=1e-6)
        ended = bool(dones.any())
    for cluster in np.flatnonzero(dones):
        assert infos[cluster]["TimeLimit.truncated"] is False
        assert infos[cluster]["terminal_observation"].shape == seen[cluster].shape


# --- learning


@pytest.mark.parametrize("name", AGENTS)
def test_same_seed_gives_the_same_weights_and_another_seed_others(name, small):
    def weights(seed: int) -> np.ndarray:
        return train_agent(name, small, replace(SHORT, seed=seed)).layers[0][0]

    first = weights(1)
    np.testing.assert_array_equal(weights(1), first)
    assert not np.array_equal(weights(2), first)


def test_scorer_gives_the_values_that_the_network_gave(worlds_of):
    learner = new_learner(worlds_of("dqn"), SHORT, CLUSTERS)
    observation = np.random.default_rng(0).random((7, learner.observation_space.shape[0])).astype(np.float32)
    observation[:, -4:] = 1.0
    with torch.no_grad():
        values = learner.q_net(torch.as_tensor(observation)).numpy()
    np.testing.assert_allclose(forward(layers_of(learner), observation[:, :-4]), values, atol=1e-5)


def test_document_agent_learns_to_name_the_quietest_node(small):
    agent = train_agent("document", small, replace(LAUNCH, steps=3_000))
    rates = np.random.default_rng(1).uniform(0.0, 4.0, (300, 4)).astype(np.float32)
    right = forward(agent.layers, rates)[:, :4].argmax(axis=1) == rates.argmin(axis=1)
    assert right.mean() > 0.5  # 0.25 by chance

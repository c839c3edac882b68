"""The files of a live run, with the simulator in the place of the cluster; tests/cluster has the real one."""

from __future__ import annotations

import pytest

from agent.errors import InputError
from tests.training.test_live_ppo import CONFIG, SimulatedLive
from training import live_train
from training.checkpoint import load_checkpoint
from training.live_config import parse_live_config
from training.live_train import STATE, train_live

EXAM = {"scenarios": ["deployments"], "episodes": 2}
CONFIGURATION = parse_live_config(CONFIG | {"pods_per_update": 6, "exam": EXAM}, "test")


@pytest.fixture
def simulated(small, monkeypatch):
    """Stops like Ctrl-C after so many pods."""
    left = [10_000]

    class Stopped(SimulatedLive):
        def step(self, action):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, reward, terminated, truncated, {**info, "pod": "shop/one", "bound_node_name": "node"}

    world = small.model_copy(update={"horizon_s": 3600.0})
    monkeypatch.setattr(live_train, "LiveClusterEnv", lambda *_, **__: Stopped(world, lambda node: float(node)))
    return left


def test_the_state_of_a_live_run_is_no_checkpoint_to_export(simulated, model_folder, tmp_path):
    simulated[0] = 7
    with pytest.raises(InputError, match="stopped"):
        train_live(CONFIGURATION, 24, tmp_path, released=model_folder)
    with pytest.raises(InputError, match="not a checkpoint"):
        load_checkpoint(tmp_path / STATE)


def test_a_run_goes_on_only_as_it_began(simulated, model_folder, tmp_path):
    simulated[0] = 7
    with pytest.raises(InputError, match="stopped"):
        train_live(CONFIGURATION, 24, tmp_path, released=model_folder)
    other = CONFIGURATION.model_copy(update={"pods_per_update": 5})
    with pytest.raises(InputError, match="begun with another configuration"):
        train_live(other, 24, tmp_path, released=model_folder, resume=True)


def test_an_unknown_world_of_the_examination_is_said_before_a_pod_is_placed(simulated, model_folder, tmp_path):
    exam = CONFIGURATION.exam.model_copy(update={"scenarios": ["nowhere"]})
    with pytest.raises(InputError, match="nowhere"):
        train_live(CONFIGURATION.model_copy(update={"exam": exam}), 24, tmp_path, released=model_folder)
    assert not list(tmp_path.iterdir())

"""The files of a live run, with the simulator in the place of the cluster; tests/cluster has the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import yaml

from agent.errors import InputError
from models.onnx_weights import network_of
from tests.training.test_live_ppo import CONFIG, SimulatedLive
from training import live_train
from training.checkpoint import load_checkpoint
from training.live_config import LiveConfig, parse_live_config
from training.live_ppo import LivePPO
from training.live_state import LiveState, load_state
from training.live_train import STATE, train_live

PODS = 24
SAFETY = {"control_every": 2, "window": 12}
REFUSED = {"decision_source": "none", "refused": "403: forbidden", "measured": False}
FALLS_AT = 10  # by costs of 5 and 1: within the second update


@dataclass
class Cluster:
    """How many pods it has bound, and what happens then."""

    bound: int = 0
    stop_at: int = 0  # like Ctrl-C, while the metrics of this pod settle
    added: Callable[[int], float] = float  # what a placement on this node is taken to cost
    binding: Callable[[], None] = lambda: None  # just before
    refuse_after: int = PODS


@pytest.fixture
def cluster(small, monkeypatch) -> Cluster:
    state = Cluster()

    class Stopped(SimulatedLive):
        def step(self, action):
            state.binding()
            if state.bound == state.refuse_after:
                return self.seen, 0.0, False, False, {**REFUSED, "pod": "shop/one"}
            state.bound += 1
            if state.bound == state.stop_at:
                raise KeyboardInterrupt
            self.seen, *rest, info = super().step(action)
            return self.seen, *rest, {**info, "pod": "shop/one", "bound_node_name": "node"}

    world = small.model_copy(update={"horizon_s": 3600.0})
    monkeypatch.setattr(live_train, "LiveClusterEnv", lambda *_, **__: Stopped(world, lambda node: state.added(node)))
    return state


@pytest.fixture
def config(small, tmp_path) -> LiveConfig:
    """Examined in an instant."""
    scenario = tmp_path / "small.yaml"
    scenario.write_text(yaml.safe_dump(small.model_dump(mode="json")))
    exam = {"scenarios": [str(scenario)], "episodes": 2}
    return parse_live_config(CONFIG | {"pods_per_update": 6, "exam": exam, "safety": SAFETY}, "test")


@pytest.fixture
def train(config, model_folder, tmp_path):
    return partial(train_live, config, PODS, tmp_path / "run", released=model_folder)


@pytest.fixture
def kept(tmp_path) -> Callable[[], LiveState]:
    return lambda: load_state(tmp_path / "run" / STATE)


def test_the_state_of_a_live_run_is_no_checkpoint_to_export(cluster, train, tmp_path):
    cluster.stop_at = 7
    with pytest.raises(InputError, match="stopped"):
        train()
    with pytest.raises(InputError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "run" / STATE)


def test_a_run_goes_on_only_as_it_began(cluster, config, train, model_folder, tmp_path):
    cluster.stop_at = 7
    with pytest.raises(InputError, match="stopped"):
        train()
    other = config.model_copy(update={"pods_per_update": 5})
    with pytest.raises(InputError, match="begun with another configuration"):
        train_live(other, PODS, tmp_path / "run", released=model_folder, resume=True)


def test_an_unknown_world_of_the_examination_is_said_before_a_pod_is_placed(cluster, config, model_folder, tmp_path):
    exam = config.exam.model_copy(update={"scenarios": ["nowhere"]})
    with pytest.raises(InputError, match="nowhere"):
        train_live(config.model_copy(update={"exam": exam}), PODS, tmp_path / "run", released=model_folder)
    assert not (tmp_path / "run").exists()


def test_an_examination_that_releases_nothing_is_said_before_a_pod_is_placed(cluster, train, caplog):
    cluster.stop_at = 1
    with pytest.raises(InputError, match="stopped"):
        train()
    assert "the candidate cannot be released" in caplog.text
    assert "microservices 0, small 2" in caplog.text


@pytest.mark.parametrize("stops", [(1, 6), (7, 8, 23)])
def test_never_more_pods_are_bound_than_asked_for_however_often_it_is_stopped(cluster, train, kept, stops):
    for stop in stops:
        cluster.stop_at = stop
        with pytest.raises(InputError, match=f"stopped after {stop} pods"):
            train(resume=stop != stops[0])
        assert kept().pods == cluster.bound == stop
    assert train(resume=True).pods == cluster.bound == PODS


def test_a_pod_counts_on_disk_before_it_is_bound(cluster, train, kept):
    """So it does, too, when the process is killed and has no time to write."""
    counted = []
    cluster.binding = lambda: counted.append(kept().pods)
    cluster.stop_at = 9
    with pytest.raises(InputError, match="stopped"):
        train()
    assert counted == list(range(1, 10))


def learner_weights(state: LiveState) -> dict[str, torch.Tensor]:
    prefix = "scorer."
    return {name.removeprefix(prefix): each for name, each in state.policy.items() if name.startswith(prefix)}


def is_released(state: LiveState, model_folder) -> bool:
    released = network_of(model_folder).state_dict()
    return all(torch.equal(weights, released[name]) for name, weights in learner_weights(state).items())


@pytest.fixture
def dear_learner(cluster) -> None:
    """Every second pod is the learner's."""
    cluster.added = lambda node: 1.0 if cluster.bound % 2 else 5.0


@pytest.mark.usefixtures("dear_learner")
def test_a_fall_survives_a_stop_in_the_same_update(cluster, train, kept, model_folder):
    cluster.stop_at = FALLS_AT + 1
    with pytest.raises(InputError, match="stopped"):
        train()
    assert kept().updates == 1
    assert kept().guard["falls"] == 1
    assert is_released(kept(), model_folder)
    assert train(resume=True).falls == 1
    assert cluster.bound == PODS


@pytest.mark.usefixtures("dear_learner")
def test_a_stop_between_a_fall_and_its_weights_is_made_good(cluster, train, kept, monkeypatch, model_folder):
    whole = LivePPO.begin_anew

    def stopped(run: LivePPO) -> None:
        if run.num_timesteps:
            raise KeyboardInterrupt
        whole(run)

    monkeypatch.setattr(LivePPO, "begin_anew", stopped)
    with pytest.raises(InputError, match=f"stopped after {FALLS_AT} pods"):
        train()
    assert not is_released(kept(), model_folder)
    monkeypatch.setattr(LivePPO, "begin_anew", whole)
    cluster.stop_at = FALLS_AT + 1
    with pytest.raises(InputError, match="stopped"):
        train(resume=True)
    assert kept().guard["falls"] == 1
    assert is_released(kept(), model_folder)


def test_a_stop_within_an_update_leaves_the_weights_before_it_and_every_pod(cluster, train, kept, monkeypatch):
    before = []

    def half(run: LivePPO) -> None:
        """Weights move, then comes Ctrl-C."""
        before.append(learner_weights(kept()))
        with torch.no_grad():
            run.learner.scorer.score.weight.add_(1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(LivePPO, "_renew", half)
    with pytest.raises(InputError, match="stopped after 6 pods"):
        train()
    assert kept().pods == cluster.bound == 6
    assert all(torch.equal(weights, before[0][name]) for name, weights in learner_weights(kept()).items())


def test_pods_that_were_refused_until_the_end_do_not_count(cluster, train, kept):
    cluster.refuse_after = 4
    with pytest.raises(InputError, match="bindings in a row were refused"):
        train()
    assert kept().pods == cluster.bound == 4
    cluster.refuse_after = PODS
    assert train(resume=True).pods == cluster.bound == PODS

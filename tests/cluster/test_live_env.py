"""LiveClusterEnv on a real control plane: pods are really bound, rewards really scraped."""

import threading
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from agent.errors import InputError
from envs.registration import LIVE_CLUSTER_ID
from tests.cluster.api import eventually
from tests.cluster.live_loop import BUSY, NODE_COUNT, live_loop
from tests.cluster.objects import a_pod, cordon
from tests.cluster.tape_objects import node_name

SLOTS = 6  # two more than there are nodes


@pytest.fixture(scope="module")
def loop(control_plane):
    with live_loop(control_plane, control_plane.create_namespace("live-env")) as running:
        yield running


@pytest.fixture
def make_env(loop):
    """Makes environments on the loop; closes them and removes their pods afterwards."""
    made = []

    def make(**options):
        options = {"max_nodes": SLOTS, "arrival_within_s": 2.0, **loop.settings, **options}
        made.append(gymnasium.make(f"envs.registration:{LIVE_CLUSTER_ID}", **options).unwrapped)
        return made[-1]

    yield make
    for env in made:
        env.close()
    loop.clear()


def usd_per_hour(info) -> float:
    return 3600.0 * info["cost_usd"] / info["elapsed_s"]


def threads_of_ours() -> set[str]:
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith("watch ") or name in ("cluster", "Prometheus")}


@pytest.mark.timeout(120)
def test_gymnasium_finds_nothing_wrong_on_a_real_cluster_and_nothing_is_left(loop, make_env):
    loop.create_pods(0, 12)
    env = make_env(invalid_action="wait")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
    assert threads_of_ours() == {"cluster", "Prometheus", "watch /api/v1/nodes", "watch /api/v1/pods"}
    env.close()
    eventually(lambda: not threads_of_ours(), "no thread left after close()", within_s=3)


@pytest.mark.timeout(120)
def test_the_same_pod_costs_more_on_the_busy_node_by_metrics_scraped_after(loop, make_env, say):
    loop.create_pods(0, 3)
    env = make_env()
    env.reset()
    busy, quiet = (env.node_names.index(node_name(node)) for node in (BUSY, 1))
    *_, first = env.step(quiet)
    _, quiet_reward, _, truncated, on_quiet = env.step(quiet)
    observation, busy_reward, _, at_end, on_busy = env.step(busy)
    assert [truncated, at_end] == [False, True]
    assert not observation["nodes"].any()
    assert all(info["measured"] and info["decision_source"] == "agent" for info in (first, on_quiet, on_busy))
    assert loop.where()[on_busy["pod"].partition("/")[2]] == on_busy["bound_node_name"] == node_name(BUSY)
    assert on_quiet["terms"]["network_loss"] == 0.0 < on_busy["terms"]["network_loss"]
    assert quiet_reward == -on_quiet["cost_usd"]
    assert busy_reward == -on_busy["cost_usd"]
    assert usd_per_hour(on_busy) > usd_per_hour(on_quiet)
    assert on_busy["added_usd_per_hour"] > on_quiet["added_usd_per_hour"]
    cost_of = f"{usd_per_hour(on_quiet):.2f} $/h after the quiet node, {usd_per_hour(on_busy):.2f} after the busy one"
    say(f"live reward: {cost_of}")


def test_rewards_of_the_thesis_judge_the_node_really_bound(loop, make_env):
    loop.create_pods(0, 2)
    env = make_env(reward="la")
    env.reset()
    _, emptiest, goes_on, *_ = env.step(1)
    _, fullest, ends, *_ = env.step(1)
    assert [(emptiest, goes_on), (fullest, ends)] == [(10.0, False), (-1.0, True)]


def test_nothing_is_bound_to_a_node_that_cannot_take_the_pod(loop, make_env):
    closed = node_name(2)
    cordon(loop.admin, closed)
    loop.create_pods(0, 1)
    env = make_env()
    env.reset()
    shut = env.node_names.index(closed)
    assert env.action_masks().tolist() == [True, True, False, True, False, False]
    for wrong in (shut, NODE_COUNT, -1):
        with pytest.raises(InputError, match="choose one of 0, 1, 3"):
            env.step(wrong)
    assert set(loop.where().values()) == {""}
    cordon(loop.admin, closed, cordoned=False)


def test_a_node_cordoned_after_the_observation_is_not_bound_to(loop, make_env):
    loop.create_pods(0, 1)
    env = make_env(arrival_within_s=7.0)
    env.reset()
    closed = env.node_names[3]
    cordon(loop.admin, closed)
    eventually(lambda: not env._session._next().mask[3], "the watch shows it", within_s=5)
    _, _, _, truncated, info = env.step(3)
    assert (info["bound_node"], info["decision_source"], truncated) == (-1, "none", False)
    assert "unschedulable" in info["refused"]
    assert set(loop.where().values()) == {""}
    assert env.action_masks()[:NODE_COUNT].tolist() == [True, True, True, False]  # offered again
    cordon(loop.admin, closed, cordoned=False)


def test_pods_of_others_and_pods_with_rules_that_nobody_checks_are_left_alone(loop, make_env):
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
    loop.create_pods(0, 1, topologySpreadConstraints=spread)
    loop.admin.create(loop.pods_path, a_pod("other-00001"))  # of the default scheduler
    env = make_env(arrival_within_s=1.0)
    with pytest.raises(InputError, match="no pod with schedulerName 'pilotfish-training'"):
        env.reset()


def test_without_metrics_the_pod_is_bound_and_the_episode_ends_unmeasured(loop, make_env):
    loop.create_pods(0, 2)
    env = make_env(metrics_within_s=1.0)
    env.reset()
    loop.prometheus.daemon.pause()
    try:
        _, reward, terminated, truncated, info = env.step(1)
    finally:
        loop.prometheus.daemon.resume()
    assert (reward, terminated, truncated, info["measured"]) == (0.0, False, True, False)
    assert sorted(loop.where().values()) == ["", node_name(1)]

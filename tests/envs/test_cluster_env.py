from __future__ import annotations

import re
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from matplotlib.colors import to_rgb
from rich.console import Console
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, encode
from envs.cluster_env import ClusterEnv, padded
from envs.dynamics.costs import TERMS
from envs.dynamics.world import World
from envs.rendering import OVERLOADED, Screen, bar, node_table
from envs.rewards import INVALID_ACTION_USD, WEIGHTS, weighted_cost
from envs.watched_world import WatchedWorld
from envs.workloads.scenario import Scenario, Scraping, Span, load_scenario
from envs.workloads.synthetic import make_tape

CLUSTER = "envs.registration:pilotfish/Cluster-v0"


def tiny(**update) -> Scenario:
    """Two minutes on four nodes or five, the first decision after 40 s."""
    scenario = load_scenario("microservices")
    nodes = scenario.nodes.model_copy(update={"count": Span(low=4, high=5)})
    arrivals = scenario.arrivals.model_copy(update={"load": Span(low=0.8, high=0.9)})
    scraping = Scraping(interval_s=[10.0], window_s=[20.0], delay_s=[0.0])
    parts = {"nodes": nodes, "arrivals": arrivals, "scraping": scraping, "horizon_s": 120.0, **update}
    return scenario.model_copy(update=parts)


def never_overridden() -> Scenario:
    return tiny(binding=load_scenario("microservices").binding.model_copy(update={"override": 0.0}))


def always_overridden() -> Scenario:
    return tiny(binding=load_scenario("microservices").binding.model_copy(update={"override": 1.0}))


def first_candidate(env: ClusterEnv) -> int:
    return int(np.flatnonzero(env.action_masks())[0])


def outside_the_mask(env: ClusterEnv) -> int:
    """Makes one node unschedulable for the pod that waits, so that there is an action to refuse."""
    node = first_candidate(env)
    env.world.mask[node] = False
    return node


def play(env: ClusterEnv, steps: int = 10_000):
    """What each step returned, with the first candidate every time."""
    results = []
    while len(results) < steps:
        results.append(env.step(first_candidate(env)))
        if results[-1][2] or results[-1][3]:
            break
    return results


class TestInterface:
    def test_gymnasium_finds_nothing_wrong(self):
        env = gymnasium.make(CLUSTER, scenario=tiny(), invalid_action="wait").unwrapped
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gymnasium_check_env(env)

    def test_stable_baselines_finds_nothing_wrong_but_the_shape_of_a_table(self):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            sb3_check_env(ClusterEnv(tiny(), invalid_action="wait"))
        assert [str(warning.message) for warning in found if "unconventional shape" not in str(warning.message)] == []

    def test_made_by_name_with_scenario_and_reward(self):
        env = gymnasium.make(CLUSTER, scenario="microservices", reward="cost")
        assert env.unwrapped.scenario == load_scenario("microservices")
        assert env.action_space.n == 20
        assert env.observation_space["nodes"].shape == (20, len(NODE_FEATURES))
        assert env.observation_space["pod"].shape == (len(POD_FEATURES),)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"scenario": "atlantis"}, "unknown scenario 'atlantis'; choose one of .*microservices"),
            ({"reward": "speed"}, "unknown reward 'speed': choose one of cost, ma"),
            ({"invalid_action": "ignore"}, "unknown invalid_action 'ignore': choose one of refuse, wait"),
            ({"render_mode": "ascii"}, "unknown render_mode 'ascii': choose one of None, human, rgb_array"),
        ],
    )
    def test_unknown_argument_is_refused_with_the_choices(self, arguments, message):
        with pytest.raises(InputError, match=message):
            ClusterEnv(**arguments)

    def test_docstring_has_the_headings_of_gymnasium(self):
        headings = re.findall(r"^ *## (.+)$", ClusterEnv.__doc__, flags=re.MULTILINE)
        assert headings == [
            "Description",
            "Action Space",
            "Observation Space",
            "Rewards",
            "Starting State",
            "Episode End",
            "Arguments",
            "Version History",
        ]

    def test_docstring_names_the_sizes_of_the_features(self):
        assert f"Box(max_nodes, {len(NODE_FEATURES)})" in ClusterEnv.__doc__
        assert f"Box({len(POD_FEATURES)})" in ClusterEnv.__doc__


class TestEpisode:
    def test_same_seed_gives_the_same_episode_and_the_next_reset_another(self):
        one, other = ClusterEnv(tiny()), ClusterEnv(tiny())
        first, same = one.reset(seed=7), other.reset(seed=7)
        assert first[1] == same[1]
        for left, right in zip(play(one, 20), play(other, 20), strict=True):
            np.testing.assert_array_equal(left[0]["nodes"], right[0]["nodes"])
            np.testing.assert_array_equal(left[0]["pod"], right[0]["pod"])
            assert left[1:] == right[1:]
        assert one.reset()[1]["tape"] != first[1]["tape"]

    def test_a_tape_can_be_asked_for_by_number_or_given(self):
        scenario = tiny()
        env = ClusterEnv(scenario, tape_seed=3)
        by_number, info = env.reset(options={"tape": 11})
        given, _ = env.reset(options={"tape": make_tape(scenario, 3, 11)})
        assert info["tape"] == 11
        np.testing.assert_array_equal(by_number["nodes"], given["nodes"])

    @pytest.mark.parametrize("tape", [-1, "first", 1.5])
    def test_what_is_no_tape_is_refused(self, tape):
        with pytest.raises(InputError, match=r"options\['tape'\] is .*: give the number of a tape"):
            ClusterEnv(tiny()).reset(options={"tape": tape})

    def test_a_tape_with_more_nodes_than_the_scenario_is_refused(self):
        with pytest.raises(InputError, match="the tape has 5 nodes, the scenario at most 4"):
            padded(make_tape(tiny(nodes=tiny().nodes.model_copy(update={"count": Span(low=5, high=5)})), 0), 4)

    def test_observation_is_what_the_sidecar_would_encode(self):
        env = ClusterEnv(tiny())
        observation, _ = env.reset(seed=1)
        expected = encode(env.world.state(), env.world.demand(), env.world.candidates())
        np.testing.assert_array_equal(observation["nodes"], expected.nodes)
        np.testing.assert_array_equal(observation["pod"], expected.pod)

    def test_nodes_that_an_episode_does_not_have_are_never_candidates(self):
        env = ClusterEnv(tiny())
        small = next(n for n in range(50) if make_tape(env.scenario, 0, n).node_slots == 4)
        observation, _ = env.reset(options={"tape": small})
        assert env.action_masks().shape == (5,)
        assert not env.action_masks()[4]
        assert not observation["nodes"][4].any()

    def test_truncated_at_the_horizon_and_never_terminated(self):
        env = ClusterEnv(tiny())
        env.reset(seed=2)
        results = play(env)
        assert [(terminated, truncated) for _, _, terminated, truncated, _ in results[:-1]] == [(False, False)] * (
            len(results) - 1
        )
        assert results[-1][2:4] == (False, True)
        assert results[-1][4]["clock_s"] == 120.0

    def test_step_after_the_end_or_before_the_start_is_refused(self):
        env = ClusterEnv(tiny())
        with pytest.raises(InputError, match="call reset"):
            env.step(0)
        env.reset(seed=2)
        play(env)
        with pytest.raises(InputError, match=r"the episode is over: call reset\(\)"):
            env.step(0)

    def test_a_scenario_without_decisions_is_refused(self):
        with pytest.raises(InputError, match="no pod waits for a decision before the horizon of 40 s"):
            ClusterEnv(tiny(horizon_s=40.0)).reset(seed=0)


class TestCost:
    def test_reward_is_minus_the_dollars_of_the_terms_and_time_adds_up(self):
        env = ClusterEnv(never_overridden())
        _, start = env.reset(seed=3)
        results = play(env)
        for _, reward, _, _, info in results:
            assert list(info["terms"]) == list(TERMS)
            assert reward == pytest.approx(-weighted_cost(np.array(list(info["terms"].values()))))
            assert info["cost_usd"] == pytest.approx(-reward)
        assert sum(info["elapsed_s"] for *_, info in results) == pytest.approx(120.0 - start["clock_s"])
        assert sum(reward for _, reward, *_ in results) < 0

    def test_costs_are_those_of_the_world(self):
        scenario = tiny()
        env, world = ClusterEnv(scenario), World(padded(make_tape(scenario, 0, 5), 5))
        env.reset(options={"tape": 5})
        for *_, info in play(env, 25):
            node = int(np.flatnonzero(world.candidates())[0])
            np.testing.assert_array_equal(list(info["terms"].values()), world.step(node))


class TestWhoDecided:
    def test_our_choice_holds_unless_another_plugin_wins(self):
        env = ClusterEnv(never_overridden())
        env.reset(seed=4)
        node = first_candidate(env)
        info = env.step(node)[4]
        assert (info["decision_source"], info["bound_node"]) == ("agent", node)

    def test_an_override_is_reported_with_the_node_really_bound(self):
        env = ClusterEnv(always_overridden())
        env.reset(seed=4)
        sources = set()
        for _ in range(20):
            pod, node = env.world.pod, first_candidate(env)
            *_, truncated, info = env.step(node)
            bound = next(placement.node for placement in env.world.running if placement.pod == pod)
            assert info["bound_node"] == bound
            assert info["decision_source"] == ("agent" if bound == node else "scheduler")
            sources.add(info["decision_source"])
            if truncated:
                break
        assert "scheduler" in sources


class TestInvalidAction:
    def test_refused_with_the_candidates(self):
        env = ClusterEnv(tiny())
        env.reset(seed=5)
        node = outside_the_mask(env)
        candidates = np.flatnonzero(env.action_masks()).tolist()
        with pytest.raises(InputError, match=re.escape(f"node {node} is no candidate; candidates are {candidates}")):
            env.step(node)

    def test_refused_actions_change_nothing(self):
        env = ClusterEnv(tiny())
        env.reset(seed=5)
        before = (env.world.clock_s, len(env.world.waiting), env.world.pods.copy())
        for node in (-1, 5, 99):
            with pytest.raises(InputError, match="is no candidate"):
                env.step(node)
        assert before[:2] == (env.world.clock_s, len(env.world.waiting))
        np.testing.assert_array_equal(before[2], env.world.pods)

    def test_waiting_places_nothing_costs_a_failure_and_is_reported(self):
        env = ClusterEnv(tiny(), invalid_action="wait")
        env.reset(seed=5)
        pod, running = env.world.pod, len(env.world.running)
        node = outside_the_mask(env)
        decisions = env.world.decisions
        _, reward, terminated, _, info = env.step(node)
        assert info["invalid_action"]
        assert (info["decision_source"], info["bound_node"]) == ("none", -1)
        assert env.world.decisions == decisions
        assert pod in [waiting.pod for waiting in env.world.waiting]
        assert pod not in [placement.pod for placement in env.world.running[running:]]
        assert not terminated
        assert reward == pytest.approx(-info["cost_usd"] - INVALID_ACTION_USD)
        assert WEIGHTS.failures == INVALID_ACTION_USD

    def test_waiting_under_another_reward_earns_nothing(self):
        env = ClusterEnv(tiny(), reward="la", invalid_action="wait")
        env.reset(seed=5)
        assert env.step(outside_the_mask(env))[1] == 0.0

    def test_the_pod_that_waits_is_offered_again_after_a_tick(self):
        world = World(make_tape(tiny(), 0, 5))
        waiting = [entry.pod for entry in world.waiting]
        clock_s = world.clock_s
        for _ in waiting:
            assert world.clock_s == clock_s
            world.skip()
        assert world.clock_s > clock_s
        assert world.pod == waiting[0]


class TestOtherRewards:
    def test_the_fullest_node_ends_the_episode_under_la(self):
        env = ClusterEnv(never_overridden(), reward="LA")
        env.reset(seed=6)
        pods = np.where(env.action_masks(), env.world.pods, -1)
        assert pods.max() > env.world.pods[env.world.tape.node_cpu_millicores > 0].min()
        env.world.mask[:] = env.world.pods == env.world.pods.max()
        _, reward, terminated, _, _ = env.step(first_candidate(env))
        assert (reward, terminated) == (-1.0, True)
        with pytest.raises(InputError, match="the episode is over"):
            env.step(first_candidate(env))

    def test_the_emptiest_node_earns_ten_under_la(self):
        env = ClusterEnv(never_overridden(), reward="la")
        env.reset(seed=6)
        present = env.world.tape.node_cpu_millicores > 0
        env.world.mask[:] = present & (env.world.pods == env.world.pods[present].min())
        _, reward, terminated, _, _ = env.step(first_candidate(env))
        assert (reward, terminated) == (10.0, False)

    def test_argmin_judges_the_true_traffic_before_this_pod(self):
        env = ClusterEnv(never_overridden(), reward="argmin")
        env.reset(seed=6)
        world = env.world
        quietest = int(np.argmin(np.where(world.tape.node_cpu_millicores > 0, world._loads().rx_mbps, np.inf)))
        world.mask[:] = True
        assert env.step(quietest)[1] == 1.0

    def test_outcome_tells_the_pods_own_part_from_what_was_there(self):
        tape = make_tape(never_overridden(), 0, 5)
        world = WatchedWorld(tape, watch=True)
        before, pods = world._loads(), world.pods.copy()
        node = int(np.flatnonzero(world.mask)[0])
        soft_ms = world.tape.pod_latency_soft_ms[world.pod]
        world.step(node)
        outcome = world.outcome()
        assert outcome.node == node
        assert outcome.own_traffic_mbps > 0
        assert outcome.traffic_mbps[node] - outcome.own_traffic_mbps == pytest.approx(before.rx_mbps[node])
        sent_too = 2.0 * (before.rx_mbps[node] + before.tx_mbps[node])
        assert outcome.connections[node] - outcome.own_connections == pytest.approx(sent_too)
        np.testing.assert_array_equal(outcome.pods, pods + (np.arange(len(pods)) == node))
        np.testing.assert_array_equal(outcome.terms, world.terms)
        np.testing.assert_equal(float(outcome.latency_soft_ms), float(soft_ms))

    def test_a_world_that_was_not_watched_has_no_outcome(self):
        world = WatchedWorld(make_tape(tiny(), 0, 5))
        world.step(int(np.flatnonzero(world.mask)[0]))
        with pytest.raises(InputError, match="without watch=True"):
            world.outcome()

    def test_an_override_is_rewarded_for_the_node_really_bound(self):
        env = ClusterEnv(always_overridden(), reward="argmin")
        env.reset(seed=6)
        for _ in range(20):
            traffic = np.where(env.world.tape.node_cpu_millicores > 0, env.world._loads().rx_mbps, np.inf)
            _, reward, _, truncated, info = env.step(first_candidate(env))
            assert reward == float(info["bound_node"] == np.argmin(traffic))
            if truncated:
                break

    @pytest.mark.parametrize("reward", ["ma", "lc", "p0"])
    def test_rewards_are_finite_all_along(self, reward):
        env = ClusterEnv(tiny(), reward=reward)
        env.reset(seed=6)
        assert np.isfinite([result[1] for result in play(env, 30)]).all()


class TestRendering:
    def test_pictures_of_one_episode_have_one_size_and_change_with_time(self):
        env = ClusterEnv(tiny(), render_mode="rgb_array")
        env.reset(seed=8)
        first = env.render()
        play(env, 15)
        later = env.render()
        assert first.dtype == np.uint8
        assert first.shape == later.shape
        assert first.shape[2] == 3
        assert (first != later).any()

    def test_an_overloaded_node_gets_a_long_bar_in_its_own_colour(self):
        env = ClusterEnv(tiny(), render_mode="rgb_array")
        env.reset(seed=8)
        overloaded = np.array(to_rgb(OVERLOADED)) * 255

        def red_pixels() -> int:
            return int((np.abs(env.render() - overloaded).max(axis=-1) < 2).sum())

        assert red_pixels() == 0
        env.world.last_loads.cpu_millicores[0] = 1.01 * env.world.tape.node_cpu_millicores[0]
        just_above = red_pixels()
        env.world.last_loads.cpu_millicores[0] = 1.2 * env.world.tape.node_cpu_millicores[0]
        assert red_pixels() > 1.1 * just_above > 0

    def test_the_terminal_shows_every_node_with_its_zone_and_its_age(self):
        env = ClusterEnv(tiny())
        env.reset(seed=8)
        console = Console(width=140, record=True, force_terminal=False)
        with console.capture() as shown:
            console.print(node_table(env.world))
        lines = shown.get().splitlines()
        rows = [line for line in lines if re.search(r"\d+ s|none", line) and "%" in line]
        assert len(rows) == env.world.nodes
        assert f"{env.world.clock_s:.0f} s" in lines[0]

    def test_human_mode_shows_by_itself_and_prints_where_there_is_no_terminal(self, monkeypatch):
        console = Console(width=140, force_terminal=False)
        env = ClusterEnv(tiny(), render_mode="human")
        env._screen = Screen(console)
        with console.capture() as shown:
            env.reset(seed=8)
            env.step(first_candidate(env))
            env.close()
        assert "1 decisions" in shown.get()

    @pytest.mark.parametrize(
        ("true", "known", "expected"),
        [
            (0.5, 0.0, "┃██···  50%"),
            (0.5, float("nan"), "███···  50%"),
            (1.5, 2.0, "█████┃ 150%"),
            (0.0, 0.5, "···┃··   0%"),
        ],
    )
    def test_bar_shows_the_truth_and_marks_what_is_known(self, true, known, expected):
        assert bar(true, known, cells=6).plain == expected

    def test_overload_has_its_own_colour(self):
        assert OVERLOADED in str(bar(1.01, float("nan")).style)
        assert OVERLOADED not in str(bar(1.0, float("nan")).style)

"""BatchEnv is World, many at a time: the same masks, features, costs and clocks at every step of every world."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import InputError
from agent.features import NODE_COLUMN, Encoding, encode
from envs.batch_arrays import COUNT, most_running, pack
from envs.batch_env import BatchEnv, batch_of
from envs.batch_kernels import BEGIN, LOOK
from envs.dynamics import costs
from envs.dynamics.world import QUEUE_LIMIT, World
from envs.workloads import tape as tapes
from envs.workloads.synthetic import make_tape, make_tapes, sizes_of

pytestmark = pytest.mark.timeout(600)  # the first test of a fresh checkout compiles the kernels

FEATURE_TOLERANCE = 1e-5
PENDING_TOLERANCE = 1e-3  # Mbps, MiB, millicores: of differences of float32
COST_TOLERANCE = 1e-6
MOST_STEPS = 150  # pods that are killed for memory again and again would make an episode endless


# --- playing both


def least_allocated(candidates, encoding, rng):
    requested = encoding.nodes[:, NODE_COLUMN["cpu_requested_ratio"]]
    return int(np.argmin(np.where(candidates, requested, np.inf)))


def most_worth_of_a_feature(candidates, encoding, rng):
    worth = encoding.nodes[:, NODE_COLUMN["worst_expected_ratio"]]
    return int(np.argmax(np.where(candidates, worth, -np.inf)))


def at_random(candidates, encoding, rng):
    return int(rng.choice(np.flatnonzero(candidates)))


POLICIES = (at_random, least_allocated, most_worth_of_a_feature)


def assert_same_view(world: World, env: BatchEnv, batch: Encoding, row: int) -> Encoding:
    """Clock, mask and features, and below them every column of state and demand."""
    nodes, state, demand = world.tape.node_slots, world.state(), world.demand()
    assert env.clock_s[row] == world.clock_s
    assert env.done[row] == world.done
    assert env.decisions[row] == world.decisions
    np.testing.assert_array_equal(env.candidates()[row, :nodes], world.candidates())
    assert not env.candidates()[row, nodes:].any()
    one = slice(row, row + 1)
    for ours, reference in ((env.state(one), state), (env.demand(one), demand)):
        for column in fields(reference):
            assert_close(column.name, getattr(ours, column.name)[0], getattr(reference, column.name), 1e-6)
    encoding = encode(state, demand, world.candidates())
    assert_close("features of the nodes", batch.nodes[row], encoding.nodes, FEATURE_TOLERANCE)
    assert_close("features of the pod", batch.pod[row], encoding.pod, FEATURE_TOLERANCE)
    assert not batch.nodes[row, nodes:].any()
    return encoding


def assert_close(name: str, ours: np.ndarray, reference: np.ndarray, tolerance: float) -> None:
    """Up to the padding of the batch."""
    shared = ours[tuple(slice(length) for length in reference.shape)]
    if not np.array_equal(shared, reference):  # the usual case, and far faster
        absolute = PENDING_TOLERANCE if name.startswith("pending_") else tolerance
        np.testing.assert_allclose(shared, reference, rtol=tolerance, atol=absolute, err_msg=name)


def play_both(worlds: list[World], env: BatchEnv, policy, seed: int, most_steps: int = 10_000) -> np.ndarray:
    """To the end, comparing at every step; the sum of the costs of each."""
    rng, total = np.random.default_rng(seed), np.zeros((len(worlds), len(costs.TERMS)))
    for _ in range(most_steps):
        encoding, actions = env.encode(), np.zeros(len(worlds), dtype=np.int64)
        for row, world in enumerate(worlds):
            view = assert_same_view(world, env, encoding, row)
            actions[row] = policy(world.candidates(), view, rng)
        if env.done.all():
            break
        expected = [costs.no_costs() if w.done else w.step(int(a)) for w, a in zip(worlds, actions, strict=True)]
        np.testing.assert_allclose(env.step(actions), expected, rtol=COST_TOLERANCE, atol=1e-9)
        total += expected
    assert not env.invalid.any()
    return total


# --- equal to the reference


@st.composite
def scenario_parts(draw):
    """Worlds of every kind, small and short."""

    def pick(*values):
        return draw(st.sampled_from(values))

    nodes = pick(1, 2, 5, 12, 40)
    return {
        "horizon_s": 90,
        "tick_s": pick(1.0, 2.0, 0.1) if nodes <= 5 else 1.0,
        "pending_timeout_s": pick(10, 300),
        "nodes": {
            "count": {"low": max(nodes // 2, 1), "high": nodes},
            "zones": pick(1, 3),
            "maintenance": pick(0.0, 0.5),
            "nic_unknown": pick(0.0, 0.3, 1.0),
            "user_latency_ms": {"low": 5, "high": 50},
            "kinds": [{"gpus": pick(0, 0, 3)}, {"gpus": 8, "cpu_cores": 6, "memory_gib": 24, "pods": 6}],
        },
        "gpus": {"share": pick(0.0, 0.7)},
        "apps": {
            "labelled": pick(0.0, 0.7, 1.0),
            "sibling_declared": pick(0.0, 0.5),
            "latency_limited": pick(0.0, 0.7),
            "memory_use_ratio": pick({"low": 0.4, "high": 0.9}, {"low": 0.9, "high": 1.4}),
            "cpu_use_ratio": {"low": 0.5, "high": 1.6},
        },
        "arrivals": {
            "load": pick({"low": 0.3, "high": 0.6}, {"low": 1.2, "high": 1.5}),
            "duration_s": {"median": pick(15, 60), "sigma": 0.6},
        },
        "scraping": {
            "missing": pick(0.0, 0.3),
            "blind": pick(0.0, 0.3),
            "delay_s": [pick(0, 5)],
            "interval_s": [pick(2, 5)],
            "window_s": [pick(9, 15)],
            "pod_metrics": pick(0.0, 1.0),
        },
        "binding": {
            "override": pick(0.0, 0.5),
            "visible_after": pick(0, 5, 20),
            "candidate_minimum": pick(1, 3, 100),
        },
    }


@settings(max_examples=25)
@given(parts=scenario_parts(), seed=st.integers(0, 10_000), policy=st.sampled_from(POLICIES), assume=st.booleans())
def test_batch_equals_reference_at_every_step(tiny_scenario, parts, seed, policy, assume):
    scenario = tiny_scenario(**parts)
    made = [make_tape(scenario, seed, index) for index in range(2)]
    worlds = [World(tape, assume) for tape in made]
    env = BatchEnv(tapes.stack(made, sizes_of(scenario)), assume=assume, threads=1)
    play_both(worlds, env, policy, seed, MOST_STEPS)


@pytest.mark.parametrize("nodes", [1, 200])
def test_batch_equals_reference_on_the_smallest_and_the_largest_cluster(tiny_scenario, nodes):
    few = {"load": {"low": 0.05, "high": 0.05}} if nodes > 1 else {}
    scenario = tiny_scenario(
        nodes={"count": {"low": nodes, "high": nodes}},
        arrivals=few,
        binding={"candidate_minimum": 20, "override": 0.2},
        horizon_s=60,
    )
    tape = make_tape(scenario, 7)
    env = batch_of([tape], threads=1)
    play_both([World(tape)], env, at_random, 0)
    assert env.decisions[0] >= (30 if nodes > 1 else 1)


def test_batch_equals_reference_where_memory_kills_and_queues_time_out(tiny_scenario):
    scenario = tiny_scenario(
        apps={"memory_use_ratio": {"low": 0.95, "high": 1.25}, "use_jitter": 0.3},
        arrivals={"load": {"low": 1.5, "high": 1.7}},
        nodes={"maintenance": 0.5},
        binding={"override": 0.5, "visible_after": 20},  # some are gone, or elsewhere, before the watch shows them
        pending_timeout_s=15,
    )
    made = [make_tape(scenario, 3, index) for index in range(3)]
    worlds, env = [World(tape) for tape in made], batch_of(made, threads=1)
    total = play_both(worlds, env, at_random, 0, MOST_STEPS).sum(axis=0)
    assert total[costs.KILLS] > 0
    assert total[costs.FAILURES] > 0


@pytest.mark.parametrize("assume", [True, False])
def test_batch_equals_reference_where_beliefs_about_gpus_are_wrong(tiny_scenario, assume):
    scenario = tiny_scenario(
        nodes={"kinds": [{"gpus": 2}]},
        gpus={"share": 1.0, "fractional": 0.9, "whole": {1: 1}},
        arrivals={"duration_s": {"median": 15, "sigma": 0.6}},
        binding={"override": 0.6, "visible_after": 12},
    )
    made = [make_tape(scenario, 5, index) for index in range(4)]
    env = batch_of(made, assume=assume, threads=1)
    play_both([World(tape, assume) for tape in made], env, at_random, 0)
    assert env.decisions.sum() > 100


def test_batch_equals_reference_when_the_queue_is_full(hand_tape):
    pods = QUEUE_LIMIT + 20
    short = {"pod_duration_s": 5.0, "horizon_s": 30.0, "pending_timeout_s": 20.0}
    arrival_s = np.where(np.arange(pods) < 2, 1.0, 2.0)
    tape = hand_tape(pods=pods, pod_arrival_s=arrival_s, pod_cpu_request_millicores=3000.0, **short)
    total = play_both([World(tape)], batch_of([tape], threads=1), at_random, 0)
    assert total[0, costs.FAILURES] > 18


def test_costs_of_a_step_are_zero_for_a_cluster_that_is_done(hand_tape):
    short, long = hand_tape(pods=2, horizon_s=5.0), hand_tape(pods=2, horizon_s=50.0, pod_arrival_s=[1.0, 40.0])
    env = batch_of([short, long], threads=1)
    env.step(np.array([0, 0]))
    env.step(np.array([0, 0]))
    assert env.done.tolist() == [True, True]
    assert not env.step(np.array([0, 0])).any()
    assert env.clock_s.tolist() == [5.0, 50.0]


# --- invalid actions


def test_action_outside_the_mask_is_counted_places_nothing_and_is_refused_by_the_reference(hand_tape):
    tape = hand_tape(nodes=3, pods=2, node_cpu_millicores=[400.0, 4000.0, 4000.0], pod_arrival_s=[5.0, 5.0])
    env, world = batch_of([tape], threads=1), World(tape)
    for count, node in enumerate((0, -1, 3, 10**6, BEGIN, LOOK), start=1):
        env.step(np.array([node]))
        assert (env.invalid[0], env.decisions[0]) == (count, 0)
        with pytest.raises(InputError, match="no candidate"):
            world.step(node)
        world.skip()
        assert_same_view(world, env, env.encode(), 0)
    assert env.truth("pods").sum() == 0


# --- copies


@pytest.fixture(scope="module")
def some_tapes(tiny_scenario):
    scenario = tiny_scenario(
        nodes={"maintenance": 0.3, "kinds": [{"gpus": 2}]},
        gpus={"share": 0.3},
        binding={"override": 0.3, "visible_after": 9},
    )
    return make_tapes(scenario, 11, range(6))


def random_actions(env: BatchEnv, rng) -> np.ndarray:
    return np.argmax(np.where(env.candidates(), rng.random(env.candidates().shape), -1.0), axis=1)


def snapshot(env: BatchEnv) -> list[bytes]:
    encoding = env.encode()
    return [np.ascontiguousarray(column).tobytes() for column in (*env.live, encoding.nodes, encoding.pod)]


def test_clone_that_takes_the_same_actions_stays_equal(some_tapes):
    rng, env = np.random.default_rng(0), BatchEnv(some_tapes)
    for _ in range(15):
        env.step(random_actions(env, rng))
    twin = env.clone(np.arange(env.clusters))
    while not env.done.all():
        assert snapshot(twin) == snapshot(env)
        actions = random_actions(env, rng)
        np.testing.assert_array_equal(twin.step(actions), env.step(actions))
    assert snapshot(twin) == snapshot(env)


def test_stepping_a_clone_leaves_the_original_alone(some_tapes):
    rng, env = np.random.default_rng(0), BatchEnv(some_tapes)
    env.step(random_actions(env, rng))
    before = snapshot(env)
    twin = env.clone(np.array([4, 4, 1]))
    assert twin.clock_s.tolist() == env.clock_s[[4, 4, 1]].tolist()
    while not twin.done.all():
        twin.step(random_actions(twin, rng))
    twin.reset(np.array([0]), np.array([2]))
    assert snapshot(env) == before


def test_clones_of_one_cluster_part_by_their_actions_only(some_tapes):
    env = BatchEnv(some_tapes)
    twin = env.clone(np.zeros(2, dtype=np.int64))
    nodes = np.flatnonzero(env.candidates()[0])[:2]
    assert len(nodes) == 2
    twin.step(nodes)
    assert not np.array_equal(twin.truth("pods")[0], twin.truth("pods")[1])
    assert twin.live.count[0].tolist() == twin.live.count[1].tolist()


# --- starting anew


def test_reset_cluster_equals_a_fresh_one(some_tapes):
    rng, env = np.random.default_rng(0), BatchEnv(some_tapes)
    for _ in range(20):
        env.step(random_actions(env, rng))
    others = snapshot(env.clone(np.array([0, 2, 3, 5])))
    env.reset(np.array([1, 4]), np.array([3, 0]))
    assert snapshot(env.clone(np.array([0, 2, 3, 5]))) == others
    assert snapshot(env.clone(np.array([1, 4]))) == snapshot(BatchEnv(some_tapes, np.array([3, 0])))
    assert env.tape_of.tolist() == [0, 3, 2, 3, 0, 5]


def test_cluster_on_a_replaced_tape_equals_a_fresh_one_on_it(some_tapes, tiny_scenario):
    rng, env = np.random.default_rng(0), BatchEnv(some_tapes)
    env.step(random_actions(env, rng))
    small = tiny_scenario(apps={"cpu_request_millicores": {"median": 300, "sigma": 0.4}}, horizon_s=90)
    fresh = tapes.stack([make_tape(small, 4, index) for index in range(2)], sizes_like(some_tapes))
    assert most_running(pack(fresh)) > most_running(pack(some_tapes))  # smaller pods: more run at once
    env.replace_tapes(np.array([2, 5]), fresh)
    env.reset(np.array([2, 5]), np.array([2, 5]))
    new = BatchEnv(fresh)
    while not new.done.all():
        np.testing.assert_array_equal(env.candidates()[[2, 5]], new.candidates())
        np.testing.assert_array_equal(env.encode().nodes[[2, 5]], new.encode().nodes)
        actions = random_actions(env, rng)
        np.testing.assert_array_equal(env.step(actions)[[2, 5]], new.step(actions[[2, 5]]))
    assert env.done[[2, 5]].all()


def sizes_like(tape) -> tapes.Sizes:
    steps, scrapes = tape.app_load.shape[1], tape.scrape_missing.shape[1]
    return tapes.Sizes(tape.node_slots, tape.pod_slots, tape.app_slots, tape.zone_slots, steps, scrapes)


def test_clusters_can_share_a_tape_and_differ_by_their_actions(some_tapes):
    env = BatchEnv(some_tapes, np.array([2, 2, 2]))
    rng = np.random.default_rng(0)
    arrived = []
    while not env.done.all():
        env.step(random_actions(env, rng))
        arrived.append(env.live.count[:, COUNT.arrived].copy())
    assert env.clock_s.tolist() == [env.clock_s[0]] * 3
    assert len(set(arrived[-1].tolist())) == 1


def test_array_of_rows_given_by_the_caller_is_not_kept(some_tapes):
    rows = np.array([0, 1])
    env = BatchEnv(some_tapes, rows)
    env.reset(np.array([0]), np.array([3]))
    assert rows.tolist() == [0, 1]


def test_actions_that_are_not_one_for_each_cluster_are_refused(some_tapes):
    with pytest.raises(InputError, match="one for each of 6 clusters"):
        BatchEnv(some_tapes).step(np.zeros(5, dtype=np.int64))


def test_row_that_no_tape_has_is_refused(some_tapes):
    with pytest.raises(InputError, match="6 tapes"):
        BatchEnv(some_tapes, np.array([0, 6]))
    with pytest.raises(InputError, match="6 tapes"):
        BatchEnv(some_tapes).reset(np.array([0]), np.array([-1]))


def test_other_tapes_from_now_on_bring_their_own_durations(hand_tape):
    """A resampled future: pods that have yet to come must not run for as long as the true ones would have."""
    columns = {"pods": 3, "pod_arrival_s": [1.0, 5.0, 60.0]}
    env = batch_of([hand_tape(**columns, pod_duration_s=[100.0, 100.0, 100.0])], threads=1)
    other = tapes.stack([hand_tape(**columns, pod_duration_s=[100.0, 20.0, 100.0])])
    env.use_tapes(pack(other), np.array([0]))
    env.step(np.array([0]))
    env.step(np.array([1]))
    assert env.clock_s[0] == 60.0
    assert env.truth("pods")[0].tolist() == [1.0, 0.0]


# --- many at once


def test_threads_change_nothing(some_tapes):
    rows = np.arange(300) % 6
    one, two = BatchEnv(some_tapes, rows, threads=1), BatchEnv(some_tapes, rows, threads=2)
    rng = np.random.default_rng(0)
    for _ in range(10):
        actions = random_actions(one, rng)
        np.testing.assert_array_equal(one.step(actions), two.step(actions))
    assert snapshot(one) == snapshot(two)


def test_encoding_into_arrays_given_leaves_nothing_of_what_was_there(some_tapes):
    env = BatchEnv(some_tapes)
    fresh, used = env.encode(), env.new_encoding()
    used.nodes[:], used.pod[:] = np.nan, np.nan
    env.encode(used)
    assert used.nodes.tobytes() == fresh.nodes.tobytes()
    assert used.pod.tobytes() == fresh.pod.tobytes()


def test_features_written_while_stepping_are_those_encoded_afterwards(some_tapes):
    rng, env = np.random.default_rng(0), BatchEnv(some_tapes)
    out = env.new_encoding()
    while not env.done.all():
        env.step(random_actions(env, rng), out)
        again = env.encode()
        assert out.nodes.tobytes() == again.nodes.tobytes()
        assert out.pod.tobytes() == again.pod.tobytes()


def test_looking_changes_nothing(some_tapes):
    rng, env = np.random.default_rng(0), BatchEnv(some_tapes)
    terms = env.step(random_actions(env, rng)).copy()
    before = snapshot(env)
    assert snapshot(env) == before
    np.testing.assert_array_equal(env.live.terms, terms)


def test_arrays_for_the_features_of_fewer_clusters_are_refused(some_tapes):
    with pytest.raises(InputError, match="no row for each of 6 clusters"):
        BatchEnv(some_tapes).encode(BatchEnv(some_tapes, np.array([0])).new_encoding())


def test_tape_with_too_many_pods_is_refused(hand_tape):
    tape = tapes.stack([hand_tape(pods=40_000)])
    with pytest.raises(InputError, match="40000 pods is too long"):
        BatchEnv(tape)

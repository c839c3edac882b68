"""Worlds small enough to work out by hand: decisions, time, contention and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from agent.errors import InputError
from envs.dynamics import costs
from envs.dynamics.contention import back_off_s
from envs.dynamics.world import QUEUE_LIMIT, World
from envs.workloads.synthetic import make_tape


def cost(terms: np.ndarray) -> dict[str, float]:
    """The terms that are not zero, by name."""
    return {name: value for name, value in zip(costs.TERMS, terms.tolist(), strict=True) if value != 0}


def waiting_pods(world: World) -> list[int]:
    return [waiting.pod for waiting in world.waiting]


def play_first_candidate(world: World) -> np.ndarray:
    """To the end of the episode; the sum of all costs."""
    total = costs.no_costs()
    while not world.done:
        total += world.step(int(np.flatnonzero(world.candidates())[0]))
    return total


# --- decisions


def test_world_waits_at_the_first_arrival(hand_tape):
    world = World(hand_tape(pod_arrival_s=[7.0, 9.0]))
    assert (world.clock_s, world.pod, world.done) == (7.0, 0, False)
    assert world.demand().queue_length == 1.0


def test_pods_that_arrive_together_are_decided_at_the_same_moment(hand_tape):
    world = World(hand_tape(pods=3, pod_arrival_s=[5.0, 5.0, 5.5]))
    assert world.pod == 0
    world.step(0)
    assert (world.pod, world.clock_s) == (1, 5.0)
    world.step(0)
    assert (world.pod, world.clock_s) == (2, 6.0)


def test_queue_shows_the_pod_itself_and_those_that_an_earlier_tick_left_over(hand_tape):
    requests = [5000, 100, 100]  # the first fits nowhere
    world = World(hand_tape(pods=3, pod_arrival_s=[5.0, 5.0, 5.5], pod_cpu_request_millicores=requests))
    assert (world.pod, world.demand().queue_length) == (1, 1.0)  # nobody has seen the first wait yet
    world.step(0)
    assert (world.pod, world.demand().queue_length) == (2, 2.0)


def test_node_outside_the_mask_is_refused_with_the_candidates(hand_tape):
    world = World(hand_tape(nodes=3, node_cpu_millicores=[400.0, 4000.0, 4000.0]))
    for node in (0, -1, 3):
        with pytest.raises(InputError, match=rf"node {node} is no candidate; candidates are \[1, 2\]"):
            world.step(node)
    assert world.decisions == 0


def test_world_that_is_over_takes_no_step_and_asks_for_nothing(hand_tape):
    world = World(hand_tape(pods=1))
    world.step(0)
    assert world.done
    assert world.demand().cpu_request_millicores == 0.0
    assert world.candidates().tolist() == [True, True]
    with pytest.raises(InputError, match="over"):
        world.step(0)
    with pytest.raises(InputError, match="over"):
        world.skip()


def test_skipped_pod_waits_for_the_next_tick(hand_tape):
    world = World(hand_tape(pods=2, pod_arrival_s=[5.0, 5.0]))
    world.skip()
    assert (world.pod, world.clock_s) == (1, 5.0)
    terms = world.skip()
    assert (world.pod, world.clock_s, world.decisions) == (0, 6.0, 0)
    assert cost(terms)["pending_time"] == 2.0


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("node_cpu_millicores", [499.0, 500.0]),
        ("node_memory_mib", [999.0, 1000.0]),
        ("node_gpus", [1, 2]),
        ("node_user_latency_ms", [30.1, 30.0]),
        ("node_maintenance_start_s", [0.0, np.inf]),
    ],
)
def test_node_that_lacks_something_is_no_candidate(hand_tape, column, values):
    tape = hand_tape(pods=1, pod_latency_hard_ms=30.0, **{"node_gpus": 2, column: values}, pod_gpus=2)
    assert World(tape).candidates().tolist() == [False, True]


def test_full_pod_count_is_no_candidate(hand_tape):
    world = World(hand_tape(node_pods=[1, 5]))
    world.step(0)
    assert world.candidates().tolist() == [False, True]


def test_kube_scheduler_offers_the_first_feasible_nodes_from_where_it_starts(hand_tape):
    roomy = [4000.0] * 8 + [1.0, 4000.0]
    tape = hand_tape(nodes=10, pods=1, pod_start=0.75, candidate_minimum=3, node_cpu_millicores=roomy)
    assert np.flatnonzero(World(tape).candidates()).tolist() == [0, 1, 2, 7, 9]  # half of ten, from 7 on, without 8


def test_another_candidate_wins_when_other_plugins_override(hand_tape):
    world = World(hand_tape(nodes=4, pods=1, pod_override=0.5, node_cpu_millicores=[4000, 1, 4000, 4000]))
    world.step(0)  # candidates 0, 2, 3: the middle one wins
    assert world.pods.tolist() == [0, 0, 1, 0]


def test_pod_takes_the_fullest_gpus_that_fit(hand_tape):
    tape = hand_tape(nodes=1, pods=3, node_gpus=2, pod_gpus=[1, 1, 1], pod_gpu_milli=[600, 300, 400])
    world = World(tape)
    for _ in range(3):
        world.step(0)
    assert world.gpu_free_milli[0, :3].tolist() == [100, 600, 0]


# --- time


def test_pod_runs_for_its_duration_from_the_moment_it_is_bound(hand_tape):
    world = World(hand_tape(pods=2, pod_arrival_s=[5.0, 30.0], pod_duration_s=[20.0, 1000.0]))
    world.step(0)
    assert world.clock_s == 30.0
    assert world.pods.tolist() == [0, 0]
    world = World(hand_tape(pods=2, pod_arrival_s=[5.0, 24.0], pod_duration_s=[20.0, 1000.0]))
    world.step(0)
    assert world.pods.tolist() == [1, 0]


def test_initial_pods_run_before_the_first_decision_and_their_cost_is_nobodys(hand_tape):
    tape = hand_tape(pods=3, pod_initial=[True, True, False], pod_arrival_s=[0, 0, 9], pod_start=[0.0, 0.6, 0.0])
    world = World(tape)
    assert world.pods.tolist() == [1, 1]
    assert world.state().pods_running.tolist() == [1, 1]
    assert cost(world.terms) == {}


def test_pod_without_a_node_waits_until_there_is_room(hand_tape):
    tape = hand_tape(nodes=1, pods=2, pod_cpu_request_millicores=3000.0, pod_duration_s=[20.0, 5.0])
    world = World(tape)
    terms = world.step(0)
    assert (world.clock_s, world.pod) == (21.0, 1)  # bound at 1, gone at 21; the other came at 2
    assert cost(terms)["pending_time"] == 19.0


def test_pod_that_waits_too_long_is_given_up(hand_tape):
    tape = hand_tape(nodes=1, pods=3, pod_cpu_request_millicores=[3000, 3000, 1], pending_timeout_s=10.0)
    world = World(tape)
    world.step(0)
    assert world.pod == 2
    terms = world.step(0)
    assert cost(terms)["failures"] == 1.0
    assert world.done
    assert waiting_pods(world) == []


def test_full_queue_gives_up_what_comes_next(hand_tape):
    pods = QUEUE_LIMIT + 8
    tape = hand_tape(nodes=1, pods=pods, pod_arrival_s=[1.0] + [2.0] * (pods - 1), pod_cpu_request_millicores=4000.0)
    world = World(tape)
    terms = world.step(0)
    assert len(world.waiting) == QUEUE_LIMIT
    assert cost(terms)["failures"] == 7.0


def test_node_under_maintenance_is_drained_and_its_pods_come_back(hand_tape):
    tape = hand_tape(
        pods=2,
        pod_arrival_s=[5.0, 70.0],
        pod_duration_s=[50.0, 10.0],
        node_maintenance_start_s=[20.0, np.inf],
        node_maintenance_end_s=[60.0, np.inf],
    )
    world = World(tape)
    world.step(0)
    assert (world.clock_s, world.pod) == (20.0, 0)
    assert world.candidates().tolist() == [False, True]
    assert world.state().schedulable.tolist() == [False, True]
    assert world.pods.tolist() == world.state().pods_running.tolist() == [0, 0]
    world.step(1)
    assert world.running[:1] == []  # 15 of its 50 s were over: gone at 55, before the next decision at 70
    assert (world.clock_s, world.pod) == (70.0, 1)
    assert world.candidates().tolist() == [True, True]


def test_drained_pod_still_runs_for_what_was_left_of_it(hand_tape):
    tape = hand_tape(
        pods=2,
        pod_arrival_s=[5.0, 54.0],
        pod_duration_s=[50.0, 10.0],
        node_maintenance_start_s=[20.0, np.inf],
    )
    world = World(tape)
    world.step(0)
    world.step(1)
    assert (world.clock_s, world.running[0].ends_at_s) == (54.0, 55.0)


def test_pod_that_ends_when_its_node_is_drained_does_not_come_back(hand_tape):
    tape = hand_tape(pods=1, pod_arrival_s=[5.0], pod_duration_s=[15.0], node_maintenance_start_s=[20.0, np.inf])
    world = World(tape)
    world.step(0)
    assert world.done
    assert world.decisions == 1


def test_memory_over_capacity_kills_the_pod_furthest_above_its_request(hand_tape):
    tape = hand_tape(
        nodes=1,
        pods=3,
        pod_arrival_s=[5.0, 5.0, 5.0],
        pod_memory_request_mib=[4000.0, 1000.0, 1000.0],
        pod_memory_use_ratio=[1.0, 1.5, 1.4],  # 4000 + 1500 + 1400
        node_memory_mib=6500.0,
        node_background_memory_mib=0.0,
    )
    world = World(tape)
    world.step(0)
    world.step(0)
    terms = world.step(0)
    assert cost(terms)["memory_kills"] == 1.0
    assert (world.clock_s, world.pod, waiting_pods(world)) == (15.0, 1, [1])  # away for ten seconds
    assert [placement.pod for placement in world.running] == [0, 2]


def test_pod_that_is_killed_again_stays_away_twice_as_long_and_waits_all_the_while(hand_tape):
    tape = hand_tape(nodes=1, pods=1, pod_arrival_s=[5.0], node_background_memory_mib=9000.0, pending_timeout_s=15.0)
    world = World(tape)
    terms = world.step(0)  # one second on the node, nine away: no more than the timeout, which begins after that
    assert (world.clock_s, cost(terms)["pending_time"], cost(terms)["memory_kills"]) == (15.0, 9.0, 1.0)
    world.step(0)
    assert world.clock_s == 35.0
    world.step(0)
    assert (world.clock_s, world.killed[0]) == (75.0, 3)


def test_pod_is_away_for_five_minutes_at_most():
    assert [back_off_s(kills) for kills in (1, 2, 5, 6, 400)] == [10.0, 20.0, 160.0, 300.0, 300.0]


def test_kills_go_on_until_the_rest_fits_and_stop_at_the_background(hand_tape):
    tape = hand_tape(nodes=1, pods=2, pod_arrival_s=[5.0, 5.0], node_background_memory_mib=9000.0)
    world = World(tape)
    world.step(0)
    terms = world.step(0)
    assert cost(terms)["memory_kills"] == 2.0
    assert world.running == []


# --- what it costs: one node or two, one second


def one_second(hand_tape, **columns) -> dict[str, float]:
    """The costs of the second after the first pod is bound; the second pod asks for nothing and ends it."""
    same = {"pods": 2, "pod_arrival_s": [1.0, 2.0]}
    return cost(World(hand_tape(**same | columns)).step(0))


def test_only_a_node_with_pods_uses_power_and_money(hand_tape):
    terms = one_second(hand_tape)
    # 250 of 4000 millicores: 50 + 100 x 0.0625 W for one second; 0.36 dollars an hour
    assert terms["energy"] == pytest.approx(56.25 / 3.6e6)
    assert terms["money"] == pytest.approx(0.0001)


def test_traffic_over_the_nic_is_lost_in_each_direction(hand_tape):
    terms = one_second(hand_tape, node_nic_mbps=100.0, pod_rx_mbps=180.0, pod_tx_mbps=120.0)
    assert terms["network_loss"] == pytest.approx((80.0 + 20.0) / 8000.0)


def test_cpu_over_capacity_is_throttled(hand_tape):
    terms = one_second(hand_tape, pod_cpu_use_ratio=10.0)
    assert terms["cpu_throttling"] == pytest.approx(1.0)  # 5 of 4 cores


def test_siblings_in_two_zones_pay_for_both_directions(hand_tape):
    columns = {"zones": 2, "node_zone": [0, 1], "app_sibling_mbps": 40.0, "pod_start": [0.0, 0.6, 0.0]}
    tape = hand_tape(
        pods=3, pod_initial=[True, True, False], pod_arrival_s=[0.0, 0.0, 1.0], pod_app=[0, 0, 1], apps=2, **columns
    )
    terms = cost(World(tape).step(0))
    seconds = 99.0
    assert terms["cross_zone"] == pytest.approx(2 * 40.0 * seconds / 8000.0)


def test_siblings_on_one_node_use_neither_nic_nor_zone(hand_tape):
    columns = {"pod_arrival_s": [1.0, 1.0], "app_sibling_mbps": 5000.0, "zones": 2, "node_zone": [0, 1]}
    world = World(hand_tape(**columns))
    world.step(0)
    together = cost(world.step(0))
    world = World(hand_tape(**columns))
    world.step(0)
    apart = cost(world.step(1))
    assert "network_loss" not in together
    assert "cross_zone" not in together
    assert apart["network_loss"] > 0
    assert apart["cross_zone"] > 0


@pytest.mark.parametrize(("soft_ms", "hard_ms", "share"), [(10, 20, 0), (9.9, 20, 0.5)])
def test_latency_to_users_above_the_soft_limit_counts_half(hand_tape, soft_ms, hard_ms, share):
    columns = {"pod_latency_soft_ms": [soft_ms, np.nan], "pod_latency_hard_ms": [hard_ms, np.nan]}
    assert one_second(hand_tape, **columns).get("latency_violation", 0.0) == share


@pytest.mark.parametrize(("soft_ms", "hard_ms", "share"), [(25.1, 30, 0), (24.9, 25.1, 0.5), (20, 24.9, 1)])
def test_mean_round_trip_to_siblings_adds_to_latency(hand_tape, soft_ms, hard_ms, share):
    """Of two siblings one is on the same node and one 30 ms away: 15 ms in the mean, beside 10 ms to the users."""
    tape = hand_tape(
        pods=4,
        apps=2,
        zones=2,
        node_zone=[0, 1],
        zone_rtt_ms=[[2.0, 30.0], [30.0, 2.0]],
        pod_initial=[True, True, False, False],
        pod_arrival_s=[0.0, 0.0, 1.0, 2.0],
        pod_app=[0, 0, 0, 1],
        pod_start=[0.0, 0.6, 0.0, 0.0],
        pod_latency_soft_ms=[np.nan, np.nan, soft_ms, np.nan],
        pod_latency_hard_ms=[np.nan, np.nan, hard_ms, np.nan],
    )
    assert cost(World(tape).step(0)).get("latency_violation", 0.0) == share


def test_fragmentation_is_capacity_that_the_other_resource_leaves_unusable(hand_tape):
    terms = one_second(hand_tape, nodes=1, pod_memory_request_mib=[3000.0, 0.0])
    assert terms["fragmentation"] == pytest.approx(abs(500 / 4000 - 3000 / 8000) * 4.0)


def test_imbalance_is_the_spread_of_the_busiest_resource(hand_tape):
    terms = one_second(hand_tape, node_nic_mbps=100.0, pod_rx_mbps=40.0, pod_tx_mbps=60.0)
    assert terms["imbalance"] == pytest.approx(0.3)  # 0.6 and 0: the standard deviation is half of the distance


def test_costs_of_a_step_are_those_since_the_last_decision(hand_tape):
    tape = hand_tape(pods=3, pod_arrival_s=[10.0, 12.0, 15.0], horizon_s=20.0)
    world = World(tape)
    money = [cost(world.step(0))["money"] for _ in range(3)]
    np.testing.assert_allclose(money, np.array([2.0, 3.0, 5.0]) * 0.36 / 3600.0)


def test_load_moves_cpu_and_traffic_but_not_memory(hand_tape):
    world = World(hand_tape(pods=2, pod_arrival_s=[1.0, 15.0], app_load=np.array([[1.0], [3.0]] * 4)))
    world.step(0)
    one, three = world.last_loads, world._loads()  # of the step that ended at 15 s and of the one that began there
    assert three.cpu_millicores[0] == 3 * one.cpu_millicores[0] == 750.0
    assert three.tx_mbps[0] == 3 * one.tx_mbps[0] == 60.0
    assert three.memory_mib[0] == one.memory_mib[0] == 500.0


def test_two_policies_on_one_tape_see_the_same_arrivals(tiny_scenario):
    tape = make_tape(tiny_scenario(), 5)
    first, last = (arrivals_seen(World(tape), pick) for pick in (0, -1))
    both = first.keys() & last.keys()  # a pod that one policy leaves no room for is never offered to it
    assert len(both) > 10
    assert [first[pod] for pod in both] == [last[pod] for pod in both]


def arrivals_seen(world: World, pick: int) -> dict[int, tuple[float, ...]]:
    """What was asked for by each pod that was offered, and when it came."""
    seen = {}
    while not world.done:
        demand, since_s = world.demand(), world.waiting[world.offered].since_s
        asked = (demand.cpu_request_millicores.item(), demand.memory_request_mib.item(), demand.gpus.item())
        seen.setdefault(world.pod, (since_s, *asked))
        world.step(int(np.flatnonzero(world.candidates())[pick]))
    return seen

"""What scrapes and watches bring to a sidecar, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from agent.cluster import DEMAND_SOURCES
from envs.dynamics.world import World


def at(world: World, clock_s: float) -> World:
    """Play until the decision at this moment."""
    while world.clock_s < clock_s:
        world.step(int(np.flatnonzero(world.candidates())[0]))
    assert world.clock_s == clock_s
    return world


def initial(count: int, more: int) -> dict[str, object]:
    """So many pods that run from the start on the first nodes, and the others as they come."""
    return {
        "pods": count + more,
        "pod_initial": np.arange(count + more) < count,
        "pod_start": np.where(np.arange(count + more) < count, (np.arange(count + more) + 0.5) / max(count, 1), 0.0),
    }


# --- metrics


def test_nothing_is_known_before_two_scrapes(hand_tape):
    tape = hand_tape(pods=3, pod_arrival_s=[1.0, 9.0, 10.0])
    assert np.isnan(World(tape).state().rx_mbps).all()
    early = at(World(tape), 9.0).state()
    assert np.isnan(early.cpu_used_millicores).all()
    assert np.isinf(early.cpu_age_s).all()
    known = at(World(tape), 10.0).state()  # scraped at 1 s and at 10 s
    assert np.isfinite(known.cpu_used_millicores).all()
    assert known.cpu_age_s.tolist() == [0.0, 0.0]


def test_rates_are_what_was_carried_not_what_was_offered(hand_tape):
    offered = {"pod_rx_mbps": [40.0, 400.0, 0.0], "pod_tx_mbps": 25.0, "pod_cpu_use_ratio": [0.5, 20.0, 0.5]}
    columns = initial(2, 1) | {"pod_arrival_s": [0.0, 0.0, 40.0], "node_nic_mbps": 100.0}
    state = at(World(hand_tape(**columns, **offered)), 40.0).state()
    np.testing.assert_allclose(state.rx_mbps, [40.0, 100.0])
    np.testing.assert_allclose(state.tx_mbps, [25.0, 25.0])
    np.testing.assert_allclose(state.cpu_used_millicores, [250.0, 4000.0])
    np.testing.assert_allclose(state.memory_used_mib, [500.0, 500.0])
    np.testing.assert_allclose(state.connections, [2 * 65.0, 2 * 125.0])


def test_rate_is_the_mean_over_the_window_and_its_spread_is_known(hand_tape):
    load = np.array([[1.0], [1.0], [5.0], [5.0], [1.0], [1.0], [1.0], [1.0]])  # 5 from 20 s to 40 s
    columns = initial(1, 1) | {"pod_arrival_s": [0.0, 30.0], "load_step_s": 10.0, "app_load": load}
    state = at(World(hand_tape(**columns, nodes=1, rate_window_s=20.0)), 30.0).state()
    assert state.rx_mbps[0] == pytest.approx((10.0 + 50.0) / 2)  # from 10 s to 30 s
    assert state.cpu_used_millicores[0] == pytest.approx(750.0)
    assert state.cpu_std_millicores[0] == pytest.approx(500.0)


def test_delay_shows_every_scrape_later_and_the_age_says_so(hand_tape):
    columns = initial(1, 2) | {"pod_arrival_s": [0.0, 24.0, 27.0], "scrape_delay_s": 7.0}
    world = at(World(hand_tape(**columns)), 24.0)
    assert world.state().network_age_s.tolist() == [14.0, 14.0]  # the scrape of 20 s arrives at 27 s
    assert at(world, 27.0).state().network_age_s.tolist() == [7.0, 7.0]


def test_lost_scrapes_leave_the_old_value_to_age(hand_tape):
    missing = np.zeros((32, 2), dtype=bool)
    missing[2:, 1] = True  # node 1 is last seen at 10 s
    load = np.where(np.arange(8) < 1, 1.0, 2.0)[:, None]
    columns = initial(2, 1) | {"pod_arrival_s": [0.0, 0.0, 60.0], "scrape_missing": missing, "app_load": load}
    state = at(World(hand_tape(**columns)), 60.0).state()
    assert state.network_age_s.tolist() == [0.0, 50.0]
    np.testing.assert_allclose(state.rx_mbps, [20.0, 10.0])


def test_node_that_is_never_scraped_stays_unknown(hand_tape):
    columns = initial(2, 1) | {"pod_arrival_s": [0.0, 0.0, 60.0], "scrape_missing": [[False, True]]}
    state = at(World(hand_tape(**columns)), 60.0).state()
    assert np.isnan([state.rx_mbps[1], state.cpu_used_millicores[1], state.memory_used_mib[1]]).all()
    assert np.isinf(state.memory_age_s[1])


def test_unknown_nic_speed_is_not_told(hand_tape):
    state = World(hand_tape(node_nic_known=[True, False])).state()
    np.testing.assert_array_equal(state.nic_mbps, [1000.0, np.nan])


# --- what the pod that waits is expected to do


def expected(world: World) -> tuple[str, float, float]:
    demand = world.demand()
    return DEMAND_SOURCES[demand.demand_source], demand.expected_rx_mbps.item(), demand.expected_tx_mbps.item()


def test_demand_comes_from_annotation_then_siblings_then_cluster_then_nowhere(hand_tape):
    columns = initial(2, 4) | {
        "apps": 3,
        "pod_arrival_s": [0.0, 0.0, 1.0, 12.0, 13.0, 14.0],
        "pod_app": [0, 1, 0, 0, 2, 2],
        "pod_rx_mbps": [10.0, 30.0, 10.0, 10.0, 0.0, 0.0],
        "pod_annotated_mbps": [np.nan] * 5 + [77.0],
        "scrape_delay_s": 2.0,
    }
    world = World(hand_tape(**columns))
    assert expected(world) == ("none", 0.0, 0.0)
    source, rx_mbps, tx_mbps = expected(at(world, 12.0))
    assert (source, tx_mbps) == ("siblings", 20.0)
    assert rx_mbps == pytest.approx(10.0)
    source, rx_mbps, _ = expected(at(world, 13.0))
    assert source == "cluster"
    assert 10.0 < rx_mbps < 30.0
    assert expected(at(world, 14.0)) == ("annotation", 77.0, 77.0)


def test_pod_without_a_label_has_no_siblings(hand_tape):
    columns = initial(2, 1) | {"pod_arrival_s": [0.0, 0.0, 12.0], "pod_labelled": [True, True, False]}
    world = World(hand_tape(**columns))
    assert expected(world)[0] == "cluster"
    assert world.demand().siblings == 0.0


def test_running_pods_without_a_label_are_nobodys_siblings(hand_tape):
    columns = initial(2, 1) | {"pod_arrival_s": [0.0, 0.0, 12.0], "pod_labelled": [False, True, True]}
    world = World(hand_tape(**columns, pod_rx_mbps=[90.0, 10.0, 0.0]))
    assert world.demand().siblings_on_node.tolist() == [0.0, 1.0]
    assert expected(world)[:2] == ("siblings", pytest.approx(10.0))


def test_cpu_and_memory_are_the_request_until_siblings_show_their_share(hand_tape):
    columns = initial(2, 2) | {"pod_arrival_s": [0.0, 0.0, 1.0, 12.0], "scrape_delay_s": 2.0}
    world = World(hand_tape(**columns, pod_cpu_use_ratio=0.25, pod_memory_use_ratio=0.75))
    assert (world.demand().expected_cpu_millicores, world.demand().expected_memory_mib) == (500.0, 1000.0)
    demand = at(world, 12.0).demand()
    assert demand.expected_cpu_millicores == pytest.approx(125.0)
    assert demand.expected_memory_mib == pytest.approx(750.0)


def test_without_pod_metrics_only_the_clusters_mean_is_known(hand_tape):
    columns = initial(2, 1) | {"pod_arrival_s": [0.0, 0.0, 12.0], "pod_metrics": False}
    source, rx_mbps, tx_mbps = expected(World(hand_tape(**columns, background_rx_ratio=0.03)))
    assert source == "cluster"
    assert rx_mbps == pytest.approx(10.0 + 30.0)  # background cannot be told apart
    assert tx_mbps == pytest.approx(20.0)


def test_siblings_are_counted_by_node_and_zone_with_their_distance(hand_tape):
    columns = initial(3, 1) | {"pod_arrival_s": [0.0, 0.0, 0.0, 12.0], "zones": 2, "node_zone": [0, 0, 1]}
    rtt_ms = [[0.5, 4.0], [4.0, 0.5]]
    demand = World(hand_tape(nodes=3, zone_rtt_ms=rtt_ms, **columns)).demand()
    assert demand.siblings == 3.0
    assert demand.siblings_on_node.tolist() == [1.0, 1.0, 1.0]
    assert demand.siblings_in_zone.tolist() == [2.0, 2.0, 1.0]
    np.testing.assert_allclose(demand.sibling_rtt_ms, [4.5 / 3, 4.5 / 3, 8.0 / 3])


def test_sibling_traffic_is_told_only_where_it_is_declared(hand_tape):
    for declared, told in ((True, 40.0), (False, np.nan)):
        tape = hand_tape(pods=1, app_sibling_mbps=40.0, app_sibling_declared=declared)
        np.testing.assert_array_equal(World(tape).demand().sibling_mbps, told)


# --- placements that the metrics do not show yet


def test_placement_is_pending_until_the_window_contains_it(hand_tape):
    columns = initial(1, 4) | {"pod_arrival_s": [0.0, 15.0, 15.0, 25.0, 64.0], "pod_annotated_mbps": 50.0}
    world = at(World(hand_tape(nodes=1, **columns)), 15.0)
    world.step(0)
    assert world.state().pending_rx_mbps.tolist() == [50.0]
    assert world.state().pending_pods.tolist() == [1.0]
    at(world, 25.0)  # the window of 30 s that ends at 20 s holds 5 s of both
    np.testing.assert_allclose(world.state().pending_rx_mbps, 2 * 50.0 * (1 - 5 / 30))
    assert world.state().pending_memory_mib.tolist() == [0.0]  # a gauge has no window
    assert at(world, 64.0).state().pending_pods.tolist() == [0.0]


LEAVES = initial(1, 3) | {
    "nodes": 1,
    "apps": 2,
    "pod_app": [0, 1, 1, 1],
    "pod_arrival_s": [0.0, 25.0, 45.0, 80.0],
    "pod_duration_s": [22.0, 60.0, 60.0, 60.0],
    "pod_rx_mbps": [10.0, 0.0, 0.0, 0.0],
    "pod_annotated_mbps": [np.nan, 0.0, 0.0, 0.0],
}


def test_what_the_window_still_shows_of_a_pod_that_has_left_is_taken_away(hand_tape):
    world = at(World(hand_tape(**LEAVES)), 25.0)  # measured from 0 to 20 s; the pod left at 22 s
    state = world.state()
    np.testing.assert_allclose(state.rx_mbps, [10.0])
    np.testing.assert_allclose(state.pending_rx_mbps, [-10.0])
    np.testing.assert_allclose(state.pending_memory_mib, -state.memory_used_mib)  # it ran when the gauge was read
    np.testing.assert_allclose(state.pending_cpu_millicores, -state.cpu_used_millicores)
    assert state.pending_pods.tolist() == [0.0]
    at(world, 45.0)  # the window from 10 to 40 s holds 12 s of it
    np.testing.assert_allclose(world.state().rx_mbps, [4.0])
    np.testing.assert_allclose(world.state().pending_rx_mbps, [-4.0])
    assert world.state().pending_memory_mib[0] >= 0.0
    assert at(world, 80.0).state().pending_rx_mbps.tolist() == [0.0]


def test_no_more_is_taken_away_than_was_measured(hand_tape):
    louder = LEAVES | {"pod_initial": [True, True, False, False], "pod_arrival_s": [0.0, 0.0, 25.0, 80.0]}
    louder |= {
        "pod_app": [0, 0, 1, 1],
        "pod_duration_s": [8.0, 22.0, 60.0, 60.0],
        "pod_rx_mbps": [10.0, 90.0, 0.0, 0.0],
    }
    state = at(World(hand_tape(**louder)), 25.0).state()
    assert state.rx_mbps[0] + state.pending_rx_mbps[0] >= 0.0
    assert at(World(hand_tape(**louder), assume=False), 25.0).state().pending_rx_mbps.tolist() == [0.0]


def test_without_assuming_nothing_is_pending_and_the_watch_comes_late(hand_tape):
    tape = hand_tape(pods=3, pod_arrival_s=[5.0, 5.0, 5.0], pod_visible_after=1)
    for assume, known in ((True, [2.0, 0.0]), (False, [1.0, 0.0])):
        world = World(tape, assume)
        world.step(0)
        world.step(0)
        assert world.state().pods_running.tolist() == known
        assert world.state().pending_pods.tolist() == ([2.0, 0.0] if assume else [0.0, 0.0])


def test_assumed_placement_moves_when_the_watch_shows_another_node(hand_tape):
    tape = hand_tape(pods=4, pod_arrival_s=5.0, pod_override=[0.9, -1, -1, -1], pod_visible_after=[2, 0, 0, 0])
    world = World(tape)
    world.step(0)
    assert world.state().pods_running.tolist() == [1.0, 0.0]
    assert world.pods.tolist() == [0.0, 1.0]
    world.step(0)
    assert world.state().pods_running.tolist() == [2.0, 0.0]
    world.step(0)
    assert world.state().pods_running.tolist() == world.pods.tolist() == [2.0, 1.0]


def test_gpus_of_a_placement_are_believed_and_then_seen(hand_tape):
    columns = {"node_gpus": 2, "pod_gpus": 1, "pod_override": [0.9, -1, -1], "pod_visible_after": [1, 0, 0]}
    world = World(hand_tape(pods=3, pod_arrival_s=5.0, **columns))
    world.step(0)
    assert world.state().gpu_free_milli[:, :2].tolist() == [[0.0, 1000.0], [1000.0, 1000.0]]
    world.step(0)
    assert world.state().gpu_free_milli[:, :2].tolist() == world.gpu_free_milli[:, :2].tolist()
    assert world.gpu_free_milli[:, :2].tolist() == [[0.0, 1000.0], [0.0, 1000.0]]


def test_gpu_that_two_pods_are_believed_on_is_not_below_empty(hand_tape):
    columns = {"node_gpus": 1, "pod_gpus": 1, "pod_override": [0.9, 0.0, -1], "pod_visible_after": [5, 0, 0]}
    world = World(hand_tape(pods=3, pod_arrival_s=5.0, pod_gpu_milli=600, **columns))
    world.step(0)  # believed on 0, is on 1
    world.step(0)  # is on 0, and is seen there at once
    assert world.state().gpu_free_milli[:, 0].tolist() == [0.0, 1000.0]
    assert world.gpu_free_milli[:, 0].tolist() == [400.0, 400.0]

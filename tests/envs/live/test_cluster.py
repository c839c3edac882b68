"""Watch and metrics joined into a snapshot."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from agent.cluster import Pod
from agent.demand import Use
from envs.live.metrics import LiveMetrics, PodUse, Reading
from tests.envs.live.conftest import eventually
from tests.envs.live.scripted_api import api_node, api_pod

NETWORK = ("rx_mbps", "tx_mbps")


def readings(value: float, at_s: float, *nodes: str) -> dict[str, Reading]:
    return {node: Reading(value, at_s) for node in nodes}


@pytest.fixture(autouse=True)
def two_nodes(api):
    api.put("nodes", api_node("a", zone="z1"))
    api.put("nodes", api_node("b", zone="z2"))


@pytest.fixture
def state_when(cluster):
    """The state once it is as the test expects."""

    def wait(holds, what: str = ""):
        eventually(lambda: holds(cluster.snapshot().state_at(time.monotonic())), what, 3.0)
        return cluster.snapshot().state_at(time.monotonic())

    return wait


def test_requests_of_bound_pods_are_summed_by_node(api, cluster, state_when):
    api.put("pods", api_pod("p1", node="a", cpu="500m", memory="1Gi"))
    api.put("pods", api_pod("p2", node="a", cpu="1", memory="512Mi"))
    state = state_when(lambda state: state.pods_running[0] == 2)
    assert state.cpu_requested_millicores.tolist() == [1500.0, 0.0]
    assert state.memory_requested_mib.tolist() == [1536.0, 0.0]


def test_resized_moved_and_ended_pods_leave_nothing_behind(api, cluster, state_when):
    api.put("pods", api_pod("p1", node="a", cpu="500m"))
    state_when(lambda state: state.cpu_requested_millicores[0] == 500)
    api.put("pods", api_pod("p1", node="a", cpu="750m"))
    state_when(lambda state: state.cpu_requested_millicores[0] == 750, "the resize")
    api.put("pods", api_pod("p1", node="a", cpu="750m", phase="Succeeded"))
    state = state_when(lambda state: state.pods_running[0] == 0, "the end")
    assert state.cpu_requested_millicores.tolist() == [0.0, 0.0]


def test_whole_gpus_are_taken_by_pods_that_hold_them(api, cluster, state_when):
    api.put("pods", api_pod("p1", node="a", gpus="1"))
    state = state_when(lambda state: state.pods_running[0] == 1)
    assert state.gpu_count.tolist() == [2.0, 2.0]
    assert (state.gpu_free_milli == 1000).sum(axis=-1).tolist() == [1, 2]


def test_pods_without_a_node_are_the_queue_unless_a_gate_holds_them(api, cluster):
    api.put("pods", api_pod("waits"))
    api.put("pods", api_pod("gated", gates=[{"name": "quota"}]))
    eventually(lambda: cluster.snapshot().queue_length == 1, within_s=2.0)
    api.put("pods", api_pod("waits", node="a"))
    eventually(lambda: cluster.snapshot().queue_length == 0, within_s=2.0)


def test_siblings_are_the_pods_of_the_owner_over_all_rollouts(api, cluster, state_when):
    for name, node in (("w1", "a"), ("w2", "b"), ("w3", "b")):
        api.put("pods", api_pod(name, node=node, app="web"))
    api.put("pods", api_pod("other", node="a", app="db"))
    state_when(lambda state: state.pods_running.sum() == 4)
    snapshot = cluster.snapshot()
    assert snapshot.siblings_of(Pod("u", namespace="shop", app="web")).tolist() == [1.0, 2.0]
    assert snapshot.siblings_of(Pod("u", namespace="bank", app="web")).tolist() == [0.0, 0.0]


def test_published_snapshot_never_changes(api, cluster, state_when):
    api.put("pods", api_pod("w1", node="a", app="web"))
    state_when(lambda state: state.pods_running[0] == 1)
    before = cluster.snapshot()
    siblings = before.siblings_of(Pod("u", namespace="shop", app="web")).tolist()
    api.put("pods", api_pod("w2", node="a", app="web"))
    api.delete("nodes", api_node("b", zone="z2"))
    state_when(lambda state: state.node_count == 1 and state.pods_running[0] == 2)
    assert (before.state.pods_running.tolist(), before.nodes.names) == ([1.0, 0.0], ("a", "b"))
    assert before.siblings_of(Pod("u", namespace="shop", app="web")).tolist() == siblings


def test_metrics_are_joined_by_node_with_their_ages(cluster, given_metrics, state_when):
    now_s = time.time()
    columns = {
        "cpu_used_millicores": readings(900.0, now_s - 20, "a", "unknown-node"),
        "rx_mbps": readings(100.0, now_s - 30, "a", "b"),
        "tx_mbps": readings(50.0, now_s - 10, "a"),
    }
    given_metrics.current = LiveMetrics(columns)
    state = state_when(lambda state: state.cpu_used_millicores[0] == 900)
    assert state.cpu_age_s[0] == pytest.approx(20, abs=3)
    assert state.network_age_s[0] == pytest.approx(30, abs=3)  # as old as its oldest half
    assert math.isnan(state.cpu_used_millicores[1])
    assert [state.cpu_age_s[1], state.network_age_s[1], state.memory_age_s[0]] == [math.inf] * 3


def test_readings_that_are_no_numbers_are_missing(cluster, given_metrics, state_when):
    now_s = time.time()
    columns = {"cpu_used_millicores": {"a": Reading(math.nan, now_s), "b": Reading(5.0, now_s)}}
    given_metrics.current = LiveMetrics(columns)
    state = state_when(lambda state: state.cpu_used_millicores[1] == 5)
    assert state.cpu_age_s[0] == math.inf


def test_source_ten_minutes_ahead_gives_fresh_data_that_still_grows_old(cluster, given_metrics, state_when):
    ahead_s = time.time() + 600
    given_metrics.current = LiveMetrics({"cpu_used_millicores": readings(1.0, ahead_s, "a")})
    state = state_when(lambda state: state.cpu_used_millicores[0] == 1)
    assert 0 <= state.cpu_age_s[0] < 1.5
    # the source publishes again and again, but has nothing new to say
    until_s = time.monotonic() + 2.5
    while time.monotonic() < until_s:
        given_metrics.current = LiveMetrics({"cpu_used_millicores": readings(1.0, ahead_s, "a")})
        time.sleep(0.2)
    assert cluster.snapshot().state_at(time.monotonic()).cpu_age_s[0] > 2.0
    given_metrics.current = LiveMetrics({"cpu_used_millicores": readings(2.0, ahead_s + 15, "a")})
    state = state_when(lambda state: state.cpu_used_millicores[0] == 2)
    assert 0 <= state.cpu_age_s[0] < 1.5


def test_one_node_ahead_makes_no_other_node_old(cluster, given_metrics, state_when):
    now_s = time.time()
    columns = {"cpu_used_millicores": readings(1.0, now_s + 600, "a") | readings(1.0, now_s - 5, "b")}
    given_metrics.current = LiveMetrics(columns)
    state = state_when(lambda state: state.cpu_used_millicores[1] == 1)
    assert state.cpu_age_s[1] == pytest.approx(5, abs=3)


def test_observed_use_is_the_mean_of_the_siblings_then_of_the_namespace_then_of_all(
    api, cluster, given_metrics, state_when
):
    api.put("pods", api_pod("w1", node="a", app="web", cpu="1", memory="1Gi"))
    api.put("pods", api_pod("w2", node="b", app="web", cpu="1", memory="1Gi"))
    api.put("pods", api_pod("d1", node="b", namespace="bank", cpu="500m", memory="1Gi"))
    state_when(lambda state: state.pods_running.sum() == 3)
    given_metrics.current = LiveMetrics(
        pods={
            ("shop", "w1"): PodUse(500.0, 512.0, 10.0, 1.0),
            ("shop", "w2"): PodUse(300.0, 256.0, 30.0, math.nan),
            ("bank", "d1"): PodUse(500.0, math.nan, 50.0, 3.0),
            ("gone", "x"): PodUse(9e9, 9e9, 9e9, 9e9),
        }
    )
    eventually(lambda: cluster.snapshot().observed.by_app, within_s=3.0)
    observed = cluster.snapshot().observed
    assert observed.by_app == {("shop", "web"): Use(20.0, 1.0, 0.4, 0.375)}
    assert set(observed.by_namespace) == {"shop", "bank"}
    assert observed.cluster.rx_mbps == 30.0


def test_nic_speed_and_latency_may_be_measured_where_no_label_says_them(api, cluster, given_metrics, state_when):
    labelled = api_node("a", zone="z1")
    labelled["metadata"]["labels"]["pilotfish.io/nic-mbps"] = "2500"
    api.put("nodes", labelled)
    now_s = time.time()
    columns = {"nic_mbps": readings(10_000.0, now_s, "a", "b"), "user_latency_ms": readings(7.0, now_s, "b")}
    given_metrics.current = LiveMetrics(columns)
    state = state_when(lambda state: state.nic_mbps[1] == 10_000 and state.nic_mbps[0] == 2500)
    assert np.isnan(state.user_latency_ms[0])
    assert state.user_latency_ms[1] == 7.0


def test_zones_have_a_distance(cluster, state_when):
    state = state_when(lambda state: state.node_count == 2)
    assert state.zone.tolist() == [0, 1]
    assert state.zone_rtt_ms.tolist() == [[0.1, 1.0], [1.0, 0.1]]


def test_listeners_hear_of_bindings_after_the_snapshot_counts_them(api, cluster, heard):
    api.put("pods", api_pod("p1"))
    api.put("pods", api_pod("p1", node="b"))
    eventually(lambda: heard.bound, within_s=2.0)
    assert heard.bound == [("uid-shop-p1", "b")]
    assert heard.counted == [1.0]
    api.delete("pods", api_pod("p1", node="b"))
    eventually(lambda: heard.gone == ["uid-shop-p1"], within_s=2.0)


def test_a_pod_that_left_is_told_with_its_node_and_what_it_asked_for(api, cluster, heard):
    api.put("pods", api_pod("p1", node="b"))
    eventually(lambda: heard.bound, within_s=2.0)
    api.put("pods", api_pod("p2"))
    api.delete("pods", api_pod("p1", node="b"))
    api.delete("pods", api_pod("p2"))
    eventually(lambda: len(heard.left) == 2, within_s=2.0)
    (ran, where), (waited, nowhere) = sorted(heard.left, key=lambda each: each[0].uid)
    assert (ran.uid, ran.namespace, where) == ("uid-shop-p1", "shop", "b")
    assert ran.cpu_request_millicores == waited.cpu_request_millicores > 0
    assert nowhere == ""


def test_pods_that_ran_before_we_came_are_no_news(api, cluster_of, heard):
    api.put("pods", api_pod("old", node="a"))
    cluster = cluster_of(api.url)
    eventually(lambda: cluster.snapshot() and cluster.snapshot().state.pods_running[0] == 1)
    api.put("pods", api_pod("new", node="a"))
    eventually(lambda: heard.bound, within_s=2.0)
    assert heard.bound == [("uid-shop-new", "a")]


def test_cluster_without_nodes_is_a_snapshot_of_none(api, cluster, state_when):
    api.delete("nodes", api_node("a"))
    api.delete("nodes", api_node("b"))
    assert state_when(lambda state: state.node_count == 0).zone_rtt_ms.shape == (1, 1)


def test_protected_pods_are_known_by_uid(api, cluster):
    api.put("pods", api_pod("p1", node="a", annotations={"pilotfish.io/protected": "true"}))
    api.put("pods", api_pod("p2", node="a", annotations={"pilotfish.io/protected": "no"}))
    eventually(lambda: cluster.snapshot().protected_uids == {"uid-shop-p1"}, within_s=2.0)
    api.delete("pods", api_pod("p1", node="a"))
    eventually(lambda: not cluster.snapshot().protected_uids, within_s=2.0)

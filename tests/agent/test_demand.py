"""What a pod is expected to use, from the best source there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cluster import DEMAND_SOURCES, Pod
from agent.demand import (
    Declared,
    ObservedDemand,
    Use,
    demand_of,
    expected_demand,
    mean_sibling_rtt,
    mean_use,
    observed_use,
    read_annotations,
    siblings_in_zone,
)

RTT_MS = np.array([[0.1, 1.0, 2.0], [1.5, 0.2, 4.0], [2.5, 8.0, 0.4]])


def a_pod(app: str = "shop", **fields) -> Pod:
    return Pod("uid", namespace="web", app=app, **fields)


def observed(**levels: Use) -> ObservedDemand:
    """Means for the app, the namespace and the cluster of ``a_pod``; what is not given was never seen."""
    return ObservedDemand(
        {("web", "shop"): levels["app"]} if "app" in levels else {},
        {"web": levels["namespace"]} if "namespace" in levels else {},
        levels.get("cluster", Use()),
    )


APP, NAMESPACE, CLUSTER = Use(10, 20, 0.5, 0.25), Use(30, 40, 0.6, 0.7), Use(50, 60, 0.8, 0.9)
NETWORK = {"pilotfish.io/network-mbps": "5"}
BANDWIDTH = {"kubernetes.io/ingress-bandwidth": "2M", "kubernetes.io/egress-bandwidth": "1500k"}


# annotations, levels seen, rx, tx, source
SOURCES = {
    "the pod's own word is first, in both directions": (NETWORK, {"app": APP}, 5, 5, "annotation"),
    "it is above the bandwidth": ({**NETWORK, **BANDWIDTH}, {"app": APP}, 5, 5, "annotation"),
    "bandwidth is bits per second: ingress is rx": (BANDWIDTH, {"app": APP}, 2, 1.5, "annotation"),
    "a bandwidth of one direction leaves the other to the siblings": (
        {"kubernetes.io/egress-bandwidth": "1G"},
        {"app": APP},
        10,
        1000,
        "annotation",
    ),
    "an unreadable word is passed over": ({"pilotfish.io/network-mbps": "lots"}, {"app": APP}, 10, 20, "siblings"),
    "siblings are before namespace and cluster": (
        {},
        {"app": APP, "namespace": NAMESPACE, "cluster": CLUSTER},
        10,
        20,
        "siblings",
    ),
    "namespace is before cluster": ({}, {"namespace": NAMESPACE, "cluster": CLUSTER}, 30, 40, "namespace"),
    "cluster is the last resort": ({}, {"cluster": CLUSTER}, 50, 60, "cluster"),
    "siblings without traffic figures do not count": (
        {},
        {"app": Use(cpu_ratio=0.5), "cluster": CLUSTER},
        50,
        60,
        "cluster",
    ),
    "nothing known adds nothing, and says so": ({}, {}, 0, 0, "none"),
    "a declared 0 is known": ({"pilotfish.io/network-mbps": "0"}, {"app": APP}, 0, 0, "annotation"),
}


@pytest.mark.parametrize(("annotations", "levels", "rx", "tx", "source"), SOURCES.values(), ids=SOURCES.keys())
def test_traffic_comes_from_the_best_source(annotations, levels, rx, tx, source) -> None:
    expected = expected_demand(a_pod(annotations=annotations), observed(**levels))
    assert (expected.rx_mbps, expected.tx_mbps) == (rx, tx)
    assert DEMAND_SOURCES[expected.source] == source


def test_a_pod_of_no_known_app_has_no_siblings() -> None:
    seen = ObservedDemand({("web", ""): APP}, {"web": NAMESPACE})
    assert expected_demand(a_pod(app=""), seen).rx_mbps == 30


def test_an_app_of_the_same_name_in_another_namespace_is_no_sibling() -> None:
    seen = ObservedDemand({("other", "shop"): APP}, {}, CLUSTER)
    assert expected_demand(a_pod(), seen).rx_mbps == 50


def test_cpu_and_memory_are_the_share_of_the_request_that_is_really_used() -> None:
    pod = a_pod(cpu_request_millicores=1000, memory_request_bytes=400 * 2**20, annotations=NETWORK)
    expected = expected_demand(pod, observed(app=Use(cpu_ratio=0.5), namespace=NAMESPACE))
    assert expected.cpu_millicores == 500  # of the siblings
    assert expected.memory_mib == pytest.approx(280)  # of the namespace: the siblings' is unknown


def test_without_observations_a_pod_uses_what_it_requests() -> None:
    expected = expected_demand(a_pod(cpu_request_millicores=250, memory_request_bytes=64 * 2**20), ObservedDemand())
    assert (expected.cpu_millicores, expected.memory_mib) == (250, 64)


def test_what_a_pod_used_that_has_left_is_what_was_seen_of_its_kind() -> None:
    pod = a_pod(cpu_request_millicores=1000, memory_request_bytes=400 * 2**20, annotations=NETWORK)
    assert observed_use(pod, observed(app=APP, cluster=CLUSTER)) == (500.0, 100.0, 10.0, 20.0)
    assert observed_use(pod, observed(cluster=CLUSTER)) == (800.0, 360.0, 50.0, 60.0)
    assert observed_use(pod, observed()) == (0.0, 0.0, 0.0, 0.0)


def test_a_pod_without_requests_is_not_expected_to_use_nothing() -> None:
    expected = expected_demand(a_pod(), observed(app=APP))
    assert (expected.cpu_millicores, expected.memory_mib) == (100, 200)


# --- annotations


def test_every_annotation_is_read() -> None:
    declared, warnings = read_annotations(
        {
            "latencySoftConstraint": "35",
            "latencyHardConstraint": " 1e2 ",
            "pilotfish.io/network-mbps": "12.5",
            "pilotfish.io/sibling-mbps": ".5",
            "unrelated": "x",
        }
    )
    assert declared == Declared(12.5, 12.5, 0.5, 35.0, 100.0)
    assert warnings == []
    assert read_annotations({}) == (Declared(), [])


@pytest.mark.parametrize("text", ["", "fast", "35ms", "-1", "0", "nan", "inf", "1_0", "３５", "1e99", "9" * 500, "1,5"])
@pytest.mark.parametrize("key", ["latencySoftConstraint", "latencyHardConstraint"])
def test_an_unusable_latency_is_ignored_with_a_warning(key, text) -> None:
    declared, (warning,) = read_annotations({key: text})
    assert declared == Declared()
    assert warning.startswith(f"annotation {key} is ignored: {text[:40]!r}")
    assert len(warning) < 200


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("pilotfish.io/network-mbps", "-1"),
        ("pilotfish.io/network-mbps", "10M"),
        ("pilotfish.io/sibling-mbps", "x"),
        ("kubernetes.io/ingress-bandwidth", "10Mbit"),
        ("kubernetes.io/egress-bandwidth", "0"),
        ("kubernetes.io/egress-bandwidth", "-5M"),
        ("kubernetes.io/egress-bandwidth", "1e30"),
    ],
)
def test_unusable_traffic_is_ignored_with_a_warning(key, text) -> None:
    declared, (warning,) = read_annotations({key: text})
    assert declared == Declared()
    assert key in warning
    assert text in warning


def test_every_bad_annotation_is_reported() -> None:
    _, warnings = read_annotations({"latencySoftConstraint": "x", "pilotfish.io/sibling-mbps": "y"})
    assert len(warnings) == 2


@given(st.dictionaries(st.sampled_from(["latencyHardConstraint", *NETWORK, *BANDWIDTH]), st.text(max_size=70)))
def test_no_annotation_can_raise(annotations) -> None:
    declared, warnings = read_annotations(annotations)
    known = [number for number in (declared.rx_mbps, declared.tx_mbps, declared.latency_hard_ms) if number is not None]
    assert all(math.isfinite(number) and number >= 0 for number in known)
    assert len(warnings) <= len(annotations)


# --- observations


def test_means_are_taken_by_app_namespace_and_cluster() -> None:
    pods = [a_pod(), a_pod(), a_pod(app="other"), Pod("x", namespace="db", app="shop"), a_pod(app="")]
    seen = ObservedDemand.of(pods, [Use(rx_mbps=rx) for rx in (1.0, 3.0, 5.0, 7.0, 15.0)])
    assert {app: use.rx_mbps for app, use in seen.by_app.items()} == {
        ("web", "shop"): 2,
        ("web", "other"): 5,
        ("db", "shop"): 7,
    }
    assert {namespace: use.rx_mbps for namespace, use in seen.by_namespace.items()} == {"web": 6, "db": 7}
    assert seen.cluster.rx_mbps == 6.2


def test_unknown_figures_do_not_count_in_a_mean() -> None:
    mean = mean_use([Use(rx_mbps=4.0, cpu_ratio=0.5), Use(rx_mbps=8.0), Use(tx_mbps=math.inf)])
    assert (mean.rx_mbps, mean.cpu_ratio) == (6, 0.5)
    assert math.isnan(mean.tx_mbps)
    assert math.isnan(mean_use([]).rx_mbps)


# --- siblings


def test_siblings_are_counted_over_the_zone_of_each_node() -> None:
    on_node, zone = np.array([1.0, 2.0, 4.0, 0.0]), np.array([0, 0, 2, 1])
    assert siblings_in_zone(on_node, zone, zones=3).tolist() == [3, 3, 4, 0]


def test_mean_round_trip_leaves_out_the_way_to_the_own_node() -> None:
    on_node, zone = np.array([1.0, 1.0, 2.0]), np.array([0, 0, 1])
    # node 0: itself 0, its neighbour in the zone 0.1, two in zone 1 at 1.0 each
    assert mean_sibling_rtt(on_node, zone, RTT_MS) == pytest.approx([2.1 / 4, 2.1 / 4, 3.0 / 4])


def test_without_siblings_there_is_no_round_trip() -> None:
    assert mean_sibling_rtt(np.zeros(3), np.array([0, 1, 2]), RTT_MS).tolist() == [0, 0, 0]


def test_an_unknown_distance_is_never_the_best() -> None:
    rtt_ms = np.array([[0.1, np.nan], [3.0, 0.1]])
    on_node, zone = np.array([0.0, 1.0]), np.array([0, 1])
    assert mean_sibling_rtt(on_node, zone, rtt_ms).tolist() == [3.0, 0.0]
    assert mean_sibling_rtt(on_node, zone, np.full((2, 2), np.nan)).tolist() == [0.0, 0.0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6))
def test_siblings_one_by_one_give_the_same(nodes) -> None:
    """From first principles: walk from every node to every sibling."""
    on_node, zone = (np.array(column) for column in zip(*nodes, strict=True))
    homes = [node for node, count in enumerate(on_node) for _ in range(count)]
    in_zone = [sum(zone[home] == zone[node] for home in homes) for node in range(len(nodes))]
    trips = [[0.0 if home == node else RTT_MS[zone[node], zone[home]] for home in homes] for node in range(len(nodes))]
    assert siblings_in_zone(on_node.astype(float), zone, 3).tolist() == in_zone
    means = [sum(trip) / len(trip) if trip else 0.0 for trip in trips]
    assert mean_sibling_rtt(on_node.astype(float), zone, RTT_MS) == pytest.approx(means)


@pytest.mark.parametrize("shared", [True, False], ids=["one map for all clusters", "a map for each cluster"])
def test_siblings_of_many_clusters_at_once(shared) -> None:
    rng = np.random.default_rng(7)
    on_node = rng.integers(0, 3, (2, 4, 5)).astype(float)
    zone = rng.integers(0, 3, 5) if shared else rng.integers(0, 3, (2, 4, 5))
    rtt_ms = RTT_MS if shared else rng.random((2, 4, 3, 3))
    in_zone, mean_ms = siblings_in_zone(on_node, zone, 3), mean_sibling_rtt(on_node, zone, rtt_ms)
    assert in_zone.shape == mean_ms.shape == on_node.shape
    for cluster in np.ndindex(2, 4):
        own = (zone, rtt_ms) if shared else (zone[cluster], rtt_ms[cluster])
        assert in_zone[cluster].tolist() == siblings_in_zone(on_node[cluster], own[0], 3).tolist()
        assert mean_ms[cluster] == pytest.approx(mean_sibling_rtt(on_node[cluster], *own))


def test_demand_of_a_pod_is_complete(make_state) -> None:
    state = make_state(3, zone=[0, 0, 1], zone_rtt_ms=RTT_MS[:2, :2])
    pod = a_pod(
        cpu_request_millicores=1000,
        memory_request_bytes=512 * 2**20,
        gpus=2,
        gpu_milli=500,
        annotations={"pilotfish.io/sibling-mbps": "9"},
        latency_soft_ms=35.0,
    )
    demand = demand_of(pod, observed(app=APP), state, np.array([1.0, 1.0, 2.0]), queue_length=4)
    scalars = {
        "cpu_request_millicores": 1000,
        "memory_request_mib": 512,
        "gpus": 2,
        "gpu_milli": 500,
        "expected_cpu_millicores": 500,
        "expected_memory_mib": 128,
        "expected_rx_mbps": 10,
        "expected_tx_mbps": 20,
        "demand_source": DEMAND_SOURCES.index("siblings"),
        "sibling_mbps": 9,
        "latency_soft_ms": 35,
        "siblings": 4,
        "queue_length": 4,
    }
    assert {name: getattr(demand, name).item() for name in scalars} == scalars
    assert all(getattr(demand, name).shape == () for name in scalars)
    assert np.isnan(demand.latency_hard_ms)
    assert demand.siblings_on_node.tolist() == [1, 1, 2]
    assert demand.siblings_in_zone.tolist() == [2, 2, 2]
    assert demand.sibling_rtt_ms == pytest.approx([2.1 / 4, 2.1 / 4, 3.0 / 4])


def test_what_is_not_declared_is_unknown(make_state) -> None:
    demand = demand_of(a_pod(), ObservedDemand(), make_state(2), np.zeros(2), queue_length=1)
    assert np.isnan([demand.sibling_mbps, demand.latency_soft_ms, demand.latency_hard_ms]).all()
    assert demand.siblings == 0

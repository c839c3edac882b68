"""Series find their node by whatever label a cluster uses."""

import pytest

from envs.live.prometheus_client import Series
from envs.live.prometheus_mapping import NodeMapping, host_of, mapping_of

NODES = {"node-a": ("10.0.0.1", "node-a.example"), "node-b": ("10.0.0.2",)}


def exporter(**labels: str) -> Series:
    return Series({"__name__": "node_memory_MemTotal_bytes", **labels}, (0.0,), (1.0,))


def uname(**labels: str) -> Series:
    return Series({"__name__": "node_uname_info", **labels}, (0.0,), (1.0,))


def kube(node: str, internal_ip: str) -> Series:
    labels = {"__name__": "kube_node_info", "node": node, "internal_ip": internal_ip, "instance": "10.9.9.9:8080"}
    return Series(labels, (0.0,), (1.0,))


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("instance", ("10.0.0.1:9100", "10.0.0.2:9100")),
        ("instance", ("node-a:9100", "node-b:9100")),
        ("instance", ("node-a.example:9100", "node-b.other.example:9100")),
        ("instance", ("10.0.0.1", "10.0.0.2")),
        ("node", ("node-a", "node-b")),
        ("kubernetes_node", ("node-a", "node-b")),
        ("kubernetes_io_hostname", ("node-a", "node-b")),
    ],
)
def test_the_label_that_names_the_nodes_is_found(label, values):
    mapping = mapping_of([exporter(**{label: value}) for value in values], NODES)
    assert mapping.label == label
    assert [mapping.node_of({label: value}) for value in values] == ["node-a", "node-b"]


def test_a_label_that_names_no_node_of_the_cluster_is_passed_over():
    series = [exporter(node="monitoring", instance=f"10.0.0.{number}:9100") for number in (1, 2)]
    assert mapping_of(series, NODES).label == "instance"


def test_an_instance_that_nobody_knows_is_translated_by_uname():
    series = [exporter(instance="172.16.0.7:9100"), uname(instance="172.16.0.7:9100", nodename="node-b")]
    mapping = mapping_of(series, NODES)
    assert (mapping.label, mapping.node_of({"instance": "172.16.0.7:9100"})) == ("instance", "node-b")


def test_a_node_name_that_stands_only_on_uname_is_not_asked_for_on_other_series():
    series = [exporter(instance="x:1"), uname(instance="x:1", nodename="node-a")]
    assert mapping_of(series, NODES).label == "instance"


def test_kube_state_metrics_translate_addresses_without_a_watch():
    series = [exporter(instance="10.0.0.1:9100"), kube("node-a", "10.0.0.1"), kube("node-b", "10.0.0.2")]
    mapping = mapping_of(series, {})
    assert mapping.names == {"node-a", "node-b"}
    assert mapping.node_of({"instance": "10.0.0.1:9100"}) == "node-a"
    assert mapping.node_of({"instance": "10.0.0.9:9100"}) is None


def test_the_api_server_goes_before_kube_state_metrics_where_they_differ():
    series = [exporter(instance="10.0.0.1:9100"), kube("old-name", "10.0.0.1")]
    assert mapping_of(series, NODES).node_of({"instance": "10.0.0.1:9100"}) == "node-a"


def test_without_any_list_of_nodes_a_series_names_its_own():
    series = [exporter(instance="a:9100"), exporter(instance="b:9100"), uname(instance="b:9100", nodename="node-b")]
    mapping = mapping_of(series, {})
    assert [mapping.node_of({"instance": value}) for value in ("a:9100", "b:9100", "")] == ["a", "node-b", None]


def test_a_configured_label_is_taken_as_it_is():
    series = [exporter(node="node-a", machine="10.0.0.1")]
    mapping = mapping_of(series, NODES, "machine")
    assert (mapping.label, mapping.node_of({"machine": "10.0.0.1"})) == ("machine", "node-a")


def test_no_series_at_all_gives_the_usual_label():
    assert mapping_of([], NODES).label == "instance"
    assert mapping_of([], {}) == NodeMapping("instance")


@pytest.mark.parametrize(
    ("value", "host"),
    [("a:9100", "a"), ("a", "a"), ("[fd00::1]:9100", "fd00::1"), ("fd00::1", "fd00::1"), (":9100", ""), ("a:b", "a:b")],
)
def test_the_port_is_no_part_of_the_host(value, host):
    assert host_of(value) == host

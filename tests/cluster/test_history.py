"""The judge of the fault tests sees what it is there for: pods that a careless scheduler binds where they cannot go."""

import time

import pytest

from tests.cluster.api import eventually
from tests.cluster.history import GRACE_S, History
from tests.cluster.objects import NODES, a_pod, cordon, darken


def remove(admin, node):
    admin.delete(f"{NODES}/{node}")


@pytest.fixture
def history(control_plane, nodes, namespace):
    running = History(control_plane.admin, namespace)
    running.start()
    eventually(lambda: running.nodes.keys() >= set(nodes), "the nodes in the history")
    yield running
    running.stop()


@pytest.fixture
def bind(control_plane, namespace, history):
    """Creates a pod and binds it without looking; what the history says of it."""
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def bound(name, node, **requests):
        control_plane.admin.create(pods, a_pod(name, **requests))
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        control_plane.admin.create(f"{pods}/{name}/binding", {"apiVersion": "v1", "kind": "Binding", **binding})
        return eventually(lambda: history.bound().get(name), f"{name} in the history")

    return bound


@pytest.mark.parametrize("close", [cordon, darken, remove])
def test_a_pod_on_a_node_that_was_closed_is_misplaced(control_plane, nodes, history, bind, close):
    node = nodes[0]
    assert not bind("before", node).misplaced
    close(control_plane.admin, node)
    eventually(lambda: not history.nodes[node].states[-1][1], f"{node} closed")
    assert not bind("at-once", node).misplaced  # kube-scheduler may not have heard of it
    time.sleep(GRACE_S)
    assert "cordoned, tainted, not ready or gone" in bind("later", node).misplaced


@pytest.mark.parametrize(
    ("most", "too_much", "said"),
    [
        ({"cpu": "7"}, {"cpu": "2"}, "9000 of 8000 millicores"),
        ({"memory": "30Gi"}, {"memory": "4Gi"}, f"{34 << 30} of {32 << 30} bytes"),
    ],
)
def test_a_pod_on_a_full_node_is_misplaced_until_another_leaves(
    control_plane, nodes, namespace, history, bind, most, too_much, said
):
    assert not bind("most", nodes[0], **most).misplaced
    assert f"was full, {said}" in bind("too-much", nodes[0], **too_much).misplaced
    for name in ("most", "too-much"):
        control_plane.admin.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds="0")
    eventually(lambda: not history.nodes[nodes[0]].taken, "the room is free")
    assert not bind("again", nodes[0], **most).misplaced


def test_a_pod_beyond_the_number_that_a_node_takes_is_misplaced(control_plane, nodes, history, bind):
    control_plane.admin.merge(f"{NODES}/{nodes[0]}/status", {"status": {"allocatable": {"pods": "1"}}})
    eventually(lambda: history.nodes[nodes[0]].has["pods"] == 1, "room for one pod in the history")
    assert not bind("only", nodes[0]).misplaced
    assert "was full, 2 of 1 pods" in bind("too-many", nodes[0]).misplaced

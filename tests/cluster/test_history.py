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

    def bound(name, node, cpu="100m"):
        control_plane.admin.create(pods, a_pod(name, cpu))
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


def test_a_pod_on_a_full_node_is_misplaced_until_another_leaves(control_plane, nodes, namespace, history, bind):
    assert not bind("most", nodes[0], cpu="7").misplaced  # of 8
    assert "was full, 9000 of 8000 millicores" in bind("too-much", nodes[0], cpu="2").misplaced
    for name in ("most", "too-much"):
        control_plane.admin.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds="0")
    eventually(lambda: not history.nodes[nodes[0]].taken, "the room is free")
    assert not bind("again", nodes[0], cpu="7").misplaced

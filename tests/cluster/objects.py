"""Nodes and pods as the tests want them, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable

from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import DARK_LABEL

NODES = "/api/v1/nodes"
ZONE_LABEL = "topology.kubernetes.io/zone"


def a_node(name: str, cpu: str = "8", memory: str = "32Gi", zone: str = "a", **labels: str) -> Object:
    resources = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE_LABEL: zone, **labels}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def a_pod(name: str, cpu: str = "100m", memory: str = "64Mi", **spec: object) -> Object:
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    container = {"name": "main", "image": "pause", "resources": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "test"}},
        "spec": {"containers": [container], **spec},
    }


def create_nodes(admin: Api, nodes: Iterable[Object], within_s: float = 30.0) -> list[str]:
    """Create them, and wait until KWOK has made each Ready and the controllers have taken the taints away."""
    names = {admin.create(NODES, node)["metadata"]["name"] for node in nodes}
    eventually(lambda: names <= usable_nodes(admin), f"all of {len(names)} nodes Ready and without taint", within_s)
    return sorted(names)


def usable_nodes(admin: Api) -> set[str]:
    listed = admin.get(NODES)["items"]
    return {node["metadata"]["name"] for node in listed if is_usable(node)}


def is_usable(node: Object) -> bool:
    """Cordoned nodes and those that are not Ready carry a taint soon after; it is what the scheduler goes by."""
    spec = node["spec"]
    return is_ready(node) and not spec.get("taints") and not spec.get("unschedulable")


def is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def cordon(admin: Api, name: str, cordoned: bool = True) -> None:
    admin.merge(f"{NODES}/{name}", {"spec": {"unschedulable": cordoned}})


def darken(admin: Api, name: str) -> None:
    """Its kubelet says NotReady, and goes on saying so."""
    admin.merge(f"{NODES}/{name}", {"metadata": {"labels": {DARK_LABEL: "true"}}})
    admin.merge(f"{NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})


def lighten(admin: Api, name: str) -> None:
    admin.merge(f"{NODES}/{name}", {"metadata": {"labels": {DARK_LABEL: None}}})


def create_pods(admin: Api, namespace: str, pods: Iterable[Object]) -> None:
    for pod in pods:
        admin.create(f"/api/v1/namespaces/{namespace}/pods", pod)


def nodes_by_pod(admin: Api, namespace: str) -> dict[str, str]:
    """The node of every pod that is bound."""
    listed = admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in listed if "nodeName" in pod["spec"]}


def wait_until_bound(admin: Api, namespace: str, count: int, within_s: float = 40.0) -> dict[str, str]:
    """Where each went, once ``count`` pods are bound."""
    eventually(lambda: len(nodes_by_pod(admin, namespace)) >= count, f"{count} pods of {namespace} bound", within_s)
    return nodes_by_pod(admin, namespace)


def bindings_said(admin: Api, namespace: str) -> dict[str, list[str]]:
    """Every "Successfully assigned" event a pod: a pod that was bound twice has two."""
    events = admin.get(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=Scheduled")["items"]
    said: dict[str, list[str]] = {}
    for event in events:
        said.setdefault(event["involvedObject"]["name"], []).append(event["message"])
    return said

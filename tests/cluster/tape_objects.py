"""A tape's nodes and pods as API objects: what the cluster's owners would have written, and nothing of the truth."""

from __future__ import annotations

import math

from envs.workloads.tape import Tape
from tests.cluster.api import Object
from tests.cluster.objects import a_node, a_pod

NETWORK_ANNOTATION = "pilotfish.io/network-mbps"
PART_OF = "app.kubernetes.io/part-of"  # what a pod without an owner is known by
APP_GROUP, APP_GROUP_LABEL = "apps", "appgroup.diktyo.x-k8s.io"  # what NetworkOverhead knows it by
WORKLOAD_LABEL = f"{APP_GROUP_LABEL}.workload"
BYTES_PER_MIB = 2**20


def node_name(node: int) -> str:
    return f"node-{node:04d}"


def node_number(name: str) -> int:
    return int(name.rpartition("-")[2])


def pod_number(name: str) -> int:
    return int(name.rpartition("-")[2])


def node_of(tape: Tape, node: int) -> Object:
    """As most clusters have it: no label says what it costs, draws or how far its users are."""
    cpu = f"{int(tape.node_cpu_millicores[node])}m"
    memory = str(int(tape.node_memory_mib[node]) * BYTES_PER_MIB)
    return a_node(node_name(node), cpu, memory, f"zone-{int(tape.node_zone[node])}")


def app_name(tape: Tape, pod: int) -> str:
    return f"app-{int(tape.pod_app[pod]):02d}"


def pod_name(tape: Tape, pod: int) -> str:
    return f"{app_name(tape, pod)}-{pod:05d}"


def pod_of(tape: Tape, pod: int, annotated: bool = True, node: int | None = None) -> Object:
    """``annotated``: with the traffic that its owner claims, where the tape has a claim; ``node``: it runs already."""
    cpu = f"{int(tape.pod_cpu_request_millicores[pod])}m"
    memory = str(int(tape.pod_memory_request_mib[pod] * BYTES_PER_MIB))
    bound = {} if node is None else {"nodeName": node_name(node)}
    described = a_pod(pod_name(tape, pod), cpu, memory, **bound)
    app = app_name(tape, pod)
    for_peer = {APP_GROUP_LABEL: APP_GROUP, WORKLOAD_LABEL: app}  # who takes NetworkOverhead labels every pod
    known_by = {PART_OF: app} if tape.pod_labelled[pod] else {}
    described["metadata"]["labels"] = {"app": app, **for_peer, **known_by}
    claimed_mbps = float(tape.pod_annotated_mbps[pod])
    if annotated and not math.isnan(claimed_mbps):
        described["metadata"]["annotations"] = {NETWORK_ANNOTATION: f"{claimed_mbps:.1f}"}
    return described


def service_of(app: str) -> Object:
    """Every app has one, as apps do: by it kube-scheduler knows which pods to spread."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": app},
        "spec": {"clusterIP": "None", "selector": {"app": app}},
    }

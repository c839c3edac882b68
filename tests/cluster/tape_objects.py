"""A tape's nodes and pods as API objects: what the cluster's owners would have written, and nothing of the truth."""

from __future__ import annotations

import math

from envs.workloads.tape import Tape
from tests.cluster.api import Object
from tests.cluster.objects import a_node, a_pod

NETWORK_ANNOTATION = "pilotfish.io/network-mbps"
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


def pod_of(tape: Tape, pod: int, annotated: bool = True) -> Object:
    """``annotated``: with the traffic that its owner claims, where the tape has such a claim."""
    app = f"app-{int(tape.pod_app[pod]):02d}"
    cpu = f"{int(tape.pod_cpu_request_millicores[pod])}m"
    memory = str(int(tape.pod_memory_request_mib[pod] * BYTES_PER_MIB))
    described = a_pod(f"{app}-{pod:05d}", cpu, memory)
    described["metadata"]["labels"] = {"app": app} if tape.pod_labelled[pod] else {}
    claimed_mbps = float(tape.pod_annotated_mbps[pod])
    if annotated and not math.isnan(claimed_mbps):
        described["metadata"]["annotations"] = {NETWORK_ANNOTATION: f"{claimed_mbps:.1f}"}
    return described

"""One description of a cluster, for the simulator, the trainer and the sidecar alike.

``Node`` and ``Pod`` are what the API server says, as objects. ``ClusterState`` and ``Demand`` are what a
scorer reads, as arrays. Every array of ``ClusterState`` has the shape ``(..., nodes)``: the sidecar holds
one cluster and uses ``(nodes,)``; the batch environment holds thousands and uses ``(clusters, nodes)``.
``Demand`` has ``(...)`` for what belongs to the pod alone. Code that works on the last axis serves both.

Unknown is NaN, never 0: a missing metric must not look like an idle node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

GPUS_PER_NODE = 8  # the widest node of the published traces; fewer are padded with zero capacity
GPU_MILLI = 1000  # one whole GPU

# Where the expected demand of a pod comes from, best first. The number is a feature.
DEMAND_SOURCES = ("annotation", "siblings", "namespace", "cluster", "none")


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: str  # NoSchedule, PreferNoSchedule, NoExecute
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"  # Equal, Exists
    value: str = ""
    effect: str = ""  # empty tolerates every effect


@dataclass(frozen=True, slots=True)
class Requirement:
    """One ``matchExpressions`` entry of a node selector term."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist, Gt, Lt
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """All requirements must hold; ``match_names`` is ``matchFields`` on ``metadata.name``."""

    requirements: tuple[Requirement, ...] = ()
    match_names: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the API server describes it, with what labels and settings add."""

    name: str
    cpu_allocatable_millicores: int
    memory_allocatable_bytes: int
    pods_allocatable: int = 110
    gpus: int = 0
    zone: str = ""
    internal_ip: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    nic_mbps: float | None = None
    user_latency_ms: float | None = None
    price_usd_per_hour: float | None = None
    power_idle_watts: float | None = None
    power_peak_watts: float | None = None


App = tuple[str, str]  # namespace and owner


@dataclass(frozen=True, slots=True)
class Pod:
    """A pending or running pod, its requests already summed as kube-scheduler sums them."""

    uid: str
    name: str = ""
    namespace: str = "default"
    app: str = ""  # the owner, or app.kubernetes.io/part-of; empty means unknown
    cpu_request_millicores: int = 0
    memory_request_bytes: int = 0
    gpus: int = 0
    gpu_milli: int = GPU_MILLI  # share of each GPU; whole GPUs only on a live cluster
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_affinity: tuple[NodeSelectorTerm, ...] = ()  # terms are alternatives; empty means none
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    latency_soft_ms: float | None = None
    latency_hard_ms: float | None = None

    @property
    def app_key(self) -> App | None:
        """Pods that share it are siblings; None: this one has none."""
        return (self.namespace, self.app) if self.app else None


@dataclass(frozen=True)  # no slots: ``changed`` copies all columns at once
class ClusterState:
    """What is known of every node, as arrays ``(..., nodes)``, each metric group with its age.

    Groups and where they come from:

    * spec (watch): allocatable, NIC speed, zone, latency, price, power, schedulable
    * requests (watch): what is requested on the node, assumed placements included
    * cpu, memory, network (metrics): measured use; NaN where missing; ``*_age_s`` is inf where missing
    * pending: what placements that the metrics do not show yet add to them, less what they still show of pods that have
      left (agent/assumed.py); below 0 where more is gone than came
    """

    # spec
    cpu_allocatable_millicores: FloatArray
    memory_allocatable_mib: FloatArray
    pods_allocatable: FloatArray
    gpu_count: FloatArray
    nic_mbps: FloatArray  # each direction; NaN: unknown
    zone: IntArray
    user_latency_ms: FloatArray  # NaN: unknown
    price_usd_per_hour: FloatArray
    power_idle_watts: FloatArray
    power_peak_watts: FloatArray
    schedulable: BoolArray  # ready, not cordoned, not under maintenance
    # requests
    cpu_requested_millicores: FloatArray
    memory_requested_mib: FloatArray
    pods_running: FloatArray
    gpu_free_milli: FloatArray  # (..., nodes, GPUS_PER_NODE)
    # cpu, memory, network
    cpu_used_millicores: FloatArray
    cpu_std_millicores: FloatArray
    cpu_age_s: FloatArray
    memory_used_mib: FloatArray
    memory_age_s: FloatArray
    rx_mbps: FloatArray
    tx_mbps: FloatArray
    connections: FloatArray
    network_age_s: FloatArray
    # pending
    pending_cpu_millicores: FloatArray
    pending_memory_mib: FloatArray
    pending_rx_mbps: FloatArray
    pending_tx_mbps: FloatArray
    pending_pods: FloatArray
    # between zones
    zone_rtt_ms: FloatArray  # (..., zones, zones)

    @property
    def node_count(self) -> int:
        return int(self.cpu_allocatable_millicores.shape[-1])

    def changed(self, columns: Mapping[str, Any]) -> ClusterState:
        """The same with some other columns: ``dataclasses.replace`` at a tenth of its price, paid for every pod."""
        other = object.__new__(ClusterState)
        other.__dict__.update(self.__dict__)
        other.__dict__.update(columns)
        return other

    def take(self, nodes: IntArray) -> ClusterState:
        """The same state for some of the nodes, in the order asked (one cluster only)."""
        return self.changed({name: getattr(self, name)[nodes] for name in _OF_NODES})


_OF_NODES = tuple(column.name for column in fields(ClusterState) if column.name != "zone_rtt_ms")


@dataclass(frozen=True, slots=True)
class Demand:
    """The pod that waits for a node, as arrays ``(...)``; what differs by node is ``(..., nodes)``."""

    cpu_request_millicores: FloatArray
    memory_request_mib: FloatArray
    gpus: FloatArray
    gpu_milli: FloatArray
    expected_cpu_millicores: FloatArray
    expected_memory_mib: FloatArray
    expected_rx_mbps: FloatArray  # as the pod's own interface would show it, siblings included
    expected_tx_mbps: FloatArray
    demand_source: IntArray  # index into DEMAND_SOURCES
    sibling_mbps: FloatArray  # declared traffic to siblings; NaN: not declared
    latency_soft_ms: FloatArray  # NaN: no constraint
    latency_hard_ms: FloatArray
    siblings: FloatArray  # running pods of the same app, whole cluster
    siblings_on_node: FloatArray  # (..., nodes)
    siblings_in_zone: FloatArray  # (..., nodes): in the zone of that node
    sibling_rtt_ms: FloatArray  # (..., nodes): mean round trip to the siblings from that node; 0 without siblings
    queue_length: FloatArray  # pods that wait, this one included

    def take(self, nodes: IntArray) -> Demand:
        """The same pod before some of the nodes, in the order asked (one cluster only)."""
        return replace(
            self,
            siblings_on_node=self.siblings_on_node[nodes],
            siblings_in_zone=self.siblings_in_zone[nodes],
            sibling_rtt_ms=self.sibling_rtt_ms[nodes],
        )

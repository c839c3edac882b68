"""A node in its Kubernetes API form to ``agent.cluster.Node``.

Kubernetes knows neither the speed of a NIC nor what a node costs: labels of ours say it. Without them a table by
instance type may tell the NIC, and price and power are taken to be the usual ones of a node of its size: a cost of
zero would look like no node that a policy has learned from. A label that cannot be read is ignored with a warning; it
never hides the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from agent.cluster import Node, Taint
from agent.errors import InputError
from agent.quantities import Quantity, millicores, value
from agent.requests import GPU_RESOURCES
from envs.live import fields
from envs.live.fields import Json

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")  # the second until 1.17
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
NIC_MBPS = "pilotfish.io/nic-mbps"
USER_LATENCY_MS = "pilotfish.io/user-latency-ms"
PRICE_USD_PER_HOUR = "pilotfish.io/price-usd-per-hour"
POWER_IDLE_WATTS = "pilotfish.io/power-idle-watts"
POWER_PEAK_WATTS = "pilotfish.io/power-peak-watts"

# What a core of a cloud's general-purpose node costs, as in the scenarios.
USD_PER_CORE_HOUR = 0.048
IDLE_WATTS_PER_CORE = 7.5
PEAK_WATTS_PER_CORE = 18.75

_MAX_NUMBER = 1e9  # Mbps, ms, watts: anything above is a slip of the unit


def node_from_api(content: Json, nic_mbps_by_type: Mapping[str, float]) -> tuple[Node, list[str]]:
    """A node as the API server writes it, and a warning for each label that cannot be read."""
    metadata, spec, status = (fields.an_object(content, part) for part in ("metadata", "spec", "status"))
    name = fields.text(metadata, "name")
    if not name:
        raise InputError("a node needs a name")
    allocatable, labels = fields.an_object(status, "allocatable"), fields.text_map(metadata, "labels")
    figures = _Figures(name, labels)
    nic_mbps = figures.read(NIC_MBPS)
    cpu_millicores = millicores(_quantity(allocatable, "cpu"))
    cores = cpu_millicores / 1000.0
    node = Node(
        name=name,
        cpu_allocatable_millicores=cpu_millicores,
        memory_allocatable_bytes=value(_quantity(allocatable, "memory")),
        pods_allocatable=value(_quantity(allocatable, "pods")),
        gpus=sum(value(_quantity(allocatable, resource)) for resource in GPU_RESOURCES),
        zone=next((labels[label] for label in ZONE_LABELS if label in labels), ""),
        internal_ip=_internal_ip(status),
        labels=labels,
        taints=_taints(spec),
        unschedulable=fields.typed(spec, "unschedulable", bool, False),
        ready=_ready(status),
        nic_mbps=nic_mbps_by_type.get(labels.get(INSTANCE_TYPE_LABEL, "")) if nic_mbps is None else nic_mbps,
        user_latency_ms=figures.read(USER_LATENCY_MS),
        price_usd_per_hour=figures.read(PRICE_USD_PER_HOUR, cores * USD_PER_CORE_HOUR),
        power_idle_watts=figures.read(POWER_IDLE_WATTS, cores * IDLE_WATTS_PER_CORE),
        power_peak_watts=figures.read(POWER_PEAK_WATTS, cores * PEAK_WATTS_PER_CORE),
    )
    return node, figures.warnings


def addresses_of(content: Json) -> tuple[str, ...]:
    """Addresses and host names: what metrics may call the node by."""
    entries = fields.objects(fields.an_object(content, "status"), "addresses")
    return tuple(dict.fromkeys(fields.text(entry, "address") for entry in entries if entry.get("address")))


def _internal_ip(status: Json) -> str:
    entries = fields.objects(status, "addresses")
    return next((fields.text(each, "address") for each in entries if each.get("type") == "InternalIP"), "")


class _Figures:
    """Numbers in labels, written by hand."""

    def __init__(self, node: str, labels: Mapping[str, str]) -> None:
        self.warnings: list[str] = []
        self._node = node
        self._labels = labels

    def read(self, label: str, otherwise: float | None = None) -> float | None:
        text = self._labels.get(label)
        if text is None:
            return otherwise
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if isfinite(number) and 0 <= number <= _MAX_NUMBER and not (label == NIC_MBPS and number == 0):
            return number
        self.warnings.append(f"node {self._node}: label {label} is ignored: {text!r} is not a number in range")
        return otherwise


def _quantity(allocatable: Json, resource: str) -> Quantity:
    """What a node does not offer it has none of, as kube-scheduler counts it; pods too."""
    found: Quantity | None = allocatable.get(resource)
    return 0 if found is None else found


def _taints(spec: Json) -> tuple[Taint, ...]:
    return tuple(
        Taint(fields.text(each, "key"), fields.text(each, "effect"), fields.text(each, "value"))
        for each in fields.objects(spec, "taints")
    )


def _ready(status: Json) -> bool:
    """A node that says nothing is judged by its taints alone, as kube-scheduler judges it."""
    conditions = fields.objects(status, "conditions")
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready")

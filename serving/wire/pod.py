"""A pod in its Kubernetes API form, or as a few plain requirements, to ``agent.cluster.Pod``.

The API server has checked a pod before a scheduler sees it; people who call the API by hand have not. So what is
read is checked. What is not read may have any form.
"""

from __future__ import annotations

from collections.abc import Callable

from agent.cluster import GPUS_PER_NODE, NodeSelectorTerm, Pod, Requirement, Toleration
from agent.demand import LATENCY_HARD_MS, LATENCY_SOFT_MS, NETWORK_MBPS, read_annotations
from agent.errors import InputError
from agent.quantities import Quantity, millicores, value
from agent.requests import pod_requests
from serving.wire import fields
from serving.wire.fields import Json

PART_OF = "app.kubernetes.io/part-of"
TEMPLATE_HASH = "pod-template-hash"

REQUIREMENTS = (
    *("cpu", "memory", "gpus", "network_mbps", "latency_soft_ms", "latency_hard_ms"),
    *("uid", "name", "namespace", "app", "labels", "annotations", "node_selector", "tolerations"),
)
_AS_ANNOTATION = {  # and the least value
    "network_mbps": (NETWORK_MBPS, 0.0),
    "latency_soft_ms": (LATENCY_SOFT_MS, 0.001),
    "latency_hard_ms": (LATENCY_HARD_MS, 0.001),
}
_MAX_ANNOTATED = 1e9  # as agent.demand reads them


def pod_from_api(content: Json) -> tuple[Pod, list[str]]:
    """A pod as the API server writes it, and a warning for each annotation that cannot be read (S1.16)."""
    metadata, spec = fields.an_object(content, "metadata"), fields.an_object(content, "spec")
    requests = pod_requests(content)
    if min(requests.cpu_millicores, requests.memory_bytes, requests.gpus) < 0:
        raise InputError("the requests of the pod must not be negative")
    annotations, labels = fields.text_map(metadata, "annotations"), fields.text_map(metadata, "labels")
    declared, warnings = read_annotations(annotations)
    pod = Pod(
        uid=fields.text(metadata, "uid"),
        name=fields.text(metadata, "name"),
        namespace=fields.text(metadata, "namespace") or "default",
        app=_app(metadata, labels),
        cpu_request_millicores=requests.cpu_millicores,
        memory_request_bytes=requests.memory_bytes,
        gpus=requests.gpus,
        labels=labels,
        annotations=annotations,
        tolerations=_tolerations(spec),
        node_selector=fields.text_map(spec, "nodeSelector"),
        required_affinity=_required_affinity(spec),
        scheduler_name=fields.text(spec, "schedulerName") or "default-scheduler",
        priority=fields.typed(spec, "priority", int, 0),
        latency_soft_ms=declared.latency_soft_ms,
        latency_hard_ms=declared.latency_hard_ms,
    )
    return pod, warnings


def pod_from_requirements(content: Json) -> tuple[Pod, list[str]]:
    """A pod described by hand: ``{"cpu": "500m", "memory": "256Mi", "network_mbps": 40}``, and warnings."""
    fields.only(content, REQUIREMENTS, "requirements")
    annotations, labels = dict(fields.text_map(content, "annotations")), fields.text_map(content, "labels")
    for key, (annotation, low) in _AS_ANNOTATION.items():
        amount = fields.number(content, key, low, _MAX_ANNOTATED)
        if amount is not None:
            annotations[annotation] = f"{amount:f}"
    declared, warnings = read_annotations(annotations)
    pod = Pod(
        uid=fields.text(content, "uid"),
        name=fields.text(content, "name"),
        namespace=fields.text(content, "namespace") or "default",
        app=fields.text(content, "app") or labels.get(PART_OF, ""),
        cpu_request_millicores=_quantity(content, "cpu", millicores),
        memory_request_bytes=_quantity(content, "memory", value),
        gpus=fields.whole_number(content, "gpus", 0, GPUS_PER_NODE),
        labels=labels,
        annotations=annotations,
        tolerations=_tolerations(content),
        node_selector=fields.text_map(content, "node_selector"),
        latency_soft_ms=declared.latency_soft_ms,
        latency_hard_ms=declared.latency_hard_ms,
    )
    return pod, warnings


def _quantity(content: Json, key: str, read: Callable[[Quantity], int]) -> int:
    found = content.get(key)
    if found is None:
        return 0
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise InputError(f"{key!r} must be a Kubernetes quantity, such as 500m or 256Mi")
    try:
        amount = read(found)
    except InputError as why:
        raise InputError(f"{key!r}: {why}") from why
    if amount < 0:
        raise InputError(f"{key!r} must not be negative, found {found!r}")
    return amount


def _app(metadata: Json, labels: Json) -> str:
    """The owner that stays the same over a rollout: a Deployment's ReplicaSet without its template hash."""
    owners = fields.objects(metadata, "ownerReferences")
    owner = next((fields.text(each, "name") for each in owners if each.get("controller") is True), "")
    template_hash = labels.get(TEMPLATE_HASH)
    if template_hash:
        owner = owner.removesuffix(f"-{template_hash}")
    return owner or str(labels.get(PART_OF, ""))


def _tolerations(holder: Json) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=fields.text(each, "key"),
            operator=fields.text(each, "operator") or "Equal",
            value=fields.text(each, "value"),
            effect=fields.text(each, "effect"),
        )
        for each in fields.objects(holder, "tolerations")
    )


def _required_affinity(spec: Json) -> tuple[NodeSelectorTerm, ...]:
    node_affinity = fields.an_object(fields.an_object(spec, "affinity"), "nodeAffinity")
    required = fields.an_object(node_affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    return tuple(
        NodeSelectorTerm(_requirements(term, "matchExpressions"), _requirements(term, "matchFields"))
        for term in fields.objects(required, "nodeSelectorTerms")
    )


def _requirements(term: Json, key: str) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(fields.text(each, "key"), fields.text(each, "operator"), fields.texts(each, "values"))
        for each in fields.objects(term, key)
    )

"""A pod described by a few plain requirements to ``agent.cluster.Pod``."""

from __future__ import annotations

from collections.abc import Callable

from agent.cluster import GPUS_PER_NODE, Pod
from agent.demand import LATENCY_HARD_MS, LATENCY_SOFT_MS, NETWORK_MBPS, read_annotations
from agent.errors import InputError
from agent.quantities import Quantity, millicores, value
from envs.live import fields
from envs.live.fields import Json
from envs.live.pods import PART_OF, tolerations

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
        tolerations=tolerations(content),
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

"""A pod in its Kubernetes API form to ``agent.cluster.Pod``: as the watch shows it, or as a scheduler sends it.

The API server has checked a pod before a scheduler sees it; people who call our API by hand have not. So what is
read is checked. What is not read may have any form.
"""

from __future__ import annotations

from agent.cluster import NodeSelectorTerm, Pod, Requirement, Toleration
from agent.demand import read_annotations
from agent.errors import InputError
from agent.requests import pod_requests
from envs.live import fields
from envs.live.fields import Json

PART_OF = "app.kubernetes.io/part-of"
TEMPLATE_HASH = "pod-template-hash"


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
        app=app_of(metadata, labels),
        cpu_request_millicores=requests.cpu_millicores,
        memory_request_bytes=requests.memory_bytes,
        gpus=requests.gpus,
        labels=labels,
        annotations=annotations,
        tolerations=tolerations(spec),
        node_selector=fields.text_map(spec, "nodeSelector"),
        required_affinity=_required_affinity(spec),
        scheduler_name=fields.text(spec, "schedulerName") or "default-scheduler",
        priority=fields.typed(spec, "priority", int, 0),
        latency_soft_ms=declared.latency_soft_ms,
        latency_hard_ms=declared.latency_hard_ms,
    )
    return pod, warnings


def app_of(metadata: Json, labels: Json) -> str:
    """The owner that stays the same over a rollout: a Deployment's ReplicaSet without its template hash."""
    owners = fields.objects(metadata, "ownerReferences")
    owner = next((fields.text(each, "name") for each in owners if each.get("controller") is True), "")
    template_hash = labels.get(TEMPLATE_HASH)
    if template_hash:
        owner = owner.removesuffix(f"-{template_hash}")
    return owner or str(labels.get(PART_OF, ""))


def tolerations(holder: Json) -> tuple[Toleration, ...]:
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

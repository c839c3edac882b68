"""Least privilege: the rights for exactly what ``envs.live`` asks the API server, and for nothing else."""

from __future__ import annotations

from serving.manifests.text import Manifest, documents
from serving.settings import Settings

NAME = "pilotfish"
TRAINING_NAME = "pilotfish-training"
API_GROUP = "rbac.authorization.k8s.io"

ABOUT = """
What Pilotfish may do: see nodes and pods, and their use where there is a metrics server{written}.
Written by: pilotfish rbac
"""
ABOUT_TRAINING = """
What `pilotfish train --live` may do: see nodes and pods, and bind pods. The sidecar needs none of this.
Written by: pilotfish rbac --training
"""


def rights(settings: Settings, account: str, namespace: str, role: str = NAME) -> list[Manifest]:
    """The roles and their bindings to a service account; where only some namespaces are seen, a Role in each."""
    seen = settings.cluster.namespaces
    return [
        {**_named("ClusterRole", name=role), "rules": rules(settings)},
        binding(role, account, namespace),
        *({**_named("Role", each, role), "rules": rules_within(settings)} for each in seen),
        *(_binding_within(each, role, account, namespace) for each in seen),
    ]


def rules(settings: Settings) -> list[Manifest]:
    """For the whole cluster."""
    if settings.cluster.namespaces:
        return _seen(settings, "nodes")
    return _seen(settings, "nodes", "pods") + _written(settings)


def rules_within(settings: Settings) -> list[Manifest]:
    """For one namespace."""
    return _seen(settings, "pods") + _written(settings)


def _seen(settings: Settings, *resources: str) -> list[Manifest]:
    seen = [{"apiGroups": [""], "resources": list(resources), "verbs": ["list", "watch"]}]
    if settings.cluster.metrics in ("auto", "metrics-api"):
        seen.append({"apiGroups": ["metrics.k8s.io"], "resources": list(resources), "verbs": ["list"]})
    return seen


def _written(settings: Settings) -> list[Manifest]:
    """Events and bindings are all that it ever writes, each only where it is switched on."""
    extender = settings.extender
    created = {"events": extender.events, "pods/binding": extender.bind}
    return [{"apiGroups": [""], "resources": [what], "verbs": ["create"]} for what, on in created.items() if on]


def service_account(name: str, namespace: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def binding(role: str, account: str, namespace: str) -> Manifest:
    """Gives a ClusterRole to a service account, everywhere."""
    suffix = role.removeprefix("system:")
    return {
        **_named("ClusterRoleBinding", name=account if suffix == account else f"{account}-{suffix}"),
        "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [_subject(account, namespace)],
    }


def _binding_within(within: str, role: str, account: str, namespace: str) -> Manifest:
    return {
        **_named("RoleBinding", within, role),
        "roleRef": {"apiGroup": API_GROUP, "kind": "Role", "name": role},
        "subjects": [_subject(account, namespace)],
    }


def _subject(account: str, namespace: str) -> Manifest:
    return {"kind": "ServiceAccount", "name": account, "namespace": namespace}


def _named(kind: str, namespace: str | None = None, name: str = NAME) -> Manifest:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": f"{API_GROUP}/v1", "kind": kind, "metadata": {"name": name, **where}}


def rbac_text(settings: Settings, account: str = NAME, namespace: str = "kube-system") -> str:
    written = {", write events": settings.extender.events, ", bind pods": settings.extender.bind}
    comment = ABOUT.format(written="".join(words for words, on in written.items() if on))
    return documents(comment, [service_account(account, namespace), *rights(settings, account, namespace)])


def training_rbac_text(settings: Settings, namespace: str = "kube-system") -> str:
    """For a trainer on the cluster, under a name of its own: what it may do must not become the sidecar's right."""
    extender = settings.extender.model_copy(update={"bind": True, "events": False})
    cluster = settings.cluster.model_copy(update={"metrics": "prometheus"})
    trainer = settings.model_copy(update={"extender": extender, "cluster": cluster})
    account = service_account(TRAINING_NAME, namespace)
    return documents(ABOUT_TRAINING, [account, *rights(trainer, TRAINING_NAME, namespace, role=TRAINING_NAME)])

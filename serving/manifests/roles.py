"""Least privilege: the rights for exactly what ``envs.live`` asks the API server, and for nothing else."""

from __future__ import annotations

from serving.manifests.text import Manifest, documents
from serving.settings import Settings

NAME = "pilotfish"
API_GROUP = "rbac.authorization.k8s.io"

ABOUT = """
What Pilotfish may do: see nodes and pods, and their use where there is a metrics server{binding}.
Written by: pilotfish rbac
"""


def rules(settings: Settings) -> list[Manifest]:
    """``bind`` is the only thing that it ever writes, and only where it is switched on."""
    seen = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
    ]
    bound = [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}]
    return seen + bound if settings.extender.bind else seen


def role(settings: Settings) -> Manifest:
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": rules(settings),
    }


def service_account(name: str, namespace: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def binding(role_name: str, account: str, namespace: str) -> Manifest:
    """Gives a ClusterRole to a service account, everywhere."""
    suffix = role_name.removeprefix("system:")
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": account if suffix == account else f"{account}-{suffix}"},
        "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": role_name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def rbac_text(settings: Settings, account: str = NAME, namespace: str = "kube-system") -> str:
    comment = ABOUT.format(binding=", and bind pods" if settings.extender.bind else "")
    return documents(comment, [service_account(account, namespace), role(settings), binding(NAME, account, namespace)])

"""A second kube-scheduler with Pilotfish beside it, as a Deployment with all that it needs.

Pilotfish is an ordinary container, not an init container that stays: kube-scheduler must start, and schedule, without
it. A pod has one service account, and here it is kube-scheduler's. The sidecar, which reads what others send, must not
be able to evict pods, so its container finds the token of an account of its own where its pod's would be: the API
server adds the pod's only to containers that have nothing there.
"""

from __future__ import annotations

from dataclasses import replace

from agent.errors import InputError
from serving.configuration import DEFAULT, Configuration
from serving.manifests.container import USER_ID, secret_folders, sidecar_container, tmp_volume
from serving.manifests.roles import API_GROUP, NAME, binding, rights, service_account
from serving.manifests.scheduler_config import SchedulerOptions, scheduler_config_text, scheduler_names
from serving.manifests.scheduler_container import CONFIG_FILE, scheduler_container
from serving.manifests.text import Manifest, documents

SCHEDULER = "pilotfish-scheduler"
DEFAULT_SCHEDULER = "default-scheduler"
TOKEN = "account"  # the volume, and with our name before it the Secret
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
ROLES = ("system:kube-scheduler", "system:volume-scheduler")

ABOUT = """
A second scheduler with Pilotfish beside it: it schedules the pods whose schedulerName is one of its profiles.
Written by: pilotfish scheduler-config --sidecar
"""


def deployment_text(configuration: Configuration, options: SchedulerOptions, image: str, namespace: str) -> str:
    configuration = _with_own_profile(configuration)
    # One replica needs no election, and the lease of kube-scheduler is the other scheduler's.
    config = scheduler_config_text(configuration.settings, replace(options, leader_elect=False, kubeconfig=None))
    objects = [
        service_account(SCHEDULER, namespace),
        service_account(NAME, namespace),
        *rights(configuration.settings, NAME, namespace),
        _token(namespace),
        *(binding(name, SCHEDULER, namespace) for name in ROLES),
        _authentication_reader(namespace),
        {"apiVersion": "v1", "kind": "ConfigMap", **_named(namespace), "data": {CONFIG_FILE: config}},
        _deployment(configuration, options, image, namespace),
    ]
    return documents(ABOUT, objects)


def _with_own_profile(configuration: Configuration) -> Configuration:
    """The cluster's own scheduler has the pods that name nobody: two for one pod would race."""
    settings, key = configuration.settings, ("extender", "scheduler_names")
    if configuration.sources[key] != DEFAULT:
        if DEFAULT_SCHEDULER in scheduler_names(settings):
            raise InputError(
                f"{configuration.sources[key]}: {DEFAULT_SCHEDULER} is the cluster's own; a second scheduler needs "
                "another name, or take its place with --static-pod"
            )
        return configuration
    named = settings.model_copy(update={"extender": settings.extender.model_copy(update={key[1]: SCHEDULER})})
    return replace(configuration, settings=named, sources={**configuration.sources, key: SCHEDULER})


def _deployment(configuration: Configuration, options: SchedulerOptions, image: str, namespace: str) -> Manifest:
    labels = {"component": SCHEDULER}
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},  # two at once would schedule the same pods
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _pod(configuration, options, image)},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", **_named(namespace), "spec": spec}


def _pod(configuration: Configuration, options: SchedulerOptions, image: str) -> Manifest:
    folders = {folder.name: str(folder) for folder in secret_folders(configuration.settings)}
    folders = {name: folder for name, folder in folders.items() if folder != ACCOUNT_FOLDER} | {TOKEN: ACCOUNT_FOLDER}
    mounts = [{"name": name, "mountPath": folder, "readOnly": True} for name, folder in folders.items()]
    secrets = [{"name": name, "secret": {"secretName": f"{NAME}-{name}"}} for name in folders]
    return {
        "serviceAccountName": SCHEDULER,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {"fsGroup": USER_ID},  # who may read what is mounted
        "containers": [scheduler_container(options.kubernetes), sidecar_container(configuration, image, mounts)],
        "volumes": [{"name": "config", "configMap": {"name": SCHEDULER}}, tmp_volume(), *secrets],
    }


def _token(namespace: str) -> Manifest:
    """Kubernetes fills it, and empties it with the account."""
    named = {"name": f"{NAME}-{TOKEN}", "namespace": namespace, "annotations": {ACCOUNT_ANNOTATION: NAME}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": named, "type": "kubernetes.io/service-account-token"}


def _authentication_reader(namespace: str) -> Manifest:
    """kube-scheduler checks who asks for its own metrics."""
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{SCHEDULER}-authentication-reader", "namespace": "kube-system"},
        "roleRef": {"apiGroup": API_GROUP, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": SCHEDULER, "namespace": namespace}],
    }


def _named(namespace: str) -> Manifest:
    return {"metadata": {"name": SCHEDULER, "namespace": namespace}}

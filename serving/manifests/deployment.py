"""A second kube-scheduler with Pilotfish beside it, as a Deployment with all that it needs.

Pilotfish is an ordinary container, not an init container that stays: kube-scheduler must start, and schedule, without
it. The two share a service account, as containers of one pod do; ours adds only the metrics to what kube-scheduler has.
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
        *rights(configuration.settings, SCHEDULER, namespace),
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
    folders = secret_folders(configuration.settings)
    mounts = [{"name": folder.name, "mountPath": str(folder), "readOnly": True} for folder in folders]
    secrets = [{"name": folder.name, "secret": {"secretName": f"{NAME}-{folder.name}"}} for folder in folders]
    return {
        "serviceAccountName": SCHEDULER,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {"fsGroup": USER_ID},  # who may read what is mounted
        "containers": [scheduler_container(options.kubernetes), sidecar_container(configuration, image, mounts)],
        "volumes": [{"name": "config", "configMap": {"name": SCHEDULER}}, tmp_volume(), *secrets],
    }


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

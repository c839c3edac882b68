"""No field that a kube-scheduler of 1.29 to 1.36 does not know: its decoder is strict, and an unknown one stops it.

The fields are those of ``config/v1/types.go`` in k8s.io/kube-scheduler v0.29.0. v0.36.0 has all of them and some more,
so what passes here passes everywhere; tests/cluster gives the text to a real kube-scheduler of one version.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from serving.configuration import ConfigurationSource
from serving.manifests.scheduler_config import SchedulerOptions, scheduler_config
from serving.settings import Settings

TOP = {
    *("apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "enableProfiling"),
    *("enableContentionProfiling", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds"),
    *("profiles", "extenders", "delayCacheUntilActive"),
}
PROFILE = {"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"}
EXTENDER = {
    *("urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig"),
    *("httpTimeout", "nodeCacheCapable", "managedResources", "ignorable"),
}
TLS = {"insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"}
CLIENT = {"kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"}
ELECTION = {
    *("leaderElect", "leaseDuration", "renewDeadline", "retryPeriod", "resourceLock", "resourceName"),
    "resourceNamespace",
}
ARGUMENTS = {
    "NodeResourcesFit": {"apiVersion", "kind", "ignoredResources", "ignoredResourceGroups", "scoringStrategy"},
    "VolumeBinding": {"apiVersion", "kind", "bindTimeoutSeconds", "shape"},
}

SECURED = ConfigurationSource(
    assignments=[
        "security.certificate_file=/tls/crt",
        "security.key_file=/tls/key",
        "security.client_ca_file=/tls/ca",
        "extender.bind=true",
        "extender.preempt=true",
        "extender.scheduler_names=one,two",
    ]
)
FILES = {"ca_file": "/ca", "client_certificate_file": "/crt", "client_key_file": "/key"}


def configurations() -> list[dict[str, Any]]:
    plain = Settings()
    secured = SECURED.read().settings
    many = []
    for only, strategy, timeout_s in itertools.product((False, True), (None, "MostAllocated"), (None, 60)):
        options = {"only_pilotfish": only, "strategy": strategy, "volume_bind_timeout_s": timeout_s}
        many.append(scheduler_config(plain, SchedulerOptions(**options)))
        many.append(scheduler_config(secured, SchedulerOptions(**options, **FILES, kubeconfig="/kubeconfig")))
    return many


def unknown_fields(config: dict[str, Any]) -> set[str]:
    unknown = set(config) - TOP | set(config["leaderElection"]) - ELECTION
    unknown |= set(config.get("clientConnection", {})) - CLIENT
    for profile in config["profiles"]:
        unknown |= set(profile) - PROFILE | set(profile.get("plugins", {})) - {"score"}
        for plugin in profile.get("pluginConfig", []):
            unknown |= set(plugin) - {"name", "args"} | set(plugin["args"]) - ARGUMENTS[plugin["name"]]
    for extender in config["extenders"]:
        unknown |= set(extender) - EXTENDER | set(extender.get("tlsConfig", {})) - TLS
    return unknown


@pytest.mark.parametrize("config", configurations(), ids=itertools.count())
def test_no_form_has_a_field_that_is_unknown(config):
    assert unknown_fields(config) == set()


def test_an_unknown_field_would_be_seen():
    config = scheduler_config(Settings(), SchedulerOptions())
    config["extenders"][0]["nodeCacheable"] = True
    assert unknown_fields(config) == {"nodeCacheable"}

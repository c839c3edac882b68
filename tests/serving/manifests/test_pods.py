"""Pods with both: kube-scheduler unchanged, Pilotfish with as few rights as can be."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from agent.errors import InputError
from serving.configuration import ConfigurationSource
from serving.manifests.container import USER_ID
from serving.manifests.deployment import ACCOUNT_FOLDER, deployment_text
from serving.manifests.scheduler_config import SchedulerOptions
from serving.manifests.static_pod import static_pod_text

TLS = ("security.certificate_file=/etc/pilotfish/tls/tls.crt", "security.key_file=/etc/pilotfish/tls/tls.key")
TOKENS = ("security.client_ca_file=/etc/pilotfish/tls/ca.crt", "security.token_file=/etc/pilotfish/tokens/list")
FILES = {"ca_file": "/ca", "client_certificate_file": "/crt", "client_key_file": "/key"}


def deployed(*assignments: str, namespace: str = "kube-system", **options: Any) -> dict[str, Any]:
    """The objects of the Deployment by kind; of several of a kind the last."""
    found = ConfigurationSource(assignments=assignments).read()
    text = deployment_text(found, SchedulerOptions(**options), "pilotfish:test", namespace)
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def pod_of_deployment(*assignments: str, **options: Any) -> dict[str, Any]:
    return deployed(*assignments, **options)["Deployment"]["spec"]["template"]["spec"]


def static_pod(*assignments: str, **options: Any) -> dict[str, Any]:
    found = ConfigurationSource(assignments=assignments).read()
    return yaml.safe_load(static_pod_text(found, SchedulerOptions(**options), "pilotfish:test"))["spec"]


@pytest.fixture(params=[pod_of_deployment, static_pod], ids=["deployment", "static"])
def pod(request):
    return request.param


def containers(pod: dict[str, Any]) -> dict[str, Any]:
    return {container["name"]: container for container in pod["containers"]}


def test_the_sidecar_has_no_rights_on_its_node(pod):
    context = containers(pod())["pilotfish"]["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, USER_ID)
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_it_is_probed_and_bounded(pod):
    sidecar = containers(pod())["pilotfish"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(sidecar)
    assert sidecar["resources"]["limits"]["memory"] == "512Mi"
    assert "cpu" not in sidecar["resources"]["limits"]


def test_kube_scheduler_is_the_image_of_its_version_and_does_not_wait_for_the_sidecar(pod):
    given = pod(kubernetes="1.31")
    assert containers(given)["kube-scheduler"]["image"].endswith("/kube-scheduler:v1.31.0")
    assert "initContainers" not in given


def test_what_is_set_here_is_set_there(pod):
    given = pod("ladder.deadline_ms=50", "rollout.mode=shadow", "extender.preempt=true")
    environment = {variable["name"]: variable["value"] for variable in containers(given)["pilotfish"]["env"]}
    assert environment["PILOTFISH_LADDER__DEADLINE_MS"] == "50.0"
    assert environment["PILOTFISH_ROLLOUT__MODE"] == "shadow"
    assert environment["PILOTFISH_EXTENDER__PREEMPT"] == "true"


def test_every_mount_has_its_volume_and_every_volume_its_mount(pod):
    given = pod(*TLS, *TOKENS, **FILES)
    mounted = {mount["name"] for container in given["containers"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in given["volumes"]}
    paths = {mount["mountPath"] for mount in containers(given)["pilotfish"]["volumeMounts"]}
    assert {"/etc/pilotfish/tls", "/etc/pilotfish/tokens"} <= paths


def test_secrets_come_by_volume():
    volumes = {volume["name"]: volume for volume in pod_of_deployment(*TLS, *TOKENS, **FILES)["volumes"]}
    assert volumes["tls"]["secret"] == {"secretName": "pilotfish-tls"}
    assert volumes["tokens"]["secret"] == {"secretName": "pilotfish-tokens"}


def test_a_static_pod_names_no_object_of_the_api():
    given = static_pod(*TLS, *TOKENS, **FILES)
    assert all({"hostPath", "emptyDir"} & set(volume) for volume in given["volumes"])
    assert "serviceAccountName" not in given


def test_a_second_scheduler_leaves_the_pods_of_the_first_alone():
    objects = deployed()
    config = yaml.safe_load(objects["ConfigMap"]["data"]["scheduler-config.yaml"])
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["pilotfish-scheduler"]
    assert config["leaderElection"] == {"leaderElect": False}
    environment = containers(objects["Deployment"]["spec"]["template"]["spec"])["pilotfish"]["env"]
    assert {"name": "PILOTFISH_EXTENDER__SCHEDULER_NAMES", "value": "pilotfish-scheduler"} in environment


def test_it_takes_another_name_but_not_that_of_the_first():
    objects = deployed("extender.scheduler_names=my-custom-scheduler")
    config = yaml.safe_load(objects["ConfigMap"]["data"]["scheduler-config.yaml"])
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["my-custom-scheduler"]
    with pytest.raises(InputError, match="--static-pod"):
        deployed("extender.scheduler_names=default-scheduler,mine")


def test_everything_is_in_the_namespace_that_was_asked_for():
    objects = deployed(namespace="schedulers")
    assert {objects[kind]["metadata"]["namespace"] for kind in ("ServiceAccount", "ConfigMap", "Deployment")} == {
        "schedulers"
    }
    assert objects["ClusterRoleBinding"]["subjects"][0]["namespace"] == "schedulers"


def test_files_of_prometheus_are_mounted_and_the_token_of_the_account_only_once():
    given = pod_of_deployment(
        f"prometheus.token_file={ACCOUNT_FOLDER}/token", "prometheus.ca_file=/etc/pilotfish/prometheus/ca.crt"
    )
    mounts = {mount["mountPath"]: mount["name"] for mount in containers(given)["pilotfish"]["volumeMounts"]}
    secrets = {each["name"]: each["secret"]["secretName"] for each in given["volumes"] if "secret" in each}
    assert secrets[mounts["/etc/pilotfish/prometheus"]] == "pilotfish-prometheus"
    assert secrets[mounts[ACCOUNT_FOLDER]] == "pilotfish-account"


def test_in_a_deployment_the_rights_of_the_sidecar_go_to_its_own_account():
    text = deployment_text(ConfigurationSource().read(), SchedulerOptions(), "pilotfish:test", "kube-system")
    bound = {
        each["roleRef"]["name"]: [subject["name"] for subject in each["subjects"]]
        for each in yaml.safe_load_all(text)
        if each["kind"] == "ClusterRoleBinding"
    }
    assert bound == {
        "pilotfish": ["pilotfish"],
        "system:kube-scheduler": ["pilotfish-scheduler"],
        "system:volume-scheduler": ["pilotfish-scheduler"],
    }

"""The files of deploy/ are what the commands print, and the roles in them are the least that will do."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import serving.cli
from serving.configuration import ConfigurationSource
from serving.manifests.container import image_name
from serving.manifests.roles import rbac_text, rules, training_rbac_text
from serving.manifests.scheduler_config import SchedulerOptions, extender
from serving.settings import Settings

ROOT = Path(__file__).parents[3]
WRITTEN_BY = {
    "scheduler-config.yaml": ["scheduler-config"],
    "sidecar.yaml": ["scheduler-config", "--sidecar"],
    "static-pod.yaml": ["scheduler-config", "--static-pod"],
    "rbac.yaml": ["rbac"],
}


@pytest.mark.parametrize("file", WRITTEN_BY)
def test_files_are_what_the_commands_print(file, monkeypatch):
    for variable in [name for name in os.environ if name.startswith("PILOTFISH_")]:
        monkeypatch.delenv(variable)
    printed = CliRunner().invoke(serving.cli.app, WRITTEN_BY[file]).output
    why = f"pilotfish {' '.join(WRITTEN_BY[file])} > deploy/{file}"
    assert (ROOT / "deploy" / file).read_text(encoding="utf-8") == printed, why


@pytest.mark.parametrize("document", ["README.md", "docs/extender.md"])
def test_the_extender_in_the_documents_is_the_one_that_is_generated(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    described = yaml.safe_load(re.search(r"```yaml\n(extenders:.*?)```", text, re.DOTALL)[1])
    assert described["extenders"] == [extender(Settings(), SchedulerOptions())]


def allowed(rules: list[dict]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


SEEN = {
    *(("", resource, verb) for resource in ("nodes", "pods") for verb in ("list", "watch")),
    *(("metrics.k8s.io", resource, "list") for resource in ("nodes", "pods")),
}


TELLS = ("", "events", "create")
BINDS = ("", "pods/binding", "create")


def settings(*assignments: str) -> Settings:
    return ConfigurationSource(assignments=assignments).read().settings


def test_it_sees_and_writes_events_and_nothing_else():
    assert allowed(rules(Settings())) == {*SEEN, TELLS}


def test_without_events_it_writes_nothing():
    assert allowed(rules(settings("extender.events=false"))) == SEEN


def test_it_may_bind_only_where_that_is_switched_on():
    assert allowed(rules(settings("extender.bind=true"))) == {*SEEN, TELLS, BINDS}


def test_the_role_in_the_documents_is_the_one_that_is_generated():
    """The tests of the watch run with the one in the documents."""
    text = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")
    described = yaml.safe_load(re.search(r"```yaml\n(apiVersion: rbac.*?)```", text, re.DOTALL)[1])
    assert allowed(described["rules"]) == allowed(rules(settings("extender.bind=true")))


def test_without_the_metrics_api_it_has_no_right_to_it():
    assert {group for group, _, _ in allowed(rules(settings("cluster.metrics=prometheus")))} == {""}


def test_where_some_namespaces_are_seen_pods_elsewhere_are_not():
    given = settings("cluster.namespaces=[shop, web]", "extender.bind=true")
    assert {resource for _, resource, _ in allowed(rules(given))} == {"nodes"}
    objects = list(yaml.safe_load_all(rbac_text(given)))
    within = [each for each in objects if each["kind"] == "Role"]
    assert [each["metadata"]["namespace"] for each in within] == ["shop", "web"]
    assert allowed(within[0]["rules"]) == {*(right for right in SEEN if right[1] == "pods"), TELLS, BINDS}
    bound = [each for each in objects if each["kind"] == "RoleBinding"]
    assert [each["metadata"]["namespace"] for each in bound] == ["shop", "web"]


def test_a_trainer_may_bind_under_a_name_that_is_not_the_sidecars():
    account, role, binding = yaml.safe_load_all(training_rbac_text(Settings()))
    assert allowed(role["rules"]) == {*(right for right in SEEN if right[0] == ""), BINDS}
    assert {each["metadata"]["name"] for each in (account, role, binding)} == {"pilotfish-training"}
    assert binding["roleRef"]["name"] == "pilotfish-training"
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]


def test_the_role_reaches_the_account():
    account, role, binding = yaml.safe_load_all(rbac_text(Settings(), namespace="elsewhere"))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]


def test_the_way_into_kind_is_written_down_with_the_name_of_the_image():
    """kind itself needs a container runtime and is not run here; what it is told is looked at."""
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"kind load docker-image {image_name()} --name pilotfish" in text
    assert "kind create cluster --name pilotfish --config deploy/kind.yaml" in text
    assert set(re.findall(r"pilotfish:[0-9][\w.]*", text)) == {image_name()}
    assert "PILOTFISH_IMAGE ?= pilotfish:$(VERSION)" in makefile
    nodes = yaml.safe_load((ROOT / "deploy" / "kind.yaml").read_text(encoding="utf-8"))["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", "worker", "worker", "worker"]

"""What the commands print, given to the real parts: kube-scheduler reads it, the API server takes it."""

from __future__ import annotations

import subprocess
from base64 import b64decode
from pathlib import Path

import pytest
import yaml

from serving.configuration import ConfigurationSource
from serving.manifests.deployment import ACCOUNT_FOLDER
from serving.manifests.roles import rbac_text
from serving.manifests.scheduler_config import SchedulerOptions, extender, scheduler_config
from serving.settings import ModelSettings, SecuritySettings, ServerSettings, Settings
from tests.cluster.api import Api, Object, eventually
from tests.cluster.apiserver import ApiServer, create_service_account
from tests.cluster.building import tool
from tests.cluster.identities import Authority, write_kubeconfig
from tests.cluster.objects import a_pod, create_pods, wait_until_bound
from tests.cluster.processes import free_port
from tests.serving.listening_sidecar import listening_sidecar

DEPLOY = Path(__file__).parents[2] / "deploy"
REVIEW = "authorization.k8s.io/v1"
SECRETS = "/api/v1/namespaces/kube-system/secrets"

FORMS = {
    "plain": SchedulerOptions(),
    "alone": SchedulerOptions(only_pilotfish=True, percentage_of_nodes=100),
    "strategy": SchedulerOptions(strategy="MostAllocated", volume_bind_timeout_s=60, weight=3),
}


class NotUnderstood(Exception):
    """kube-scheduler refused its configuration; the message is its own."""


@pytest.fixture
def read_back(tmp_path):
    """Gives a configuration to kube-scheduler, which writes it as it understood it, and needs no cluster for that."""
    authority = Authority(tmp_path).certificate
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", authority, "unused")

    def run(config: Object) -> Object:
        given, written = tmp_path / "given.yaml", tmp_path / "written.yaml"
        given.write_text(yaml.safe_dump(config | {"clientConnection": {"kubeconfig": str(kubeconfig)}}))
        command = [str(tool("kube-scheduler")), f"--config={given}", f"--write-config-to={written}", "--secure-port=0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if not written.exists():
            raise NotUnderstood(done.stderr)
        return yaml.safe_load(written.read_text())

    return run


@pytest.mark.slow
class TestKubeScheduler:
    @pytest.mark.parametrize("form", FORMS)
    def test_understands_every_form(self, read_back, form):
        config = scheduler_config(Settings(), FORMS[form])
        understood = read_back(config)
        assert understood["extenders"] == config["extenders"]
        assert understood["percentageOfNodesToScore"] == config["percentageOfNodesToScore"]
        assert [profile["schedulerName"] for profile in understood["profiles"]] == ["default-scheduler"]

    def test_disables_the_in_tree_scores_where_pilotfish_is_alone(self, read_back):
        plugins = read_back(scheduler_config(Settings(), FORMS["alone"]))["profiles"][0]["plugins"]
        assert [plugin["name"] for plugin in plugins["score"]["disabled"]] == ["*"]

    def test_takes_the_strategy(self, read_back):
        understood = read_back(scheduler_config(Settings(), FORMS["strategy"]))["profiles"][0]["pluginConfig"]
        arguments = {plugin["name"]: plugin["args"] for plugin in understood}
        assert arguments["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"
        assert arguments["VolumeBinding"]["bindTimeoutSeconds"] == 60

    def test_takes_certificates(self, read_back, mutual_tls):
        config = scheduler_config(*mutual_tls)
        assert read_back(config)["extenders"] == config["extenders"]

    def test_would_refuse_a_field_that_it_does_not_know(self, read_back):
        config = scheduler_config(Settings(), SchedulerOptions())
        config["extenders"][0]["nodeCacheable"] = True
        with pytest.raises(NotUnderstood, match="unknown field"):
            read_back(config)


@pytest.fixture
def mutual_tls(tmp_path) -> tuple[Settings, SchedulerOptions]:
    authority = Authority(tmp_path)
    sidecar, client = authority.loopback_pair("sidecar"), authority.loopback_pair("scheduler")
    security = SecuritySettings(
        certificate_file=str(sidecar.certificate),
        key_file=str(sidecar.key),
        client_ca_file=str(authority.certificate),
    )
    settings = Settings(server=ServerSettings(port=free_port()), security=security, model=ModelSettings(folder="none"))
    files = {"client_certificate_file": str(client.certificate), "client_key_file": str(client.key)}
    return settings, SchedulerOptions(ca_file=str(authority.certificate), **files)


def test_kube_scheduler_calls_the_sidecar_over_tls_with_its_certificate(control_plane, nodes, scheduler, mutual_tls):
    settings, _ = mutual_tls
    namespace = control_plane.create_namespace("over-tls")
    with listening_sidecar(settings) as sidecar:
        scheduler(extenders=[extender(*mutual_tls)])
        create_pods(control_plane.admin, namespace, [a_pod("first")])
        wait_until_bound(control_plane.admin, namespace, 1)
        metrics = sidecar.config.app.state.sidecar.metrics.exposition().decode()
    for verb in ("filter", "prioritize"):
        assert f'pilotfish_requests_total{{code="200",route="/extender/{verb}"}} 1.0' in metrics


def test_pods_are_scheduled_on_when_the_sidecar_goes(control_plane, nodes, scheduler):
    settings = Settings(server=ServerSettings(port=free_port()), model=ModelSettings(folder="none"))
    namespace = control_plane.create_namespace("sidecar-goes")
    scheduler(extenders=[extender(settings, SchedulerOptions())])
    with listening_sidecar(settings):
        create_pods(control_plane.admin, namespace, [a_pod("with")])
        wait_until_bound(control_plane.admin, namespace, 1)
    create_pods(control_plane.admin, namespace, [a_pod("without")])
    assert set(wait_until_bound(control_plane.admin, namespace, 2)) == {"with", "without"}


@pytest.mark.parametrize("file", ["rbac.yaml", "sidecar.yaml", "static-pod.yaml"])
def test_the_api_server_takes_the_files_of_the_deploy_folder(api_server, file):
    """Applied by the server itself, which refuses a field that it does not know."""
    create_service_account(api_server.admin, "kube-system", "default")
    api_server.admin.apply_file(DEPLOY / file)


SEEN = {
    *(f"{verb} {what}" for verb in ("list", "watch") for what in ("nodes", "pods")),
    *(f"list metrics.k8s.io/{what}" for what in ("nodes", "pods")),
    "create events",
}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
RESOURCES = (
    *("nodes", "pods", "pods/binding", "pods/eviction", "pods/exec", "nodes/proxy", "secrets", "configmaps", "events"),
    *("serviceaccounts/token", "metrics.k8s.io/nodes", "metrics.k8s.io/pods", "apps/deployments"),
)


def test_in_the_pod_of_a_second_scheduler_the_sidecar_is_somebody_else(control_plane):
    """The real controllers make the pod and fill the token; what the token may do is asked of the API server."""
    admin = control_plane.admin
    admin.apply_file(DEPLOY / "sidecar.yaml")
    pod = eventually(lambda: _pod_of(admin, "pilotfish-scheduler"), "the pod of the Deployment")
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    found = {
        container["name"]: volumes[mount["name"]]
        for container in pod["spec"]["containers"]
        for mount in container["volumeMounts"]
        if mount["mountPath"] == ACCOUNT_FOLDER
    }
    assert found["pilotfish"]["secret"]["secretName"] == "pilotfish-account"
    assert "projected" in found["kube-scheduler"], "the token of its pod's account"
    secret = eventually(lambda: admin.get(f"{SECRETS}/pilotfish-account").get("data"), "a token in the Secret")
    sidecar = Api(control_plane.url, control_plane.authority.certificate, b64decode(secret["token"]).decode())
    eventually(lambda: may(sidecar, "list pods"), "the rights of the role", within_s=10)
    assert not any(may(sidecar, right) for right in ("create pods/binding", "delete pods", "list secrets"))
    admin.delete("/apis/apps/v1/namespaces/kube-system/deployments/pilotfish-scheduler")


def _pod_of(admin: Api, component: str) -> Object | None:
    pods = admin.get("/api/v1/namespaces/kube-system/pods", labelSelector=f"component={component}")["items"]
    return pods[0] if pods else None


class TestRights:
    """What the API server itself says that the service account may do."""

    @pytest.fixture
    def account(self, api_server: ApiServer) -> Api:
        api_server.admin.apply_file(DEPLOY / "rbac.yaml")
        return api_server.client_of_service_account("kube-system", "pilotfish")

    def test_it_sees_what_it_needs_and_may_do_nothing_else(self, account):
        eventually(lambda: may(account, "list pods"), "the rights of the role", within_s=10)
        asked = {f"{verb} {resource}" for verb in VERBS for resource in RESOURCES}
        assert {right for right in asked if may(account, right)} == SEEN

    def test_it_may_bind_where_that_is_switched_on(self, account, api_server):
        binds = ConfigurationSource(assignments=["extender.bind=true"]).read().settings
        api_server.admin.apply(yaml.safe_load_all(rbac_text(binds)))
        eventually(lambda: may(account, "create pods/binding"), "the right to bind", within_s=10)


def may(api: Api, right: str) -> bool:
    """Whether this account has a right such as ``list metrics.k8s.io/nodes`` or ``create pods/binding``."""
    verb, _, what = right.partition(" ")
    group, _, resource = what.rpartition("/") if "." in what or what.startswith("apps/") else ("", "", what)
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    review = {"apiVersion": REVIEW, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    return bool(api.create(f"/apis/{REVIEW}/selfsubjectaccessreviews", review)["status"]["allowed"])

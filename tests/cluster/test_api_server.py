"""The API server of the harness is a real one: it stores, it watches, and it refuses."""

import ssl

import httpx
import pytest

from tests.cluster.api import Api, Object, Refused, eventually
from tests.cluster.apiserver import create_service_account
from tests.cluster.building import KUBERNETES_VERSION
from tests.cluster.objects import a_pod


def test_the_api_server_is_the_version_that_was_built(api_server):
    assert api_server.admin.get("/version")["gitVersion"] == KUBERNETES_VERSION


def test_a_pod_is_stored_and_waits_for_a_scheduler(api_server, namespace):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api_server.admin.create(pods, a_pod("waiting"))
    stored = api_server.admin.get(f"{pods}/waiting")
    assert stored["status"]["phase"] == "Pending"
    assert "nodeName" not in stored["spec"]


def role_for(account: str, namespace: str, rule: Object) -> list[Object]:
    """A role with this one rule, and its binding."""
    group = "rbac.authorization.k8s.io"
    shared = {"apiVersion": f"{group}/v1", "metadata": {"name": account, "namespace": namespace}}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": group, "kind": "Role", "name": account}
    binding = shared | {"kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    return [shared | {"kind": "Role", "rules": [rule]}, binding]


def may_list(account: Api, path: str) -> bool:
    try:
        return account.get(path)["items"] == []
    except Refused as why:
        if why.status != httpx.codes.FORBIDDEN:
            raise
        return False


def test_a_service_account_may_do_only_what_its_role_says(api_server, namespace):
    create_service_account(api_server.admin, namespace, "reader")
    reader = api_server.client_of_service_account(namespace, "reader")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert not may_list(reader, pods)
    api_server.admin.apply(role_for("reader", namespace, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}))
    # the API server hears of new roles by a watch of its own
    eventually(lambda: may_list(reader, pods), "the role is in force")
    with pytest.raises(Refused, match="403"):
        reader.create(pods, a_pod("forbidden"))


def test_nobody_gets_in_without_a_token_or_over_an_unknown_certificate(api_server):
    authority = str(api_server.authority.certificate)
    trust = ssl.create_default_context(cafile=authority)
    assert httpx.get(f"{api_server.url}/api/v1/nodes", verify=trust).status_code == httpx.codes.UNAUTHORIZED
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{api_server.url}/api/v1/nodes")

"""A small client of the Kubernetes API, for tests: they see what the API server says, through no code of Pilotfish."""

from __future__ import annotations

import functools
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

Object = dict[str, Any]
T = TypeVar("T")

APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
TOKEN_LIFETIME_S = 6 * 3600


class Refused(Exception):
    """The API server said no; the message is its own."""

    def __init__(self, reply: httpx.Response) -> None:
        super().__init__(f"{reply.request.method} {reply.request.url.path}: {reply.status_code} {reply.text[:500]}")
        self.status = reply.status_code


class Api:
    """One identity at one API server."""

    def __init__(self, server: str, authority: Path, token: str) -> None:
        self.server = server
        self._client = httpx.Client(
            base_url=server,
            verify=ssl.create_default_context(cafile=str(authority)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=20.0,
            trust_env=False,  # a proxy has no business on the loopback address
        )

    def get(self, path: str, **query: str) -> Object:
        return self._ask("GET", path, params=query)

    def create(self, path: str, body: Object) -> Object:
        return self._ask("POST", path, json=body)

    def merge(self, path: str, changes: Object) -> Object:
        return self._ask("PATCH", path, json=changes, headers=MERGE)

    def delete(self, path: str, **query: str) -> Object:
        return self._ask("DELETE", path, params=query)

    def watch(self, path: str, version: str, silent_s: float = 60.0) -> Iterator[Object]:
        """Events after that version, until the connection ends."""
        query = {"watch": "true", "resourceVersion": version}
        with self._client.stream("GET", path, params=query, timeout=httpx.Timeout(5.0, read=silent_s)) as reply:
            if not reply.is_success:
                reply.read()
                raise Refused(reply)
            for line in reply.iter_lines():
                yield json.loads(line)

    def is_ready(self) -> bool:
        try:
            return self._client.get("/readyz", timeout=2.0).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def apply(self, manifests: Iterable[Object]) -> None:
        """Server-side apply, of any kind that the server knows."""
        for manifest in manifests:
            path = f"{self._collection(manifest)}/{manifest['metadata']['name']}"
            query = {"fieldManager": "tests", "force": "true"}
            self._ask("PATCH", path, content=yaml.safe_dump(manifest).encode(), headers=APPLY, params=query)

    def apply_file(self, path: Path) -> None:
        self.apply(document for document in yaml.safe_load_all(path.read_text()) if document)

    def service_account_token(self, namespace: str, name: str) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        reply = self.create(path, {"spec": {"expirationSeconds": TOKEN_LIFETIME_S}})
        return str(reply["status"]["token"])

    def close(self) -> None:
        self._client.close()

    def _collection(self, manifest: Object) -> str:
        resource = self._kinds(manifest["apiVersion"])[manifest["kind"]]
        namespace = manifest["metadata"].get("namespace", "default")
        middle = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        return f"{_group_path(manifest['apiVersion'])}{middle}/{resource['name']}"

    @functools.cache  # noqa: B019 - as many clients as identities, all living as long as the test run
    def _kinds(self, api_version: str) -> dict[str, Object]:
        listed = self.get(_group_path(api_version))["resources"]
        return {resource["kind"]: resource for resource in listed if "/" not in resource["name"]}

    def _ask(self, method: str, path: str, **options: Any) -> Object:
        reply = self._client.request(method, path, **options)
        if not reply.is_success:
            raise Refused(reply)
        answer: Object = reply.json()
        return answer


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def eventually(look: Callable[[], T | None], what: str, within_s: float = 30.0, every_s: float = 0.1) -> T:
    """The first answer that is something, or a failure that says what was waited for and what was seen last."""
    until_s = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > until_s:
            raise AssertionError(f"not within {within_s:.0f} s: {what}; last seen: {seen!r}")
        time.sleep(every_s)

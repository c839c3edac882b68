"""Lists and watches of many nodes and pods, over real sockets: what the API server would send, without the server.

Creating 30,000 pods in a real API server takes minutes and gigabytes; what the sidecar does with them is the same.
Objects are as long as real ones are: most of a pod is what other programs wrote about it (``managedFields``).
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

Object = dict[str, Any]

PODS_PER_APP = 30
ZONES = 3
FIRST_VERSION = 1
_MANAGED = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field-{i}": {"f:x": {}} for i in range(90)}}]


def a_node(index: int, **spec: Any) -> Object:
    name = f"node-{index:04d}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{index % ZONES}",
        "node.kubernetes.io/instance-type": "m5.4xlarge",
        "pilotfish.io/nic-mbps": "10000",
    }
    return {
        "metadata": {"name": name, "uid": f"node-uid-{index}", "labels": labels, "managedFields": _MANAGED},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [f"registry.example/team/image-{i}:v1"], "sizeBytes": 10**8} for i in range(50)],
        },
    }


def a_pod(index: int, node: str, cpu: str = "100m") -> Object:
    app = f"app-{index // PODS_PER_APP:04d}"
    environment = [{"name": f"SETTING_{i}", "value": f"value {i} of {app}"} for i in range(12)]
    resources = {"requests": {"cpu": cpu, "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    return {
        "metadata": {
            "name": f"{app}-7c5ddbdf54-{index:05d}",
            "namespace": f"team-{index % 20:02d}",
            "uid": f"6f1c9a52-0b6e-4d3e-9f5b-{index:012d}",
            "labels": {"app": app, "pod-template-hash": "7c5ddbdf54"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"{app}-7c5ddbdf54", "controller": True}],
            "managedFields": _MANAGED,
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": f"example/{app}", "resources": resources, "env": environment}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


class WatchedCluster:
    """``say`` sends one change to whoever watches."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.objects = {
            "nodes": [orjson.dumps(a_node(index)) for index in range(nodes)],
            "pods": [orjson.dumps(a_pod(index, f"node-{index % nodes:04d}")) for index in range(pods)],
        }
        self.version = FIRST_VERSION
        self.changes: dict[str, list[bytes]] = {"nodes": [], "pods": []}
        self.more = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> WatchedCluster:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def pod_bytes(self) -> int:
        return len(self.objects["pods"][0])

    def say(self, kind: str, change: str, item: Object) -> None:
        with self.more:
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.changes[kind].append(orjson.dumps({"type": change, "object": item}) + b"\n")
            self.more.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: WatchedCluster

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        kind = parts.path.rsplit("/", 1)[-1]
        try:
            if query.get("watch") == "true":
                self._watch(kind)
            else:
                self._list(kind, int(query["limit"]), int(query.get("continue", "0")))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _list(self, kind: str, limit: int, first: int) -> None:
        items = self.cluster.objects[kind]
        metadata = {"resourceVersion": str(FIRST_VERSION)}
        if first + limit < len(items):
            metadata["continue"] = str(first + limit)
        head = orjson.dumps({"metadata": metadata})[:-1] + b',"items":['
        body = head + b",".join(items[first : first + limit]) + b"]}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        changes, said = self.cluster.changes[kind], 0
        while True:
            with self.cluster.more:
                self.cluster.more.wait_for(lambda: len(changes) > said)  # noqa: B023
            for line in changes[said:]:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                said += 1

"""A small API server that speaks list and watch over real sockets, and fails as it is told.

What a real kube-apiserver does is tested in tests/cluster; this one is for what a real one cannot be told to do:
forget a version at the right moment, send half a line, answer with 503, or say nothing for ever.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TICK_S = 0.01


class ScriptedApi:
    """``faults["list"]`` and ``faults["watch"]`` are functions of the request's handler, one used up by each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.version = 100
        self.forgotten = 0  # watches from versions up to this one get 410
        self.objects: dict[str, dict[str, dict]] = {"nodes": {}, "pods": {}, "metrics-nodes": {}, "metrics-pods": {}}
        self.events: dict[str, list[tuple[int, bytes]]] = {"nodes": [], "pods": []}
        self.faults: dict[str, deque] = {"list": deque(), "watch": deque()}
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []  # kind, query, headers
        self.posted: list[tuple[str, dict]] = []
        self.post_status = 201
        self.on_post: Callable[[], None] | None = None  # done instead of an answer
        self.hang_up = threading.Event()  # every open watch ends
        self.stopping = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()

    def put(self, kind: str, item: dict) -> None:
        """Add or change an object; open watches see it."""
        with self.lock:
            key = key_of(item)
            change = "MODIFIED" if key in self.objects[kind] else "ADDED"
            self._record(kind, change, item)
            self.objects[kind][key] = item

    def delete(self, kind: str, item: dict) -> None:
        with self.lock:
            self._record(kind, "DELETED", item)
            del self.objects[kind][key_of(item)]

    def say(self, kind: str, line: bytes) -> None:
        """A raw line to every watch."""
        with self.lock:
            self.version += 1
            self.events[kind].append((self.version, line))

    def forget(self) -> None:
        """The history up to now is compacted away."""
        with self.lock:
            self.version += 1
            self.forgotten = self.version - 1

    def count(self, kind: str) -> int:
        return sum(1 for each, _, _ in self.requests if each == kind)

    def _record(self, kind: str, change: str, item: dict) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        if kind in self.events:
            line = json.dumps({"type": change, "object": item}).encode() + b"\n"
            self.events[kind].append((self.version, line))


def key_of(item: dict) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ScriptedApi

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        kind = parts.path.rsplit("/", 1)[-1]
        if "metrics.k8s.io" in parts.path:
            kind = f"metrics-{kind}"
        verb = "watch" if query.get("watch") == "true" else "list"
        self.api.requests.append((f"{verb} {kind}", query, dict(self.headers)))
        namespace = parts.path.split("/")[4] if "/namespaces/" in parts.path else ""
        fault = self.api.faults[verb].popleft() if self.api.faults[verb] else None
        if self.api.stopping.is_set():
            self.close_connection = True
            return
        try:
            if fault is not None and fault(self):
                return
            if verb == "watch":
                self.watch(kind, namespace, int(query["resourceVersion"]), float(query["timeoutSeconds"]))
            else:
                self.list(kind, namespace, int(query.get("limit", 0)), query.get("continue", ""))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.api.posted.append((self.path, body))
        if self.api.on_post is not None:
            self.api.on_post()
            self.close_connection = True
            return
        self.reply(self.api.post_status, {"kind": "Status", "message": "as the test said"})

    def list(self, kind: str, namespace: str, limit: int, following: str) -> None:
        with self.api.lock:
            keys = [key for key in sorted(self.api.objects[kind]) if not namespace or key.startswith(f"{namespace}/")]
            first = int(following or 0)
            last = first + limit if limit else len(keys)
            metadata = {"resourceVersion": str(self.api.version)}
            if last < len(keys):
                metadata["continue"] = str(last)
            page = {"metadata": metadata, "items": [self.api.objects[kind][key] for key in keys[first:last]]}
        self.reply(200, page)

    def watch(self, kind: str, namespace: str, version: int, timeout_s: float) -> None:
        if version <= self.api.forgotten:
            self.reply(410, {"kind": "Status", "code": 410, "message": "too old resource version"})
            return
        self.begin_chunks()
        place, until_s = 0, time.monotonic() + timeout_s
        self.api.hang_up.clear()
        while time.monotonic() < until_s and not self.api.hang_up.is_set() and not self.api.stopping.is_set():
            with self.api.lock:
                new, place = self.api.events[kind][place:], len(self.api.events[kind])
            for event_version, line in new:
                if event_version > version and (not namespace or f'"{namespace}"'.encode() in line):
                    self.chunk(line)
            time.sleep(TICK_S)
        self.chunk(b"")

    def reply(self, status: int, content: object, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()


def status(code: int, **headers: str):
    """Answer with this status."""

    def fault(handler) -> bool:
        handler.reply(code, {"kind": "Status", "code": code, "message": f"told to say {code}"}, **headers)
        return True

    return fault


def hang_up(handler) -> bool:
    """Close without a word."""
    handler.close_connection = True
    return True


def lines(*said: bytes, then_close: bool = True):
    """A watch that says exactly this."""

    def fault(handler) -> bool:
        handler.begin_chunks()
        for line in said:
            handler.chunk(line)
        if then_close:
            handler.close_connection = True
        return True

    return fault


def ended_at_once(handler) -> bool:
    """A watch that the server ends properly, with nothing said."""
    handler.begin_chunks()
    handler.chunk(b"")
    return True


def slow(seconds: float):
    """Answer rightly, but late."""

    def fault(handler) -> bool:
        time.sleep(seconds)
        return False

    return fault


def endless_line(handler) -> bool:
    handler.begin_chunks()
    while True:
        handler.chunk(b"x" * 1_000_000)


def api_node(name: str, cpu: str = "8", zone: str = "z1", **spec: object) -> dict:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def api_pod(name: str, node: str = "", app: str = "", phase: str = "", namespace: str = "shop", **changes) -> dict:
    requests = {"cpu": changes.get("cpu", "500m"), "memory": changes.get("memory", "256Mi")}
    if "gpus" in changes:
        requests["nvidia.com/gpu"] = changes["gpus"]
    owners = [{"kind": "ReplicaSet", "name": f"{app}-5d4f", "controller": True}] if app else []
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": changes.get("uid", f"uid-{namespace}-{name}"),
            "labels": {"pod-template-hash": "5d4f"} if app else {},
            "annotations": changes.get("annotations", {}),
            "ownerReferences": owners,
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            "schedulingGates": changes.get("gates", []),
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }

"""What a pod costs the sidecar, in CPU by thread: ``python -m benchmarks.throughput.cpu --nodes 100 --pods 600``.

Beside kube-scheduler all parts share the cores, so what counts is the processor time of every thread for a pod, not how
long an answer takes. Here the sidecar alone is real. An API server and a Prometheus made of numbers tell it for each
pod what the real ones tell it (new, bound, running), and it is asked as kube-scheduler asks: filter, then prioritize.
The extender that answers with a constant is asked the same in turn: where others use the machine both take longer, and
their ratio says what a time alone does not. ``--profile FILE`` samples the sidecar with py-spy, if that is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import typer

from benchmarks.extender.client import HOST, Connection, a_get, ask_once, free_port, running, wait_until_ready
from benchmarks.watched.server import Object, WatchedCluster, a_pod

WARM_UP = 60
PODS_PER_S = 150.0
LEAST_SHOWN_MS = 0.005
MEASURED = {  # part of a query -> bytes, cores or bytes a second of one node
    "node_cpu_seconds_total": 4.0,
    "MemTotal": 2.0**34,
    "node_network_speed_bytes": 1.25e9,
    "node_network": 2e7,
    "CurrEstab": 50.0,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=100)
    options.add_argument("--offered", type=int, default=0, help="nodes that kube-scheduler asks about; 0: as it does")
    options.add_argument("--pods", type=int, default=600)
    options.add_argument("--profile", default="", help="file for a flame graph by py-spy")
    given = options.parse_args()
    measure(given.nodes, given.offered or offered_of(given.nodes), given.pods, given.profile)


def offered_of(nodes: int) -> int:
    """kube-scheduler's ``numFeasibleNodesToFind``."""
    share = max(50 - nodes // 125, 5)
    return nodes if nodes <= 100 else max(nodes * share // 100, 100)


def measure(nodes: int, offered: int, pods: int, profile: str) -> None:
    names = [f"node-{index:04d}" for index in range(nodes)]
    prometheus = ThreadingHTTPServer((HOST, 0), _prometheus(names))
    threading.Thread(target=prometheus.serve_forever, args=(0.05,), daemon=True).start()
    port = free_port()
    with (
        WatchedCluster(nodes, 0) as cluster,
        TemporaryDirectory() as folder,
        running("constant", nodes) as (constant, constant_port),
    ):
        process = _start(cluster.url, f"http://{HOST}:{prometheus.server_port}", port, Path(folder))
        try:
            wait_until_ready(process, port)
            _wait_for_metrics(port)
            driver = _Driver(cluster, [Connection(constant_port), Connection(port)], names, offered)
            driver.pods(0, WARM_UP)
            looking = _spy(process.pid, profile)
            before, constant_before = _threads_s(process.pid), _threads_s(constant.pid)
            driver.pods(WARM_UP, WARM_UP + pods)
            after, constant_after = _threads_s(process.pid), _threads_s(constant.pid)
            constant_ms = 1000.0 * (sum(constant_after.values()) - sum(constant_before.values())) / pods
            spent_ms = {task: 1000.0 * (after[task] - before.get(task, 0.0)) / pods for task in after}
            _tell(process.pid, spent_ms, constant_ms, driver.last_source(port))
            if looking is not None:
                looking.wait()
        finally:
            process.terminate()
            process.wait()


class _Driver:
    def __init__(self, cluster: WatchedCluster, asked: list[Connection], names: list[str], offered: int) -> None:
        self._cluster, self._asked, self._names, self._offered = cluster, asked, names, offered

    def pods(self, first: int, last: int) -> None:
        for number in range(first, last):
            self._cluster.say("pods", "ADDED", _pod(number, ""))
        began_s = time.monotonic()
        for number in range(first, last):
            time.sleep(max(began_s + (number - first) / PODS_PER_S - time.monotonic(), 0.0))
            node = self._choice(number)
            self._cluster.say("pods", "MODIFIED", _pod(number, node))
            running = _pod(number, node)
            running["status"] = {"phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z"}
            self._cluster.say("pods", "MODIFIED", running)
        time.sleep(0.3)

    def _choice(self, number: int) -> str:
        first = number * 7 % len(self._names)
        names = (self._names[first:] + self._names[:first])[: self._offered]
        body = json.dumps({"Pod": _pod(number, ""), "Nodes": None, "NodeNames": names}).encode()
        for connection in self._asked:
            assert json.loads(connection.ask(_call("filter", body))[1])["NodeNames"] == names
            answer = json.loads(connection.ask(_call("prioritize", body))[1])
        best: str = max(answer, key=lambda each: each["Score"])["Host"]
        return best

    def last_source(self, port: int) -> str:
        noted = json.loads(ask_once(port, a_get("/v1/decisions?limit=1")))["decisions"][0]
        return f"{noted['source']}, {noted['candidates']} candidates, {noted['reason']}"


def _pod(number: int, node: str) -> Object:
    pod = a_pod(number, node)
    pod["status"] = {"phase": "Pending"}
    return pod


def _call(verb: str, body: bytes) -> bytes:
    head = f"POST /extender/{verb} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: Go-http-client/1.1\r\n"
    head += f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    return head.encode() + body


def _start(api: str, prometheus: str, port: int, folder: Path) -> subprocess.Popen[bytes]:
    context = {"name": "bench", "context": {"cluster": "bench", "user": "bench"}}
    cluster = {"name": "bench", "cluster": {"server": api}}
    content = {"current-context": "bench", "contexts": [context], "clusters": [cluster]}
    (folder / "kubeconfig").write_text(json.dumps(content | {"users": [{"name": "bench", "user": {}}]}))
    given = {
        "PILOTFISH_CLUSTER__SOURCE": "kubernetes",
        "PILOTFISH_CLUSTER__KUBECONFIG": str(folder / "kubeconfig"),
        "PILOTFISH_PROMETHEUS__ADDRESS": prometheus,
    }
    return subprocess.Popen([sys.executable, "-m", "pilotfish", "serve", "--port", str(port)], env=os.environ | given)


def _wait_for_metrics(port: int) -> None:
    until_s = time.monotonic() + 60.0
    while time.monotonic() < until_s:
        if all(node["rx_mbps"] is not None for node in json.loads(ask_once(port, a_get("/v1/state")))["nodes"]):
            return
        time.sleep(0.2)
    raise SystemExit("the sidecar has no metrics")


def _threads_s(pid: int) -> dict[str, float]:
    """Processor time of each thread, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task")
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks.iterdir()}


def _tell(pid: int, spent_ms: dict[str, float], constant_ms: float, source: str) -> None:
    total_ms, names = sum(spent_ms.values()), _names(pid)
    ratio = total_ms / constant_ms
    typer.echo(f"CPU ms a pod: {total_ms:.3f} in all, {ratio:.2f} of the constant's {constant_ms:.3f}; by {source}")
    for task, ms in sorted(spent_ms.items(), key=lambda item: -item[1]):
        if ms >= LEAST_SHOWN_MS:
            typer.echo(f"  {ms:7.3f}  {names.get(task, '?')}")


def _names(pid: int) -> dict[str, str]:
    """Names of Python's threads, where py-spy is there to tell."""
    spy = Path(sys.executable).with_name("py-spy")
    if not spy.exists():
        return {str(pid): "MainThread"}
    shown = subprocess.run([spy, "dump", "--pid", str(pid), "--json"], capture_output=True, text=True, check=False)
    threads = json.loads(shown.stdout or "[]")
    return {str(each["os_thread_id"]): str(each["thread_name"]) for each in threads}


def _spy(pid: int, profile: str) -> subprocess.Popen[bytes] | None:
    if not profile:
        return None
    command = [str(Path(sys.executable).with_name("py-spy")), "record", "--pid", str(pid), "-o", profile]
    return subprocess.Popen([*command, "-d", "8", "-r", "500", "-t", "-f", "raw"])


def _prometheus(names: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            found = [] if "container_" in query else [_series(query, name, place) for place, name in enumerate(names)]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _series(query: str, name: str, place: int) -> dict[str, Any]:
    share = 0.2 + 0.5 * (place * 37 % 101) / 101
    full = next((value for part, value in MEASURED.items() if part in query), 1.0)
    value = time.time() - 2.0 if "timestamp" in query else full * share
    labels = {"node": name} | ({"__name__": "node_memory_MemTotal_bytes"} if "__name__" in query else {})
    return {"metric": labels, "value": [time.time(), str(value)]}


if __name__ == "__main__":
    main()

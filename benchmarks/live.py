"""``pilotfish benchmark live``: the sidecar over a watched cluster of 1,000 nodes and 30,000 pods.

A process of its own, with the released model; the cluster is ``benchmarks.watched``. A change counts as
seen when an answer to a score request shows it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bars import Bar, measured
from benchmarks.watched.server import WatchedCluster, a_node, a_pod

NODES, PODS = 1000, 30_000
QUICK_NODES, QUICK_PODS = 50, 1000
CHANGES = 10
GIVE_UP_AFTER_S = 120.0
STORM = 2000  # events while the memory is measured again


def run(quick: bool, traces: Path | None) -> Iterator[Bar]:
    nodes, pods = (QUICK_NODES, QUICK_PODS) if quick else (NODES, PODS)
    with WatchedCluster(nodes, pods) as cluster, _sidecar(cluster.url) as (port, process, began_s):
        _until(lambda: _get(port, "/readyz") is not None, process)
        started = {"ready_after_s": round(time.monotonic() - began_s, 2), "cpu_s": round(_cpu_s(process), 2)}
        beside = {"nodes": nodes, "pods": pods, "pod_bytes": cluster.pod_bytes, **started}
        seen_s = [_seen_after_s(cluster, port, process, index) for index in range(CHANGES)]
        yield measured("live_change_visible_s", max(seen_s), median_s=round(median(seen_s), 3), changes=CHANGES)
        for index in range(STORM):
            cluster.say("pods", "MODIFIED", a_pod(index % pods, f"node-{index % nodes:04d}", cpu="110m"))
        _seen_after_s(cluster, port, process, CHANGES)  # all that was said before is worked off by then
        yield measured("live_memory_mb", _memory_mb(process, "VmRSS"), peak=_memory_mb(process, "VmHWM"), **beside)


def _seen_after_s(cluster: WatchedCluster, port: int, process: subprocess.Popen[bytes], index: int) -> float:
    """A node is cordoned, or the other way round: from the API server's word to the answer that knows it."""
    name = f"node-{index:04d}"
    body = json.dumps({"requirements": {"cpu": "1"}, "nodes": [name]}).encode()
    cluster.say("nodes", "MODIFIED", a_node(index, unschedulable=True))
    began_s = time.monotonic()
    _until(lambda: name in (_get(port, "/v1/score", body) or {}).get("filtered", {}), process)
    return time.monotonic() - began_s


@contextmanager
def _sidecar(url: str) -> Iterator[tuple[int, subprocess.Popen[bytes], float]]:
    with TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        config = Path(folder) / "kubeconfig"
        config.write_text(_kubeconfig(url))
        given = {"PILOTFISH_CLUSTER__SOURCE": "kubernetes", "PILOTFISH_CLUSTER__KUBECONFIG": str(config)}
        given["PILOTFISH_CLUSTER__METRICS"] = "none"
        command = [sys.executable, "-m", "pilotfish", "serve", "--port", str(port)]
        began_s = time.monotonic()
        process = subprocess.Popen(command, env=os.environ | given, stderr=subprocess.DEVNULL)
        try:
            yield port, process, began_s
        finally:
            process.terminate()
            process.wait()


def _kubeconfig(url: str) -> str:
    context = {"name": "bench", "context": {"cluster": "bench", "user": "bench"}}
    return json.dumps(
        {
            "current-context": "bench",
            "contexts": [context],
            "clusters": [{"name": "bench", "cluster": {"server": url}}],
            "users": [{"name": "bench", "user": {}}],
        }
    )


def _until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + GIVE_UP_AFTER_S
    while not holds():
        if time.monotonic() > until_s or process.poll() is not None:
            raise RuntimeError("the sidecar ended or never came so far")
        time.sleep(0.005)


def _get(port: int, path: str, body: bytes | None = None) -> Any:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, timeout=10) as reply:
            return json.load(reply)
    except (urllib.error.URLError, ConnectionError):
        return None  # not listening, or not ready


def _memory_mb(process: subprocess.Popen[bytes], field: str) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return round(int(line.split()[1]) / 1024, 1)
    return float("nan")


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Time on a processor: what is left of a start when nobody else is busy."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

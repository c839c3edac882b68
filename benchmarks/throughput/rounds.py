"""One round: pods that wait, then a scheduler that starts, and the time from the first binding to the last.

A binding is work for others for some seconds (KWOK starts the pod, its status is written and sent around). The faster a
form is, the more of that it leaves for later, so the time until the last pod runs is taken, too.

The pods are there before the scheduler is, so how fast they are created plays no part. Every round has a scheduler,
and where it needs one a sidecar, of its own.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx

from benchmarks.throughput.bindings import Bindings
from benchmarks.throughput.forms import Beside, beside
from tests.cluster.api import Object, eventually
from tests.cluster.apiserver import LOOPBACK, ApiServer
from tests.cluster.controllers import start_scheduler
from tests.cluster.objects import NODES, a_node, a_pod, usable_nodes
from tests.cluster.processes import Daemon

CREATORS = 8
BOUND_WITHIN_S = 180.0
RUNNING_WITHIN_S = 120.0
GONE_WITHIN_S = 60.0
AT_REST_CORES, AT_REST_WITHIN_S, LOOK_S = 0.3, 60.0, 1.0
ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"
POLICY = "policy"


@dataclass(frozen=True)
class Round:
    nodes: int
    form: str
    pods: int
    pods_per_s: float  # from the first binding to the last
    running_per_s: float  # from the first binding until the last pod runs
    left_share: float  # of the pods that did not run when the last one was bound
    algorithm_ms: float  # kube-scheduler's own word: from a pod's turn until its node is chosen, the mean
    scheduler_cpu_ms: float  # a pod
    beside_cpu_ms: float  # a pod, of the extender
    others_cpu_ms: dict[str, float]  # a pod, of the API server, etcd and all else of the cluster, by name
    candidates: float | None = None  # nodes that the sidecar was asked about, a pod
    policy_share: float | None = None  # of the sidecar's answers


def median_others_ms(same: Sequence[Round]) -> dict[str, float]:
    """What each of the other parts spent on a pod."""
    return {name: median(each.others_cpu_ms[name] for each in same) for name in same[0].others_cpu_ms}


def a_round(cluster: ApiServer, namespace: str, nodes: int, form: str, pods: int, prometheus: str) -> Round:
    path = f"/api/v1/namespaces/{namespace}/pods"
    with beside(form, cluster, prometheus) as extender:
        names = [f"pod-{index:05}" for index in range(pods)]
        create_all(cluster, path, map(a_pod, names))
        eventually(lambda: _busy_cores(cluster) < AT_REST_CORES, "the control plane at rest", AT_REST_WITHIN_S)
        bindings = Bindings(cluster, namespace)
        bindings.start()
        try:
            return _timed(cluster, bindings, extender, nodes, form, pods)
        finally:
            bindings.stop()
            delete_all(cluster, path, names)
            eventually(
                lambda: not cluster.admin.get(path, limit="1")["items"], "the pods of a round gone", GONE_WITHIN_S
            )


def _timed(cluster: ApiServer, bindings: Bindings, extender: Beside, nodes: int, form: str, pods: int) -> Round:
    others = [each for each in cluster.processes.daemons if each is not extender.daemon]
    before_s, others_before_s = _cpu_s(extender.daemon), [_cpu_s(each) for each in others]
    scheduler = start_scheduler(cluster, **extender.configuration)
    try:
        bindings.wait_until_bound(pods, BOUND_WITHIN_S)
        scheduler_s, beside_s = _cpu_s(scheduler), _cpu_s(extender.daemon) - before_s
        others_s = [_cpu_s(each) - since_s for each, since_s in zip(others, others_before_s, strict=True)]
        algorithm_ms = _mean_ms(cluster, scheduler, ALGORITHM)
        bindings.wait_until_running(pods, RUNNING_WITHIN_S)
    finally:
        cluster.processes.stop(scheduler)
    candidates, policy_share = _answers(extender)
    return Round(
        nodes,
        form,
        pods,
        bindings.pods_per_s(),
        bindings.running_per_s(),
        bindings.left_share(),
        algorithm_ms,
        1000.0 * scheduler_s / pods,
        1000.0 * beside_s / pods,
        {each.name: 1000.0 * spent_s / pods for each, spent_s in zip(others, others_s, strict=True)},
        candidates,
        policy_share,
    )


def add_nodes(cluster: ApiServer, names: Sequence[str]) -> None:
    """KWOK makes them Ready; a node that a scheduler may not use yet would be missing in the first round."""
    create_all(cluster, NODES, (a_node(name, zone="abc"[index % 3]) for index, name in enumerate(names)))
    eventually(lambda: set(names) <= usable_nodes(cluster.admin), f"{len(names)} nodes Ready", 180.0, every_s=1.0)


def create_all(cluster: ApiServer, path: str, objects: Iterable[Object]) -> None:
    with ThreadPoolExecutor(CREATORS) as creators:
        list(creators.map(lambda one: cluster.admin.create(path, one), objects))


def delete_all(cluster: ApiServer, path: str, names: Sequence[str]) -> None:
    """One by one: thousands in one call take the API server longer than anybody waits for an answer."""
    with ThreadPoolExecutor(CREATORS) as creators:
        list(creators.map(lambda name: cluster.admin.delete(f"{path}/{name}", gracePeriodSeconds="0"), names))


def _busy_cores(cluster: ApiServer) -> float:
    """What all parts use: after thousands of pods were deleted and created they have work left that no round began."""
    began_s, before_s = time.monotonic(), sum(map(_cpu_s, cluster.processes.daemons))
    time.sleep(LOOK_S)
    return (sum(map(_cpu_s, cluster.processes.daemons)) - before_s) / (time.monotonic() - began_s)


def _answers(extender: Beside) -> tuple[float | None, float | None]:
    if extender.sidecar is None:
        return None, None
    decisions = extender.sidecar.decisions()
    by_policy = sum(each["source"] == POLICY for each in decisions)
    return median(each["candidates"] for each in decisions), by_policy / len(decisions)


def _mean_ms(cluster: ApiServer, scheduler: Daemon, metric: str) -> float:
    """The mean of a histogram that kube-scheduler keeps."""
    port = next(str(word) for word in scheduler.process.args if str(word).startswith("--secure-port="))  # type: ignore[union-attr]
    trust = ssl.create_default_context(cafile=str(cluster.authority.certificate))
    shown = httpx.get(f"https://{LOOPBACK}:{port.partition('=')[2]}/metrics", verify=trust, trust_env=False).text
    lines = [line.split() for line in shown.splitlines() if line.startswith(metric)]
    values = {words[0]: float(words[1]) for words in lines if len(words) == 2}
    return 1000.0 * values[f"{metric}_sum"] / values[f"{metric}_count"]


def _cpu_s(daemon: Daemon | None) -> float:
    if daemon is None:
        return 0.0
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

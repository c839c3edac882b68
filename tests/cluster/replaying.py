"""A tape, replayed on a real control plane: its pods are created when they arrive and deleted when their time is over.

Who places them is not decided here. The loop is closed: bindings are read from the API server, the exporter shows what
they did to the nodes, Prometheus scrapes it, and whoever reads Prometheus decides by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from envs.dynamics.cluster import Cluster
from envs.workloads.tape import Tape
from tests.cluster.api import eventually
from tests.cluster.apiserver import ApiServer
from tests.cluster.following import FollowingExporter
from tests.cluster.objects import NODES, create_nodes, create_pods
from tests.cluster.scraping import Prometheus, start_prometheus
from tests.cluster.tape_objects import node_of, pod_of, service_of
from tests.cluster.truth import Truth

Event = tuple[float, Callable[[], object]]  # seconds of the tape, and what happens then

POLL_S = 0.01
CREATED_AT_ONCE = 16  # as a controller does it: its batches double while all goes well
LAST_WITHIN_S = 5.0
SCRAPED = "rate(node_network_receive_bytes_total[{window_ms}ms])"


@dataclass(frozen=True)
class Replay:
    """A cluster that is full of the tape's first pods, with metrics, and waits for a scheduler."""

    cluster: ApiServer
    tape: Tape
    speed: float
    namespace: str
    annotated: bool
    exporter: FollowingExporter
    prometheus: Prometheus
    created_at_s: dict[int, float] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)  # on the wall's clock

    def scaled_s(self, seconds: float) -> float:
        """Seconds of the tape on the wall's clock."""
        return seconds / self.speed

    def wait_for_metrics(self) -> None:
        """Until every rate covers its window: the pods that run already are no news then."""
        window_s = self.scaled_s(float(self.tape.rate_window_s))
        query = SCRAPED.format(window_ms=round(window_s * 1000))
        nodes = self.tape.node_slots
        eventually(lambda: len(self.prometheus.values(query)) == nodes, "every node scraped twice", 60.0)
        time.sleep(window_s)

    def run(self, events: Sequence[Event] = ()) -> None:
        """The whole tape, by the clock of the truth: on a machine that is too slow everything is late alike.

        Pods are created and events come in threads of their own: nobody waits for another. One that fails fails the
        replay.
        """
        happened: list[Future[object]] = []

        def in_threads(due: Sequence[Event], threads: ThreadPoolExecutor) -> list[Event]:
            return [(at_s, lambda act=act: happened.append(threads.submit(act))) for at_s, act in due]

        with ThreadPoolExecutor(CREATED_AT_ONCE) as creators, ThreadPoolExecutor(len(events) or 1) as others:
            self._play([*in_threads(self._arrivals(), creators), *in_threads(events, others)])
        self._wait_for_the_last()
        for event in happened:
            event.result()

    def _play(self, events: Sequence[Event]) -> None:
        began_s = time.monotonic()
        self.exporter.truth.begun = True
        for at_s, act in sorted(events, key=lambda due: due[0]):
            self._until(at_s)
            act()
        self._until(float(self.tape.horizon_s))
        self.took_s.append(time.monotonic() - began_s)

    def _wait_for_the_last(self) -> None:
        """Pods that came with the end get the time that others had; all of them have been created by now."""
        until_s = time.monotonic() + LAST_WITHIN_S
        while time.monotonic() < until_s and not self.created_at_s.keys() <= self.exporter.nodes.keys():
            time.sleep(POLL_S)

    def _arrivals(self) -> list[Event]:
        return [(float(self.tape.pod_arrival_s[pod]), partial(self._create, pod)) for pod in arriving(self.tape)]

    def _create(self, pod: int) -> None:
        self.created_at_s[pod] = time.monotonic()
        create_pods(self.cluster.admin, self.namespace, [pod_of(self.tape, pod, self.annotated)])

    def _until(self, at_s: float) -> None:
        while self.exporter.truth.clock_s < at_s:
            time.sleep(POLL_S)

    def pending_s(self) -> list[float]:
        """Of every pod that was bound: from its creation to the API server's word, on the wall's clock."""
        bound = self.exporter.bound_at_s
        return [bound[pod] - created_s for pod, created_s in self.created_at_s.items() if pod in bound]


def arriving(tape: Tape) -> list[int]:
    """The pods that somebody has to place."""
    return [
        pod
        for pod in range(tape.pod_slots)
        if not tape.pod_initial[pod] and float(tape.pod_arrival_s[pod]) < float(tape.horizon_s)
    ]


def first_placements(tape: Tape) -> dict[int, int]:
    """Where the simulator puts the pods that run already."""
    cluster, where = Cluster(tape), {}
    for pod in range(tape.pod_slots):
        node = cluster.first_accepting(pod) if tape.pod_initial[pod] else None
        if node is not None:
            cluster.place(pod, node, 0.0)
            where[pod] = node
    return where


@contextmanager
def replaying(cluster: ApiServer, tape: Tape, speed: float, namespace: str, annotated: bool = True) -> Iterator[Replay]:
    """Everything but a scheduler; all of it is gone afterwards."""
    admin = cluster.admin
    cluster.create_namespace(namespace)
    names = create_nodes(admin, (node_of(tape, node) for node in range(tape.node_slots)))
    for app in range(tape.app_slots):
        admin.create(f"/api/v1/namespaces/{namespace}/services", service_of(f"app-{app:02d}"))
    create_pods(admin, namespace, (pod_of(tape, pod, annotated, at) for pod, at in first_placements(tape).items()))
    exporter = FollowingExporter(Truth(tape, speed, namespace, begun=False), admin, namespace)
    exporter.start()
    interval_s = float(tape.scrape_interval_s) / speed
    prometheus = start_prometheus(cluster.processes, exporter.address, names, interval_s)
    try:
        yield Replay(cluster, tape, speed, namespace, annotated, exporter, prometheus)
    finally:
        exporter.stop()
        cluster.processes.stop(prometheus.daemon)
        _clean_up(cluster, namespace)


def _clean_up(cluster: ApiServer, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.admin.delete(pods, gracePeriodSeconds="0")
    eventually(lambda: not cluster.admin.get(pods)["items"], f"no pod left in {namespace}")
    cluster.admin.delete(NODES)
    cluster.admin.delete(f"/api/v1/namespaces/{namespace}")

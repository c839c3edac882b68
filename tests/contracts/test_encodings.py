"""A sidecar beside a cluster sees what the simulator says it sees: else it was trained for another world.

One tape is played in the readable simulator. Beside it the sidecar's own parts are told what a watch and a Prometheus
would tell them: pods that wait, run and are gone, bindings some decisions late, metrics as they are published. At every
decision both encode the same pod for the same candidates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agent.assumed import Assumed, expected_of, requests_of
from agent.cluster import Demand, Pod
from agent.demand import ObservedDemand, demand_of
from agent.features import NODE_FEATURES, POD_FEATURES, encode
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from envs.dynamics.world import World
from envs.live.assembling import MEASURED, ZoneRtt
from envs.live.cluster import LiveCluster
from envs.live.ledger import Ledger, PodRow
from envs.live.metrics import LiveMetrics, NoMetrics, Reading
from envs.live.placements import AssumedPlacements
from envs.live.snapshot import Snapshot
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape
from serving.embedded import NAMESPACE, app_name, nodes_of, snapshot_of

RTT = ZoneRtt(within_ms=0.1, between_ms=1.0)
DECISIONS = 250
EQUAL = 1e-4
# By who came and went: the sidecar keeps what it expected of a pod when the watch showed it come or gone, the simulator
# what it expected when it placed the pod, or expects by now of one that left.
CORRECTED = {
    "cpu_expected_ratio",
    "memory_expected_ratio",
    "rx_expected_ratio",
    "tx_expected_ratio",
    "cpu_hot",
    "memory_hot",
    "network_hot",
    "worst_expected_ratio",
    "pending_pods",
    "mean_cpu_expected",
    "mean_network_expected",
}


class Sidecar:
    """Its watch, metrics, assumed placements and snapshots, told of a simulated world."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.ledger, self.nodes = tape, Ledger(), nodes_of(tape)
        self.now_s = 0.0
        self.assumed = Assumed(provisional_s=600.0, bound_s=600.0, window_s=float(tape.rate_window_s))
        self.metrics = GivenMetrics()
        self.placements = Placements(self.assumed, self.clock)
        self.cluster = LiveCluster(self.ledger, [], self.metrics, RTT, self.clock, self.clock, [self.placements])
        for node in self.nodes:
            self.ledger.set_node(node)

    def clock(self) -> float:
        return self.now_s

    def look(self, world: World) -> Snapshot:
        """What the watch and the metrics have shown by now; what the pods use is taken from the simulator."""
        self.now_s = world.clock_s
        observed = snapshot_of(world, self.nodes, self.now_s).observed
        self.placements.observed = observed
        shown = {
            each.pod: each.node for each in world.running if each.visible_at < world.decisions or each.bound_at_s < 0
        }
        placed = {each.pod for each in world.running} - shown.keys()  # the watch still shows them waiting
        waiting = dict.fromkeys({each.pod for each in world.waiting if each.since_s < world.clock_s} | placed)
        there = {("default", name_of(pod)) for pod in (*shown, *waiting)}
        for name in [name for name in self.ledger.pods if name not in there]:
            self.ledger.remove_pod(name)
        for pod, node in {**waiting, **shown}.items():
            self._show(pod, "" if node is None else self.nodes.names[node], news=self.cluster.snapshot() is not None)
        self.metrics.given = self._metrics(world)
        self.cluster._publish()
        snapshot = self.cluster.snapshot()
        assert snapshot is not None
        return replace(snapshot, observed=observed)

    def demand(self, world: World, snapshot: Snapshot) -> tuple[Demand, Pod]:
        pod = pod_of(self.tape, world.pod)
        state = snapshot.state_at(self.now_s, self.assumed, without_uid=pod.uid)
        siblings, queue = snapshot.siblings_of(pod, self.assumed), snapshot.queue_with(pod, self.assumed)
        return demand_of(pod, snapshot.observed, state, siblings, queue), pod

    def _show(self, pod: int, node: str, news: bool) -> None:
        as_pod = pod_of(self.tape, pod)
        row = PodRow(
            as_pod.uid, node, as_pod.app, as_pod.cpu_request_millicores, as_pod.memory_request_bytes, 0, False, False
        )
        name = (as_pod.namespace, as_pod.name)
        is_news = news and bool(node) and not self.ledger.has_bound(name, row)
        self.ledger.set_pod(name, row, as_pod if is_news else None)

    def _metrics(self, world: World) -> LiveMetrics:
        known = world.knowledge
        columns = {
            column: {
                name: Reading(float(value), float(sampled_at_s))
                for name, value, sampled_at_s in zip(
                    self.nodes.names, getattr(known, column), known.sampled_at_s, strict=True
                )
                if np.isfinite(value)
            }
            for column in MEASURED
        }
        return LiveMetrics(columns)


class Watched(World):
    """Told to a sidecar tick by tick."""

    sidecar: Sidecar | None = None

    def _advance(self) -> None:
        super()._advance()
        if self.sidecar is not None:
            self.sidecar.look(self)


class Placements(AssumedPlacements):
    """With what the pods use, which the simulator says instead of Prometheus."""

    observed = ObservedDemand()

    def on_bound(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        super().on_bound(pod, node, replace(snapshot, observed=self.observed))

    def on_gone(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        super().on_gone(pod, node, replace(snapshot, observed=self.observed))


class GivenMetrics(NoMetrics):
    given = LiveMetrics()

    def newest(self) -> LiveMetrics:
        return self.given


def name_of(pod: int) -> str:
    return f"pod-{pod:05d}"


def pod_of(tape: Tape, pod: int) -> Pod:
    annotated = float(tape.pod_annotated_mbps[pod])
    soft_ms = float(tape.pod_latency_soft_ms[pod])
    return Pod(
        uid=name_of(pod),
        name=name_of(pod),
        namespace=NAMESPACE,
        app=app_name(int(tape.pod_app[pod])) if tape.pod_labelled[pod] else "",
        cpu_request_millicores=int(tape.pod_cpu_request_millicores[pod]),
        memory_request_bytes=int(tape.pod_memory_request_mib[pod]) * 2**20,
        annotations={} if np.isnan(annotated) else {"pilotfish.io/network-mbps": f"{annotated:.6f}"},
        latency_soft_ms=None if np.isnan(soft_ms) else soft_ms,
    )


def the_tape(scenario: str) -> Tape:
    tape = make_tape(load_scenario(scenario), 5, 3)
    zones = tape.zone_slots
    return replace(tape, zone_rtt_ms=RTT.table(zones), app_sibling_declared=np.zeros_like(tape.app_sibling_declared))


@pytest.mark.parametrize("scenario", ["bursts", "edge"])
def test_simulated_and_live_encodings_of_one_cluster_agree(scenario):
    tape = the_tape(scenario)
    world, sidecar, rule = Watched(tape), Sidecar(tape), ExpectedUtilisation()
    world.sidecar = sidecar
    apart = {name: [] for name in (*NODE_FEATURES, *POD_FEATURES)}
    for _ in range(DECISIONS):
        snapshot, mask = sidecar.look(world), world.candidates()
        demand, pod = sidecar.demand(world, snapshot)
        state = snapshot.state_at(sidecar.now_s, sidecar.assumed, without_uid=pod.uid)
        live, simulated = encode(state, demand, mask), encode(world.state(), world.demand(), mask)
        for column, name in enumerate(NODE_FEATURES):
            apart[name].append(np.abs(live.nodes[mask][:, column] - simulated.nodes[mask][:, column]).max())
        for column, name in enumerate(POD_FEATURES):
            apart[name].append(abs(live.pod[column] - simulated.pod[column]))
        values = rule.score(world.state(), world.demand(), mask)
        best = int(np.argmax(np.where(mask, np.nan_to_num(values, nan=-np.inf), -np.inf)))
        sidecar.assumed.assume(
            pod.uid, sidecar.nodes.names[best], requests_of(demand), expected_of(demand), sidecar.now_s, pod.app_key
        )
        world.step(best)
    largest = {name: float(np.max(each)) for name, each in apart.items()}
    assert {name: far for name, far in largest.items() if far > EQUAL and name not in CORRECTED} == {}
    assert max(largest[name] for name in CORRECTED) < 0.1
    assert max(float(np.mean(apart[name])) for name in CORRECTED) < 0.03

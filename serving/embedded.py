"""A simulated cluster inside the sidecar, in real time: something to score before there is a cluster.

Pods arrive, are decided by the same ``Decider`` that answers requests, run and end; when an episode is over the next
one begins. Requests see what a sidecar beside this cluster could know, never the simulated truth.
"""

from __future__ import annotations

import itertools
import logging

from agent.breaker import Clock
from agent.cluster import Node, Pod
from agent.demand import ObservedDemand, Use
from agent.feasibility import BYTES_PER_MIB
from agent.nodetable import NodeTable
from envs.dynamics.world import World
from envs.live.background import BackgroundThread
from envs.live.snapshot import Snapshot
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape
from serving.decide import Decider
from serving.settings import SimulationSettings

logger = logging.getLogger(__name__)

NAMESPACE = "default"
ZONE_LABEL = "topology.kubernetes.io/zone"
HOST_LABEL = "kubernetes.io/hostname"
RETRY_AFTER_S = 1.0  # an episode that fails at once must not spin
STOP_WITHIN_S = 1.0


class EmbeddedSimulation(BackgroundThread):
    """A ``ClusterSource``: one thread owns the world, requests read the snapshot that it published last."""

    def __init__(self, settings: SimulationSettings, decider: Decider, clock: Clock) -> None:
        super().__init__("simulation", STOP_WITHIN_S)
        self._scenario = load_scenario(settings.scenario)
        self._seed = settings.seed
        self._speed = settings.speed
        self._decider = decider
        self._clock = clock
        self._newest: Snapshot | None = None

    def snapshot(self) -> Snapshot | None:
        return self._newest

    def problems(self) -> tuple[str, ...]:
        return ()

    def _run(self) -> None:
        for episode in itertools.count():
            try:
                self._live_through(episode)
            except Exception:  # the sidecar outlives a defect of the simulator; /readyz tells that the state grows old
                logger.exception("episode %d of %s ended early", episode, self._scenario.name)
                self._stopping.wait(RETRY_AFTER_S)
            if self._stopping.is_set():
                return

    def _live_through(self, episode: int) -> None:
        tape = make_tape(self._scenario, self._seed, episode)
        world, nodes = World(tape), nodes_of(tape)
        logger.info("simulating %s, episode %d: %d nodes", self._scenario.name, episode, len(nodes))
        began_at_s = self._clock() - world.clock_s / self._speed
        while not world.done:
            due_in_s = began_at_s + world.clock_s / self._speed - self._clock()
            if self._stopping.wait(max(due_in_s, 0.0)):
                return
            self._newest = snapshot_of(world, nodes, self._clock())
            self._place(world, self._newest, episode)

    def _place(self, world: World, snapshot: Snapshot, episode: int) -> None:
        """One pod: decided, placed, and, as a watch would, told where it really went."""
        pod = pod_of(world, episode)
        decision = self._decider.decide_offered(snapshot, pod, world.demand(), world.candidates())
        if decision.ranking.best is None:
            raise RuntimeError("the world offered a pod without a candidate")
        self._decider.decisions.on_bound(pod.uid, decision.names[world.bound_to(decision.ranking.best)])
        before = {placement.pod for placement in world.running} | {world.pod}
        world.step(decision.ranking.best)
        for gone in before - {placement.pod for placement in world.running}:
            self._decider.decisions.on_ended(uid_of(episode, gone))


def snapshot_of(world: World, nodes: NodeTable, now_s: float) -> Snapshot:
    """What a sidecar beside this world knows now."""
    knowledge = world.knowledge
    apps = range(len(knowledge.app_observed))
    return Snapshot(
        nodes=nodes,
        state=world.state(),
        taken_at_s=now_s,
        observed=ObservedDemand(
            by_app={(NAMESPACE, app_name(app)): Use(*knowledge.app_observed[app].tolist()) for app in apps},
            cluster=Use(*knowledge.cluster_observed.tolist()),
        ),
        pods_by_app={(NAMESPACE, app_name(app)): knowledge.app_pods[app].copy() for app in apps},
        queue_length=world.queue_length(),
    )


def pod_of(world: World, episode: int) -> Pod:
    """The pod that waits for a decision, as the API server would describe it."""
    tape, index = world.tape, world.pod
    app = app_name(int(tape.pod_app[index])) if tape.pod_labelled[index] else ""
    name = f"{app or 'pod'}-{index:05d}"
    return Pod(
        uid=uid_of(episode, index),
        name=name,
        namespace=NAMESPACE,
        app=app,
        cpu_request_millicores=int(tape.pod_cpu_request_millicores[index]),
        memory_request_bytes=int(tape.pod_memory_request_mib[index] * BYTES_PER_MIB),
    )


def uid_of(episode: int, pod: int) -> str:
    return f"simulated-{episode}-{pod}"


def app_name(app: int) -> str:
    return f"app-{app:02d}"


def nodes_of(tape: Tape) -> NodeTable:
    """The nodes of a tape as the API server would describe them."""
    return NodeTable(_node(tape, index) for index in range(tape.node_slots))


def _node(tape: Tape, index: int) -> Node:
    name, zone = f"node-{index:03d}", f"zone-{int(tape.node_zone[index])}"
    nic_mbps = float(tape.node_nic_mbps[index]) if tape.node_nic_known[index] else None
    return Node(
        name=name,
        cpu_allocatable_millicores=int(tape.node_cpu_millicores[index]),
        memory_allocatable_bytes=int(tape.node_memory_mib[index]) * BYTES_PER_MIB,
        pods_allocatable=int(tape.node_pods[index]),
        gpus=int(tape.node_gpus[index]),
        zone=zone,
        labels={HOST_LABEL: name, ZONE_LABEL: zone},
        nic_mbps=nic_mbps,
        user_latency_ms=float(tape.node_user_latency_ms[index]),
        price_usd_per_hour=float(tape.node_price_usd_per_hour[index]),
        power_idle_watts=float(tape.node_power_idle_watts[index]),
        power_peak_watts=float(tape.node_power_peak_watts[index]),
    )

"""Who schedules in the closed loop: each arm starts what it needs beside a replay, and knows its simulated likeness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent.heuristics.registry import scorer_by_name
from agent.ladder import Ladder
from agent.scorer import Scorer
from benchmarks.closed_loop.outcome import Outcome
from benchmarks.closed_loop.simulated import BesidePlugin, InTree, ladder_of
from tests.cluster.api import eventually
from tests.cluster.controllers import start_scheduler
from tests.cluster.peers import start_network_overhead, start_target_load_packing
from tests.cluster.processes import Daemon
from tests.cluster.replaying import Event, Replay
from tests.cluster.sidecar import Sidecar, configuration_beside, start_sidecar
from tests.cluster.tape_objects import node_name, pod_name

KILLED_AT = 0.5  # of the tape
RESTARTED_AFTER_S = 10.0  # on the wall's clock: the first back-off of a kubelet

# What the sidecar counts in seconds, as shipped; the clock of a replay runs faster.
STALE_AFTER_S, BOUND_S = 90.0, 300.0


@dataclass
class Running:
    """What an arm has started."""

    daemons: list[Daemon]
    sidecar: Sidecar | None = None
    events: Sequence[Event] = ()


Start = Callable[[Replay], Running]


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    says: str  # what it is, for a table
    start: Start
    likeness: Callable[[], Scorer | Ladder]
    annotated: bool = True
    knows_every_app: bool = False  # by its Service, as kube-scheduler does; Pilotfish knows labels and owners

    def measured(self, replay: Replay) -> Outcome:
        with _running(self.start, replay) as running:
            replay.wait_for_metrics()
            if running.sidecar is not None:
                _wait_until_seeing(running.sidecar, replay)
            replay.run(running.events)
            return _outcome(replay, running.sidecar)


@contextmanager
def _running(start: Start, replay: Replay) -> Iterator[Running]:
    running = start(replay)
    try:
        yield running
    finally:
        for daemon in running.daemons:
            if daemon in replay.cluster.processes.daemons:
                replay.cluster.processes.stop(daemon)


def _wait_until_seeing(sidecar: Sidecar, replay: Replay) -> None:
    def all_seen() -> bool:
        return sum(node["rx_mbps"] is not None for node in sidecar.state()["nodes"]) == replay.tape.node_slots

    eventually(all_seen, "metrics of every node at the sidecar", 60.0)


def _outcome(replay: Replay, sidecar: Sidecar | None) -> Outcome:
    decisions = sidecar.decisions() if sidecar else []
    last = {each["name"]: each for each in reversed(decisions) if each["namespace"] == replay.namespace}
    tape, nodes = replay.tape, replay.exporter.nodes
    where = {pod_name(tape, pod): node_name(nodes[pod]) for pod in replay.created_at_s if pod in nodes}
    return Outcome(
        meter=replay.exporter.truth.meter,
        node_s=tape.node_slots * float(tape.horizon_s),
        pending_s=replay.pending_s(),
        arrived=len(replay.created_at_s),
        wall_s=sum(replay.took_s),
        first_choices=[last[name]["best"] == node for name, node in where.items() if name in last],
        sources=dict(Counter(each["source"] for each in last.values())),
    )


# --- how each arm starts


def _alone(replay: Replay) -> Running:
    return Running([start_scheduler(replay.cluster)])


def _target_load_packing(replay: Replay) -> Running:
    replay.wait_for_metrics()  # it reads them when it starts, and then once a minute
    return Running([start_target_load_packing(replay.cluster, replay.prometheus.url)])


def _network_overhead(replay: Replay) -> Running:
    return Running([start_network_overhead(replay.cluster, replay.tape, replay.namespace)])


@dataclass(frozen=True, slots=True)
class _Beside:
    """kube-scheduler as ``pilotfish scheduler-config`` configures it, and a sidecar with these settings."""

    settings: dict[str, Any] = field(default_factory=dict)
    killed: bool = False

    def __call__(self, replay: Replay) -> Running:
        sidecar = self._sidecar(replay)
        running = Running([sidecar.daemon], sidecar)
        running.daemons.append(start_scheduler(replay.cluster, **configuration_beside(sidecar)))
        if self.killed:
            middle_s = KILLED_AT * float(replay.tape.horizon_s)
            back_s = middle_s + RESTARTED_AFTER_S * replay.speed
            running.events = [(middle_s, sidecar.daemon.kill), (back_s, lambda: self._again(running, replay))]
        return running

    def _again(self, running: Running, replay: Replay) -> None:
        assert running.sidecar is not None
        running.sidecar = self._sidecar(replay, running.sidecar.port)
        running.daemons.append(running.sidecar.daemon)

    def _sidecar(self, replay: Replay, port: int | None = None) -> Sidecar:
        """Everything that is counted in seconds runs as fast as the tape."""
        window_s = replay.scaled_s(float(replay.tape.rate_window_s))
        interval_s = replay.scaled_s(float(replay.tape.scrape_interval_s))
        return start_sidecar(
            replay.cluster,
            port,
            prometheus__address=replay.prometheus.url,
            prometheus__interval_s=interval_s,
            prometheus__pods_interval_s=interval_s,
            prometheus__window_s=window_s,
            assumed__window_s=window_s,
            assumed__bound_s=replay.scaled_s(BOUND_S),
            ladder__stale_after_s=replay.scaled_s(STALE_AFTER_S),
            **self.settings,
        )


_NO_MODEL = {"model__folder": "none", "model__gpu_folder": "none"}

DEFAULT = Arm("default", "kube-scheduler alone", _alone, InTree, knows_every_app=True)
NETWORK_TRAFFIC = Arm(
    "network_traffic",
    "an extender that scores as the NetworkTraffic plugin does",
    _Beside({**_NO_MODEL, "ladder__heuristic": "network_traffic"}),
    lambda: ladder_of("network_traffic"),
)
FALLBACK = Arm("fallback", "Pilotfish without a model", _Beside(_NO_MODEL), ladder_of)
POLICY = Arm("policy", "Pilotfish with the released model", _Beside(), lambda: ladder_of(with_policy=True))

BAR_ARMS = (DEFAULT, NETWORK_TRAFFIC, FALLBACK, POLICY)  # what the bars compare, and the rung below
OTHER_ARMS = (
    Arm(
        "target_load_packing",
        "scheduler-plugins: Trimaran TargetLoadPacking",
        _target_load_packing,
        lambda: BesidePlugin(scorer_by_name("target_load_packing"), weight=1.0, balanced=False),
        knows_every_app=True,
    ),
    Arm(
        "network_overhead",
        "scheduler-plugins: NetworkOverhead",
        _network_overhead,
        lambda: BesidePlugin(scorer_by_name("network_overhead"), weight=5.0, balanced=True, talkers_only=True),
        knows_every_app=True,
    ),
    Arm(
        "policy_killed",
        "the same, the sidecar killed half-way and back 10 s later",
        _Beside(killed=True),
        POLICY.likeness,
    ),
    Arm(
        "fallback_unannotated", "without a model, no pod annotated", FALLBACK.start, FALLBACK.likeness, annotated=False
    ),
    Arm("policy_unannotated", "with the model, no pod annotated", POLICY.start, POLICY.likeness, annotated=False),
)

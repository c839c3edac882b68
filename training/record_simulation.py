"""A recording as the sidecar would write it, of a simulated cluster: for tests, notebooks and trying things out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from agent.features import SCHEMA_VERSION, STALE_AFTER_S
from agent.scorer import Scorer, held_scores
from envs.dynamics.knowledge import Placement
from envs.watched_world import WatchedWorld
from envs.workloads.recording_building import column, pod_demand, sample_of
from envs.workloads.recording_records import Bound, Decision, Ended, NodeSpec, PodDemand, Record
from envs.workloads.recording_writer import RecordingWriter
from envs.workloads.tape import Tape

STARTED_AT_S = 1_767_225_600.0  # the first moment of 2026: a simulated clock begins at 0, a recording has dates


def record_simulation(tape: Tape, scorer: Scorer, folder: Path, seed: int = 0) -> int:
    """Play the tape to its end and record what a sidecar sees; the number of records written."""
    clock = _Clock()
    writer = RecordingWriter(folder, SCHEMA_VERSION, clock, _node_specs(tape))
    with writer:
        world = _SeenWorld(tape, writer, clock)
        rng = np.random.default_rng(seed)
        while not world.done:
            world.step(world.answer(scorer, rng))
    return writer.written


class _Clock:
    """Unix seconds of the simulated cluster."""

    def __init__(self) -> None:
        self.now_s = STARTED_AT_S

    def __call__(self) -> float:
        return self.now_s


class _SeenWorld(WatchedWorld):
    """A world that writes down what happens in it, as far as a sidecar sees it."""

    def __init__(self, tape: Tape, writer: RecordingWriter, clock: _Clock) -> None:
        self._writer, self._clock = writer, clock
        self._published = 0
        super().__init__(tape)

    def answer(self, scorer: Scorer, rng: np.random.Generator) -> int:
        """The scorer's choice, written down as a decision."""
        state, demand, candidates = self.state(), self.demand(), self.candidates()
        values = held_scores(scorer, state, demand, candidates, STALE_AFTER_S)
        asked = np.flatnonzero(candidates)
        best = asked[values[asked] >= values[asked].max()]
        chosen = int(rng.choice(best))
        self._write(
            Decision(
                at_s=self._clock(),
                pod_uid=_uid(self.pod),
                demand=self._pod_demand(),
                candidates=tuple(_name(node) for node in asked),
                scores=column(values[asked], negative=True),
                source=scorer.name,
                chosen=_name(chosen),
            )
        )
        return chosen

    def _pod_demand(self) -> PodDemand:
        app = f"app-{int(self.tape.pod_app[self.pod])}" if self.tape.pod_labelled[self.pod] else ""
        return pod_demand(self.demand(), "default", app)

    def _decide(self, node: int) -> None:
        super()._decide(node)
        self._write(Bound(at_s=self._clock(), pod_uid=_uid(self.running[-1].pod), node=_name(self.bound_node)))

    def _release(self, placement: Placement) -> None:
        super()._release(placement)
        self._write(Ended(at_s=self._clock(), pod_uid=_uid(placement.pod)))

    def _advance(self) -> None:
        self._clock.now_s = STARTED_AT_S + (self.ticks + 1) * float(self.tape.tick_s)  # what happens, happens then
        super()._advance()
        if self.knowledge.published > self._published:
            self._published = self.knowledge.published
            names = [_name(node) for node in range(self.nodes)]
            self._write(sample_of(self._clock(), self.state(), names))

    def _write(self, record: Record) -> None:
        self._writer.write(record)


def _node_specs(tape: Tape) -> list[NodeSpec]:
    return [
        NodeSpec(
            name=_name(node),
            zone=f"zone-{int(tape.node_zone[node])}",
            cpu_allocatable_millicores=float(tape.node_cpu_millicores[node]),
            memory_allocatable_mib=float(tape.node_memory_mib[node]),
            pods_allocatable=float(tape.node_pods[node]),
            gpus=int(tape.node_gpus[node]),
            nic_mbps=float(tape.node_nic_mbps[node]) if tape.node_nic_known[node] else None,
            user_latency_ms=float(tape.node_user_latency_ms[node]),
            price_usd_per_hour=float(tape.node_price_usd_per_hour[node]),
            power_idle_watts=float(tape.node_power_idle_watts[node]),
            power_peak_watts=float(tape.node_power_peak_watts[node]),
        )
        for node in np.flatnonzero(tape.node_cpu_millicores > 0)
    ]


def _name(node: Any) -> str:
    return f"node-{int(node):03d}"


def _uid(pod: int) -> str:
    return f"pod-{pod:05d}"

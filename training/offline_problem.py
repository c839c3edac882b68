"""A small world as a problem to be solved with everything known: who runs when, and what each placement would load.

Pods are placed when they arrive and stay: so which pods run in which tick does not depend on who decides, as long as
none has to wait. Time falls into spans in which neither pods nor loads change, so nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from envs.batch_arrays import POD_STATE
from envs.batch_env import BatchEnv
from envs.workloads.scenario import Binding, LogNormal, NodeKind, Scenario, Scraping, Span, load_scenario
from envs.workloads.tape import Tape, stack

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Problem:
    """Nodes as on the tape; pods with a node given are those that run from the start."""

    tape: Tape  # one episode
    pods: IntArray  # (pods,): their numbers on the tape
    given: IntArray  # (pods,): the node of a pod that runs already; NOWHERE: to be decided
    runs: BoolArray  # (pods, spans)
    span_s: FloatArray  # (spans,)
    step: IntArray  # (spans,): of the tape's loads

    @property
    def hours(self) -> float:
        return float(self.span_s.sum()) / 3600.0

    def column(self, name: str) -> FloatArray:
        """A column of the tape for these pods, at load 1."""
        return np.asarray(getattr(self.tape, name)[self.pods], dtype=np.float64)

    def load(self) -> FloatArray:
        """Load of each pod's app in every span, (pods, spans)."""
        return np.asarray(self.tape.app_load[np.ix_(self.step, self.tape.pod_app[self.pods])].T, dtype=np.float64)

    def pairs(self) -> Iterator[tuple[int, int, FloatArray]]:
        """Siblings that run at the same time, and the Mbps that each sends to the other in every span."""
        app = self.tape.pod_app[self.pods]
        load = self.load()
        for kind in np.unique(app):
            rate_mbps = float(self.tape.app_sibling_mbps[kind])
            members = np.flatnonzero(app == kind)
            others = np.maximum(self.runs[members].sum(axis=0) - 1, 1)
            for place, one in enumerate(members):
                for other in members[place + 1 :]:
                    both = self.runs[one] & self.runs[other]
                    if rate_mbps > 0 and both.any():
                        yield int(one), int(other), np.where(both, rate_mbps * load[one] / others, 0.0)


def problem_of(tape: Tape) -> Problem:
    """One tape, without overrides: what the simulator counts from the first decision to the end."""
    env = BatchEnv(stack([tape]))
    tick_s = float(tape.tick_s)
    first, last = round(float(env.clock_s[0]) / tick_s), math.ceil(float(tape.horizon_s) / tick_s)
    begins = np.where(tape.pod_initial, 0.0, np.ceil(tape.pod_arrival_s.astype(np.float64) / tick_s))
    ends = np.ceil((begins * tick_s + tape.pod_duration_s.astype(np.float64)) / tick_s)
    pods = np.flatnonzero((begins < last) & (ends > first))
    steps = np.floor(np.arange(first, last) * tick_s / float(tape.load_step_s)).astype(np.int64)
    moves = first + 1 + np.flatnonzero(np.diff(steps))
    marks = np.unique(np.clip(np.concatenate([begins[pods], ends[pods], moves, [first, last]]), first, last))
    start = marks[:-1]
    node = env.live.pod_state[0, :, POD_STATE.node][pods]
    return Problem(
        tape,
        pods,
        np.where(tape.pod_initial[pods], node, NOWHERE),
        (begins[pods, None] <= start) & (start < ends[pods, None]),
        np.diff(marks) * tick_s,
        np.minimum(np.floor(start * tick_s / float(tape.load_step_s)).astype(np.int64), len(tape.app_load) - 1),
    )


def tiny_world() -> Scenario:
    """Four nodes, two zones, some twenty pods to place: small enough to be solved, tight enough to be worth it."""
    world = load_scenario("microservices")
    kinds = [
        NodeKind(
            cpu_cores=4,
            memory_gib=32,
            nic_gbps=0.4,
            price_usd_per_hour=price,
            power_idle_watts=40,
            power_peak_watts=110,
        )
        for price in (0.19, 0.25)
    ]
    fleet = {"count": Span(low=4, high=4), "zones": 2, "kinds": kinds, "maintenance": 0.0}
    apps = {"count": 4, "cpu_request_millicores": LogNormal(median=500, sigma=0.4)}
    apps |= {"external_mbps": LogNormal(median=40, sigma=0.6), "sibling_mbps": LogNormal(median=40, sigma=0.6)}
    arrivals = {"load": Span(low=0.35, high=0.45), "duration_s": LogNormal(median=90, sigma=0.6), "burst_size": 3.0}
    return world.model_copy(
        update={
            "name": "tiny",
            "nodes": world.nodes.model_copy(update=fleet),
            "apps": world.apps.model_copy(update=apps),
            "arrivals": world.arrivals.model_copy(update=arrivals),
            "scraping": Scraping(interval_s=[10.0], window_s=[60.0], delay_s=[0.0]),
            "binding": Binding(override=0.0),
            "horizon_s": 300.0,
        }
    )

"""What could have been avoided: a planner that knows every load, demand and life, and looks at lost traffic alone.

It places pod by pod, each where the least traffic is lost over the pod's life with what runs now, and does not know who
comes next. So it is no bound: now and then somebody who guesses loses less.
"""

from __future__ import annotations

import math

import numpy as np

from agent.cluster import FloatArray, IntArray
from benchmarks.closed_loop.simulated import MeteredWorld
from envs.workloads.tape import Tape
from tests.cluster.metering import Meter

CALM = 0.6  # of a NIC; what is above counts a little, so that among nodes that lose nothing the emptier is taken
CROWDING = 20.0  # Mbit/s that a NIC full to the brim is worth


def plan(tape: Tape) -> Meter:
    world = MeteredWorld(tape)
    while not world.done:
        world.step(int(np.argmin(np.where(world.mask, _lost_by_node(world), np.inf))))
    return world.meter


def _lost_by_node(world: MeteredWorld) -> FloatArray:
    """What this pod loses, or makes others lose, on each node."""
    tape, pod, app = world.tape, world.pod, int(world.tape.pod_app[world.pod])
    ends_s = world.clock_s + float(world.remaining_s[pod])
    steps = _steps(tape, world.clock_s, ends_s)
    siblings = world.app_pods[app].sum()
    to_siblings = tape.app_sibling_mbps[app] * (siblings - world.app_pods[app]) / max(siblings, 1.0)
    load = tape.app_load[steps, app] * _running_share(tape, steps, np.array(ends_s))
    cost = np.zeros(tape.node_slots)
    for before, external in zip(_traffic(world, steps), (tape.pod_rx_mbps, tape.pod_tx_mbps), strict=True):
        after = before + load[:, None] * (external[pod] + to_siblings)
        cost += (_badness(after, tape) - _badness(before, tape)).sum(axis=0)
    return cost


def _badness(mbps: FloatArray, tape: Tape) -> FloatArray:
    nic_mbps = tape.node_nic_mbps
    crowded = np.maximum(mbps / nic_mbps - CALM, 0.0) ** 2
    return np.asarray(np.maximum(mbps - nic_mbps, 0.0) + CROWDING * crowded)


def _traffic(world: MeteredWorld, steps: IntArray) -> list[FloatArray]:
    """Received and sent by every node, step by step, by what runs now: two of (steps, nodes)."""
    tape, running = world.tape, world.running
    pods, nodes = (np.array([getattr(each, name) for each in running], dtype=np.int64) for name in ("pod", "node"))
    ends_s, apps = np.array([each.ends_at_s for each in running]), tape.pod_app[pods]
    load = tape.app_load[steps][:, apps] * _running_share(tape, steps, ends_s)
    siblings = world.app_pods.sum(axis=1)[apps]
    elsewhere = (siblings - world.app_pods[apps, nodes]) / np.maximum(siblings - 1.0, 1.0)
    found = []
    ways = ((tape.pod_rx_mbps, tape.background_rx_ratio), (tape.pod_tx_mbps, tape.background_tx_ratio))
    for external, background in ways:
        on_node = np.zeros((len(running), tape.node_slots))
        on_node[np.arange(len(running)), nodes] = external[pods] + tape.app_sibling_mbps[apps] * elsewhere
        found.append(background[steps] * tape.node_nic_mbps + load @ on_node)
    return found


def _steps(tape: Tape, from_s: float, to_s: float) -> IntArray:
    step_s = float(tape.load_step_s)
    first = int(from_s / step_s)
    last = min(math.ceil(min(to_s, float(tape.horizon_s)) / step_s), len(tape.app_load))
    return np.arange(first, max(last, first + 1))


def _running_share(tape: Tape, steps: IntArray, ends_s: FloatArray) -> FloatArray:
    """Of each step that a pod is still there: (steps, pods), or (steps,) for one."""
    step_s = float(tape.load_step_s)
    left_s = ends_s[..., None] - steps * step_s
    return np.asarray(np.clip(left_s / step_s, 0.0, 1.0)).T

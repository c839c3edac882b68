"""The simulator's word on a workload: the same tape, rule and meter; no kube-scheduler, no Prometheus."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from agent.breaker import Breaker
from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.heuristics.balanced_allocation import BalancedAllocation
from agent.heuristics.least_allocated import LeastAllocated
from agent.heuristics.registry import scorer_by_name
from agent.ladder import Freshness, Ladder, standard_ladder
from agent.quantise import quantise
from agent.scorer import Scorer
from benchmarks.closed_loop.outcome import Outcome
from envs.dynamics.loading import Loads
from envs.dynamics.world import World
from envs.workloads.tape import Tape
from models.manifest import RELEASED
from models.onnx_scorer import OnnxScorer
from tests.cluster.metering import Meter
from tests.cluster.replaying import arriving


class MeteredWorld(World):
    def __init__(self, tape: Tape) -> None:
        self.meter = Meter()
        super().__init__(tape)

    def _account(self, loads: Loads) -> None:
        self.meter.add(self, loads)
        super()._account(loads)


class InTree:
    """kube-scheduler's scores that tell our nodes apart, with their default weights."""

    name = "in_tree"
    needs = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        least, balanced = (rule.score(state, demand, candidates) for rule in (LeastAllocated(), BalancedAllocation()))
        return np.asarray(least + balanced + 2.0 * _spreading(state, demand, candidates))


def _spreading(state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
    """PodTopologySpread with its default constraints: skew 3 over nodes, 5 over zones; each counts by log(size + 2)."""
    nodes, zones = state.node_count, state.zone_rtt_ms.shape[-1]
    crowd = demand.siblings_on_node * math.log(nodes + 2) + 2 + demand.siblings_in_zone * math.log(zones + 2) + 4
    least, most = crowd[candidates].min(), crowd[candidates].max()
    return np.asarray(100.0 * (most + least - crowd) / most)


def ladder_of(heuristic: str = "expected_utilisation", with_policy: bool = False) -> Ladder:
    """As the sidecar climbs it."""
    policy = OnnxScorer.load(RELEASED / "default") if with_policy else None
    clock = float  # always 0.0: no time passes within a decision
    return standard_ladder(
        clock, lambda: Breaker(clock), Freshness(), policy=policy, heuristic=scorer_by_name(heuristic)
    )


def simulate(rule: Scorer | Ladder, tape: Tape, seed: int = 0) -> Outcome:
    """One episode; equal levels are told apart at random, as kube-scheduler does."""
    world, rng = MeteredWorld(tape), np.random.default_rng(seed)
    while not world.done:
        levels = _levels(rule, world)
        best = np.flatnonzero(world.mask & (levels >= levels[world.mask].max()))
        world.step(int(rng.choice(best)))
    return Outcome(
        meter=world.meter,
        node_s=world.nodes * float(tape.horizon_s),
        pending_s=[0.0] * world.decisions,  # a decision takes no time here
        arrived=len(arriving(tape)),
        wall_s=math.nan,
    )


def _levels(rule: Scorer | Ladder, world: World) -> FloatArray:
    """An extender answers in levels; a plugin inside the scheduler in points."""
    state, demand, mask = world.state(), world.demand(), world.mask
    if isinstance(rule, Ladder):
        return np.asarray(quantise(rule.score(state, demand, mask).values, mask), dtype=np.float64)
    return np.asarray(rule.score(state, demand, mask))


def unavoidable_lost_share(tape: Tape) -> float:
    """What no placement avoids, about: the pods that run already lose it alone, or one pod asks for more than a NIC."""
    nobody = replace(tape, pod_arrival_s=np.where(tape.pod_initial, tape.pod_arrival_s, np.inf).astype(np.float32))
    alone = MeteredWorld(nobody).meter
    above_mbit = sum(_above_a_nic_mbit(tape, pod) for pod in arriving(tape))
    return (alone.lost_mbit + above_mbit) / simulate(InTree(), tape).meter.offered_mbit


def _above_a_nic_mbit(tape: Tape, pod: int) -> float:
    """Of one pod on the best node there is, with nothing beside it."""
    step_s, nic_mbps = float(tape.load_step_s), float(tape.node_nic_mbps.max())
    begins_s = float(tape.pod_arrival_s[pod])
    ends_s = min(begins_s + float(tape.pod_duration_s[pod]), float(tape.horizon_s))
    load = tape.app_load[int(begins_s / step_s) : int(np.ceil(ends_s / step_s)), tape.pod_app[pod]]
    ways = (float(tape.pod_rx_mbps[pod]), float(tape.pod_tx_mbps[pod]))
    return float(sum(np.maximum(way * load - nic_mbps, 0.0).sum() for way in ways)) * step_s

"""The simulator's word on a workload: the same tape, rule and meter; no kube-scheduler, no Prometheus."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
from envs.live.assembling import ZoneRtt
from envs.live.cluster_settings import ClusterSettings
from envs.workloads.tape import Tape
from models.manifest import RELEASED
from models.onnx_scorer import OnnxScorer
from tests.cluster.metering import Meter
from tests.cluster.replaying import arriving

PHASES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the scrape interval, until the sidecar asks for what was scraped


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


@dataclass(frozen=True, slots=True)
class BesidePlugin:
    """A plugin of others with its weight, and what stays of kube-scheduler's own scores beside it."""

    plugin: Scorer
    weight: float
    balanced: bool  # whether NodeResourcesBalancedAllocation stays
    talkers_only: bool = False  # whether it looks at those pods alone that talk to their siblings, as an AppGroup says

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def needs(self) -> tuple[str, ...]:
        return self.plugin.needs

    def for_pod_of(self, world: World) -> BesidePlugin:
        app = int(world.tape.pod_app[world.pod])
        return replace(self, weight=0.0) if self.talkers_only and not world.tape.app_sibling_mbps[app] > 0 else self

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        score = self.weight * self.plugin.score(state, demand, candidates)
        score += 2.0 * _spreading(state, demand, candidates)
        return score + BalancedAllocation().score(state, demand, candidates) if self.balanced else score


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


def as_a_sidecar_knows_it(tape: Tape) -> Tape:
    """No label of ours says how far the zones and the users are: it presumes the one, and does without the other.

    Neither is in what the loop measures, so a tape that is wrong about both is measured alike.
    """
    presumed = ClusterSettings()
    rtt = ZoneRtt(presumed.same_zone_rtt_ms, presumed.zone_rtt_ms)
    nowhere = np.full_like(tape.node_user_latency_ms, np.nan)
    return replace(tape, zone_rtt_ms=rtt.table(tape.zone_slots), node_user_latency_ms=nowhere)


def simulate_often(rule: Scorer | Ladder, tape: Tape) -> list[Outcome]:
    """An episode again and again, with other moments of the scrapes and other choices among equals.

    When scrapes fall is chance in the real loop, and one chance of many moves the lost share of one episode by a half.
    """
    delays_s = (phase * tape.scrape_interval_s for phase in PHASES)
    return [simulate(rule, replace(tape, scrape_delay_s=delay_s), seed) for seed, delay_s in enumerate(delays_s)]


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
    if isinstance(rule, BesidePlugin):
        rule = rule.for_pod_of(world)
    return np.asarray(rule.score(state, demand, mask))

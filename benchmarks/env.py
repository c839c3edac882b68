"""``pilotfish benchmark env``: how fast and how large the simulator is.

Every decision counted here is a whole one: the action is drawn from the mask, the world goes on to the next pod, and
the features of all nodes are encoded. The reference environment plays the same scenario in the same run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.bars import Bar, measured
from envs.batch_env import BatchEnv
from envs.cluster_env import ClusterEnv
from envs.workloads.scenario import Scenario, Span, load_scenario
from envs.workloads.synthetic import make_tapes

GROUP = 8  # clusters that share a tape, as in training
CLUSTERS = 4096
NODES = (20, 50, 100, 200)
WINDOWS = 5  # the host is noisy: every bar of speed is the median of so many
REFERENCE = 0  # stands for ClusterEnv among the numbers of nodes


def run(quick: bool, traces: Path | None = None) -> Iterator[Bar]:
    window_s = 0.4 if quick else 2.0
    batches = {nodes: Batch(_world(nodes), _clusters(nodes, quick)) for nodes in NODES}
    reference = Reference(_world(20))
    rounds = [_round(batches, reference, window_s) for _ in range(WINDOWS)]
    for nodes in (20, 100):
        beside = {"clusters": batches[nodes].clusters, "threads": 2, **_spread(each[nodes] for each in rounds)}
        yield measured(f"batch_decisions_per_s_{nodes}_nodes", median(each[nodes] for each in rounds), **beside)
    ratios = [each[20] / each[REFERENCE] for each in rounds]
    decided = round(median(each[REFERENCE] for each in rounds), 1)
    yield measured("batch_over_reference", median(ratios), cluster_env_decisions_per_s=decided, **_spread(ratios))
    rates = {f"decisions_per_s_{nodes}_nodes": round(median(each[nodes] for each in rounds)) for nodes in NODES}
    del batches  # half a gigabyte each
    shared, own = _memory_gb(_world(20), GROUP), _memory_gb(_world(20), 1)
    yield measured(
        "memory_4096_clusters_20_nodes_gb", own, tapes="one for each cluster", shared_by_8_gb=round(shared, 3)
    )
    slopes = [growth({nodes: each[nodes] for nodes in NODES}) for each in rounds]
    yield measured("cost_growth_exponent", median(slopes), **rates, **_spread(slopes))


def _round(batches: dict[int, Batch], reference: Reference, window_s: float) -> dict[int, float]:
    """One window for each size and the reference, right after each other: they meet the same noise of the host."""
    rates = {nodes: batch.rate(window_s) for nodes, batch in batches.items()}
    return rates | {REFERENCE: reference.rate(window_s)}


def _spread(values: Iterable[float]) -> dict[str, float]:
    """What the median leaves out."""
    kept = [float(f"{value:.4g}") for value in values]
    return {"windows": len(kept), "lowest": min(kept), "highest": max(kept)}


def _world(nodes: int) -> Scenario:
    """The microservices scenario at this size: the same load, the same pods."""
    scenario = load_scenario("microservices")
    count = Span(low=nodes, high=nodes)
    return scenario.model_copy(update={"nodes": scenario.nodes.model_copy(update={"count": count})})


def _clusters(nodes: int, quick: bool) -> int:
    """As many node rows for every size, so that the memory touched is alike."""
    return max((CLUSTERS // (4 if quick else 1)) * 20 // nodes // GROUP * GROUP, GROUP)


class Batch:
    """Clusters of one size, played by random candidates; what was compiled or touched first is not timed."""

    def __init__(self, scenario: Scenario, clusters: int) -> None:
        self.clusters = clusters
        self.env = BatchEnv(make_tapes(scenario, 1, range(clusters // GROUP)), np.arange(clusters) // GROUP)
        self.rng, self.out = np.random.default_rng(0), self.env.new_encoding()
        self._decide()

    def rate(self, seconds: float) -> float:
        """Decisions a second, encoding included."""
        decided, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            self._decide()
            decided += self.clusters
        return decided / (time.perf_counter() - began)

    def _decide(self) -> None:
        """A random candidate for each cluster; the features of the next decision."""
        env = self.env
        drawn = self.rng.random(env.candidates().shape, dtype=np.float32)
        env.step(np.argmax(drawn * env.candidates(), axis=1), self.out)
        over = np.flatnonzero(env.done)
        if len(over):  # as in training: a cluster that is done begins anew at once
            env.reset(over, env.tape_of[over])


class Reference:
    """The readable environment, played the same way."""

    def __init__(self, scenario: Scenario) -> None:
        self.env, self.rng = ClusterEnv(scenario=scenario), np.random.default_rng(0)
        self.env.reset(seed=1)

    def rate(self, seconds: float) -> float:
        decided, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            candidates = np.flatnonzero(self.env.action_masks())
            _, _, terminated, truncated, _ = self.env.step(self.rng.choice(candidates))
            decided += 1
            if terminated or truncated:
                self.env.reset()
        return decided / (time.perf_counter() - began)


def _memory_gb(scenario: Scenario, group: int) -> float:
    """Arrays of 4,096 clusters, their tapes and one observation."""
    tapes = make_tapes(scenario, 1, range(CLUSTERS // group))
    env = BatchEnv(tapes, np.arange(CLUSTERS) // group)
    observation = env.new_encoding()
    return (env.memory_bytes() + observation.nodes.nbytes + observation.pod.nbytes) / 1e9


def growth(rates: dict[int, float]) -> float:
    """Exponent of the time of a decision over the number of nodes, fitted over all sizes: 1 is linear."""
    nodes = np.log(list(rates))
    seconds = -np.log(list(rates.values()))
    slope = float(np.polyfit(nodes, seconds, 1)[0])
    return slope if math.isfinite(slope) else math.inf

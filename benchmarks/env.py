"""``pilotfish benchmark env``: how fast and how large the simulator is.

Every decision counted here is a whole one: the action is drawn from the mask, the world goes on to the next pod, and
the features of all nodes are encoded. The reference environment plays the same scenario in the same run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agent.features import Encoding
from benchmarks.bars import Bar, measured
from envs.batch_env import BatchEnv
from envs.cluster_env import ClusterEnv
from envs.workloads.scenario import Scenario, Span, load_scenario
from envs.workloads.synthetic import make_tapes

GROUP = 8  # clusters that share a tape, as in training
CLUSTERS = 4096
NODES = (20, 50, 100, 200)


def run(quick: bool, traces: Path | None = None) -> Iterator[Bar]:
    seconds = 2.0 if quick else 10.0
    rates = {nodes: _batch_rate(_world(nodes), _clusters(nodes, quick), seconds) for nodes in NODES}
    reference = _reference_rate(_world(20), seconds)
    beside = {f"decisions_per_s_{nodes}_nodes": round(rate) for nodes, rate in rates.items()}
    yield measured("batch_decisions_per_s_20_nodes", rates[20], **beside, clusters=_clusters(20, quick), threads=2)
    yield measured("batch_decisions_per_s_100_nodes", rates[100], **beside, clusters=_clusters(100, quick), threads=2)
    yield measured("batch_over_reference", rates[20] / reference, cluster_env_decisions_per_s=round(reference, 1))
    shared, own = _memory_gb(_world(20), GROUP), _memory_gb(_world(20), 1)
    yield measured(
        "memory_4096_clusters_20_nodes_gb", own, tapes="one for each cluster", shared_by_8_gb=round(shared, 3)
    )
    yield measured("cost_growth_exponent", _growth(rates), **beside)


def _world(nodes: int) -> Scenario:
    """The microservices scenario at this size: the same load, the same pods."""
    scenario = load_scenario("microservices")
    count = Span(low=nodes, high=nodes)
    return scenario.model_copy(update={"nodes": scenario.nodes.model_copy(update={"count": count})})


def _clusters(nodes: int, quick: bool) -> int:
    """As many node rows for every size, so that the memory touched is alike."""
    return max((CLUSTERS // (4 if quick else 1)) * 20 // nodes // GROUP * GROUP, GROUP)


def _batch_rate(scenario: Scenario, clusters: int, seconds: float) -> float:
    """Decisions a second, encoding included, after a warm-up that compiles the kernels."""
    env = BatchEnv(make_tapes(scenario, 1, range(clusters // GROUP)), np.arange(clusters) // GROUP)
    rng, out = np.random.default_rng(0), env.new_encoding()
    _decide(env, rng, out)
    decided, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        decided += clusters
        _decide(env, rng, out)
        over = np.flatnonzero(env.done)
        if len(over):  # as in training: a cluster that is done begins anew at once
            env.reset(over, env.tape_of[over])
    return decided / (time.perf_counter() - began)


def _decide(env: BatchEnv, rng: np.random.Generator, out: Encoding) -> None:
    """A random candidate for each cluster; the features of the next decision."""
    drawn = rng.random(env.candidates().shape, dtype=np.float32)
    env.step(np.argmax(drawn * env.candidates(), axis=1), out)


def _reference_rate(scenario: Scenario, seconds: float) -> float:
    env, rng = ClusterEnv(scenario=scenario), np.random.default_rng(0)
    env.reset(seed=1)
    decided, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        _, _, terminated, truncated, _ = env.step(rng.choice(np.flatnonzero(env.action_masks())))
        decided += 1
        if terminated or truncated:
            env.reset()
    return decided / (time.perf_counter() - began)


def _memory_gb(scenario: Scenario, group: int) -> float:
    """Arrays of 4,096 clusters, their tapes and one observation."""
    tapes = make_tapes(scenario, 1, range(CLUSTERS // group))
    env = BatchEnv(tapes, np.arange(CLUSTERS) // group)
    observation = env.new_encoding()
    return (env.memory_bytes() + observation.nodes.nbytes + observation.pod.nbytes) / 1e9


def _growth(rates: dict[int, float]) -> float:
    """Exponent of the time of a decision over the number of nodes, fitted over all sizes: 1 is linear."""
    nodes = np.log(list(rates))
    seconds = -np.log(list(rates.values()))
    slope = float(np.polyfit(nodes, seconds, 1)[0])
    return slope if math.isfinite(slope) else math.inf

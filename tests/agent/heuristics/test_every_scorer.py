"""What holds for every scorer, on clusters with everything that can be odd about one."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, ClusterState, Demand
from agent.heuristics.registry import SCORERS, scorer_by_name
from agent.scorer import missing_metrics

CLUSTERS, NODES, ZONES = 6, 9, 3
PER_NODE = {"siblings_on_node", "siblings_in_zone", "sibling_rtt_ms"}
BETWEEN_ZONES = "zone_rtt_ms"
DETERMINISTIC = [name for name in SCORERS if name != "random"]


def batch_state(rng: np.random.Generator) -> ClusterState:
    shape = (CLUSTERS, NODES)
    values = {column.name: rng.uniform(0, 1000, shape) for column in fields(ClusterState)}
    values |= {
        "cpu_allocatable_millicores": rng.choice([0.0, 2000.0, 8000.0], shape, p=[0.1, 0.5, 0.4]),
        "memory_allocatable_mib": rng.choice([0.0, 2000.0, 8000.0], shape, p=[0.1, 0.5, 0.4]),
        "nic_mbps": rng.choice([np.nan, 1000.0, 10_000.0], shape),
        "pods_running": rng.integers(0, 9, shape).astype(float),
        "user_latency_ms": rng.choice([np.nan, 10.0, 60.0, 150.0], shape),
        "zone": rng.integers(0, ZONES, shape),
        "schedulable": np.ones(shape, dtype=np.bool_),
        "gpu_count": np.full(shape, 2.0),
        "gpu_free_milli": rng.choice([0.0, 500.0, GPU_MILLI], (*shape, GPUS_PER_NODE)),
        BETWEEN_ZONES: rng.uniform(0, 9, (CLUSTERS, ZONES, ZONES)),
    }
    for group, columns in (
        ("cpu", ["cpu_used_millicores", "cpu_std_millicores"]),
        ("memory", ["memory_used_mib"]),
        ("network", ["rx_mbps", "tx_mbps", "connections"]),
    ):
        missing = rng.random(shape) < 0.2
        values[f"{group}_age_s"] = np.where(missing, np.inf, 5.0)
        for column in columns:
            values[column][missing] = np.nan
    return ClusterState(**values)


def batch_demand(rng: np.random.Generator, zone: np.ndarray) -> Demand:
    values = {
        column.name: rng.uniform(0, 500, (CLUSTERS, NODES) if column.name in PER_NODE else CLUSTERS)
        for column in fields(Demand)
    }
    on_node = rng.integers(0, 3, (CLUSTERS, NODES)).astype(float)
    same_zone = zone[:, :, None] == zone[:, None, :]
    values |= {
        "gpus": rng.integers(0, 2, CLUSTERS).astype(float),
        "demand_source": rng.integers(0, 5, CLUSTERS),
        "latency_soft_ms": rng.choice([np.nan, 35.0], CLUSTERS),
        "latency_hard_ms": rng.choice([np.nan, 100.0], CLUSTERS),
        "siblings": on_node.sum(axis=-1),
        "siblings_on_node": on_node,
        "siblings_in_zone": (same_zone * on_node[:, None, :]).sum(axis=-1),
    }
    return Demand(**values)


@pytest.fixture
def batch():
    rng = np.random.default_rng(11)
    state = batch_state(rng)
    candidates = rng.random((CLUSTERS, NODES)) < 0.8
    candidates[0] = True
    candidates[1] = np.arange(NODES) == 4  # a single candidate
    candidates[2] = False
    return state, batch_demand(rng, state.zone), candidates


def cluster(table, index):
    return replace(table, **{column.name: getattr(table, column.name)[index] for column in fields(table)})


def reordered(table, order):
    kept = {column.name for column in fields(Demand)} - PER_NODE if isinstance(table, Demand) else {BETWEEN_ZONES}
    return replace(table, **{c.name: getattr(table, c.name)[:, order] for c in fields(table) if c.name not in kept})


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_batch_scores_as_its_clusters_one_by_one(batch, name) -> None:
    state, demand, candidates = batch
    together = scorer_by_name(name).score(state, demand, candidates)
    assert together.shape == candidates.shape
    assert together.dtype == np.float64
    for index in range(CLUSTERS):
        alone = scorer_by_name(name).score(cluster(state, index), cluster(demand, index), candidates[index])
        np.testing.assert_allclose(together[index], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_permuting_the_nodes_permutes_the_scores(batch, name) -> None:
    state, demand, candidates = batch
    order = np.random.default_rng(3).permutation(NODES)
    scores = scorer_by_name(name).score(state, demand, candidates)
    permuted = scorer_by_name(name).score(reordered(state, order), reordered(demand, order), candidates[:, order])
    mask = candidates[:, order]
    np.testing.assert_allclose(permuted[mask], scores[:, order][mask], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SCORERS)
def test_what_a_scorer_reads_stays_as_it_was(batch, name) -> None:
    state, demand, candidates = batch
    before = [np.copy(getattr(table, c.name)) for table in (state, demand) for c in fields(table)]
    scores = scorer_by_name(name).score(state, demand, candidates)
    scores[...] = -1.0  # nor may the answer be a view of the state
    after = [getattr(table, c.name) for table in (state, demand) for c in fields(table)]
    for was, now in zip(before, after, strict=True):
        np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("name", SCORERS)
def test_candidates_with_fresh_metrics_have_a_finite_score(batch, name) -> None:
    state, demand, candidates = batch
    scorer = scorer_by_name(name)
    usable = candidates & ~missing_metrics(state, scorer.needs, stale_after_s=60.0)
    assert np.isfinite(scorer.score(state, demand, candidates)[usable]).all()


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_load_of_nodes_that_are_no_candidates_does_not_change_the_others(batch, name) -> None:
    state, demand, candidates = batch
    scores = scorer_by_name(name).score(state, demand, candidates)
    outsiders = ~candidates
    changed = {
        c.name: np.where(outsiders, 777.0, getattr(state, c.name))
        for c in fields(state)
        if getattr(state, c.name).shape == candidates.shape and c.name not in ("zone", "schedulable")
    }
    again = scorer_by_name(name).score(replace(state, **changed), demand, candidates)
    np.testing.assert_array_equal(scores[candidates], again[candidates])

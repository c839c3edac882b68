"""The packing world as a policy sees it: the sidecar's features, and kept scores that are the fresh ones."""

from __future__ import annotations

import numpy as np
import pytest

from agent.features import NODE_COLUMN, NODE_FEATURES, encode
from agent.heuristics.fgd import typical_pods
from envs.batch_encode import room
from envs.openb_policy import (
    NO_WEIGHT,
    STATIC_POD_FEATURES,
    UNCLIPPED,
    as_seen,
    ask,
    encode_node,
    pack_rated,
    pack_weighted,
    place,
    static_pods,
    views,
)
from envs.packing import UNPLACED, PackingNodes, PodKinds, empty_world

COUNT, KINDS = 12, 10


def some_nodes(rng) -> PackingNodes:
    gpus = rng.choice([0, 1, 2, 8], COUNT, p=[0.2, 0.2, 0.3, 0.3]).astype(np.float64)
    return PackingNodes(
        rng.choice([32_000.0, 96_000.0], COUNT), np.full(COUNT, 400_000.0), gpus, rng.integers(0, 2, COUNT)
    )


def some_kinds(rng) -> PodKinds:
    gpus = rng.choice([0.0, 1.0, 2.0], KINDS)
    milli = np.where(gpus == 1, rng.choice([200.0, 470.0, 1000.0], KINDS), np.where(gpus > 1, 1000.0, 0.0))
    cpu, memory = rng.integers(1, 16, KINDS) * 1000.0, rng.integers(1, 30, KINDS) * 1000.0
    typical = typical_pods(cpu, gpus, milli, np.ones(KINDS), np.zeros(KINDS, dtype=np.int64))
    return PodKinds(cpu, memory, gpus, milli, rng.random((KINDS, 2)) < 0.8, typical)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_the_sidecar_without_metrics(seed):
    rng = np.random.default_rng(seed)
    nodes, kinds = some_nodes(rng), some_kinds(rng)
    world = empty_world(nodes, kinds)
    live, spec = views(nodes, world)
    names = list(NODE_FEATURES)
    told = [names.index(name) for name in names if name not in NO_WEIGHT]
    compared = 0
    for kind in rng.integers(0, KINDS, 60):
        state, demand, candidates = as_seen(nodes, world, live, kind)
        if not candidates.any():
            continue
        encoding = encode(state, demand, candidates)
        ask(world, live, kind)
        for node in np.flatnonzero(candidates):
            row = np.full(len(names), np.nan, dtype=np.float32)
            encode_node(live, spec, node, room(1), row)
            np.testing.assert_allclose(row[told], encoding.nodes[node, told], rtol=1e-5, atol=1e-6)
            compared += 1
        columns = [list(encoding_names()).index(name) for name in STATIC_POD_FEATURES]
        np.testing.assert_allclose(static_pods(kinds)[kind, columns], encoding.pod[columns], rtol=1e-6)
        place(world, live, kind, rng.choice(np.flatnonzero(candidates)))
    assert compared > 100


def encoding_names():
    from agent.features import POD_FEATURES

    return POD_FEATURES


def some_weights(rng) -> np.ndarray:
    weights = rng.normal(size=(2, KINDS, len(NODE_FEATURES)))
    weights[:, :, [NODE_COLUMN[name] for name in NO_WEIGHT]] = 0.0
    return weights


@pytest.mark.parametrize("clip", [UNCLIPPED, np.clip(UNCLIPPED, 0.1, 0.4)], ids=["unclipped", "clipped"])
@pytest.mark.parametrize("seed", range(3))
def test_kept_scores_lead_to_the_nodes_that_fresh_ones_do(seed, clip):
    rng = np.random.default_rng(seed)
    nodes, kinds, arrivals = some_nodes(rng), some_kinds(rng), rng.integers(0, KINDS, 150)
    weights = some_weights(rng)
    chosen = pack_weighted(nodes, kinds, arrivals, weights, clip)
    world = empty_world(nodes, kinds)
    live, _ = views(nodes, world)
    empty = NODE_COLUMN["empty"]
    for kind, node in zip(arrivals, chosen, strict=True):
        state, demand, candidates = as_seen(nodes, world, live, kind)
        if node == UNPLACED:
            assert not candidates.any()
            continue
        rows = encode(state, demand, candidates).nodes
        opened = rows[:, empty]
        rows = np.clip(rows, *clip)
        scores = rows @ weights[0, kind] + opened * (rows @ weights[1, kind])
        assert candidates[node]
        assert scores[node] >= np.floor(scores[candidates].max() - 1e-4)
        place(world, live, kind, node)
    assert (chosen != UNPLACED).any()


def test_any_scorer_over_the_rows_packs_as_the_compiled_one():
    rng = np.random.default_rng(5)
    nodes, kinds, arrivals = some_nodes(rng), some_kinds(rng), rng.integers(0, KINDS, 150)
    weights = np.repeat(some_weights(rng)[:, :1], KINDS, axis=1)  # the same for all kinds
    empty = NODE_COLUMN["empty"]

    def rate(rows, pod):
        return np.floor(rows @ weights[0, 0] + rows[:, empty] * (rows @ weights[1, 0]))

    np.testing.assert_array_equal(
        pack_rated(nodes, kinds, arrivals, rate), pack_weighted(nodes, kinds, arrivals, weights)
    )


def test_of_equal_nodes_the_first_is_filled():
    rng = np.random.default_rng(0)
    nodes = PackingNodes(np.full(3, 64_000.0), np.full(3, 1e6), np.full(3, 2.0), np.zeros(3, dtype=np.int64))
    kinds = some_kinds(rng)
    weights = np.zeros((2, KINDS, len(NODE_FEATURES)))
    assert pack_weighted(nodes, kinds, np.flatnonzero(kinds.gpus == 0)[:1], weights).tolist() == [0]

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from agent.cluster import ClusterState, Demand
from agent.errors import InputError
from agent.heuristics.best_fit import BestFit
from agent.heuristics.dot_product import DotProduct
from agent.heuristics.fgd import Fgd, typical_pods
from envs import packing
from envs.packing import POLICIES, UNPLACED, PackingNodes, PodKinds, empty_world, fgd_choice, fits, pack, score_of

SCORED = ("best_fit", "dot_product", "fgd")
MODELS = 3


def some_nodes(random: np.random.Generator, count: int) -> PackingNodes:
    return PackingNodes(
        random.choice([16_000.0, 64_000.0, 96_000.0], count),
        random.choice([65_536.0, 262_144.0], count),
        random.choice([0.0, 1.0, 2.0, 8.0], count),
        random.integers(0, MODELS, count),
    )


def some_kinds(random: np.random.Generator, count: int) -> PodKinds:
    gpus = random.choice([0.0, 1.0, 1.0, 1.0, 2.0, 4.0], count)
    gpu_milli = np.where(
        gpus == 1, random.choice([200.0, 470.0, 810.0, 1000.0], count), np.where(gpus > 1, 1000.0, 0.0)
    )
    cpu = random.choice([2_000.0, 4_000.0, 11_300.0, 32_000.0], count)
    allowed = random.random((count, MODELS)) < 0.8
    allowed[gpus == 0] = True
    typical = typical_pods(cpu, gpus, gpu_milli, random.integers(1, 50, count).astype(float), np.arange(count))
    return PodKinds(cpu, random.choice([4_096.0, 32_768.0], count), gpus, gpu_milli, allowed, typical)


def scorer_of(policy: str, nodes: PackingNodes, kinds: PodKinds):
    fgd = Fgd(kinds.typical, allowed=kinds.allowed[kinds.typical.source][:, nodes.model])
    return {"best_fit": BestFit(), "dot_product": DotProduct(), "fgd": fgd}[policy]


def as_state(world: packing.World, nodes: PackingNodes) -> ClusterState:
    columns = {column.name: np.zeros(len(nodes.gpus)) for column in fields(ClusterState)}
    return ClusterState(
        **columns
        | {
            "cpu_allocatable_millicores": nodes.cpu_millicores,
            "cpu_requested_millicores": nodes.cpu_millicores - world.cpu_free,
            "gpu_count": nodes.gpus,
            "gpu_free_milli": world.gpu_free,
        }
    )


def as_demand(kinds: PodKinds, kind: int) -> Demand:
    columns = {column.name: np.zeros(()) for column in fields(Demand)}
    asked = {
        "cpu_request_millicores": kinds.cpu_millicores,
        "memory_request_mib": kinds.memory_mib,
        "gpus": kinds.gpus,
        "gpu_milli": kinds.gpu_milli,
    }
    return Demand(**columns | {name: np.asarray(values[kind]) for name, values in asked.items()})


@pytest.mark.parametrize("policy", SCORED)
def test_simulator_chooses_the_node_that_the_scorer_prefers(policy: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(4):
        nodes, kinds = some_nodes(random, 30), some_kinds(random, 25)
        arrivals = random.integers(0, 25, 250)
        chosen = pack(nodes, kinds, arrivals, policy, random)
        assert (chosen == UNPLACED).any()
        world, scorer = empty_world(nodes, kinds), scorer_of(policy, nodes, kinds)
        for kind, node in zip(arrivals, chosen, strict=True):
            candidates = np.array([fits(world, kind, candidate) for candidate in range(30)])
            scores = scorer.score(as_state(world, nodes), as_demand(kinds, kind), candidates)
            assert node == (np.argmax(np.where(candidates, scores, -np.inf)) if candidates.any() else UNPLACED)
            if node != UNPLACED:
                packing._place(world, kind, node, POLICIES[policy], random)


@pytest.mark.parametrize("policy", SCORED)
def test_simulator_and_scorer_give_the_same_scores_on_random_states(policy: str) -> None:
    random = np.random.default_rng(6)
    nodes, kinds = some_nodes(random, 200), some_kinds(random, 40)
    world = empty_world(nodes, kinds)
    world.cpu_free[:] = random.uniform(0, nodes.cpu_millicores).round()
    world.gpu_free[:] *= random.choice([0.0, 0.19, 0.53, 1.0], world.gpu_free.shape)
    for node in range(200):
        world.fragment[node] = packing.fragment_of(world, node, world.cpu_free[node])
    for kind in range(40):
        simulated = np.array([score_of(world, kind, node, POLICIES[policy]) for node in range(200)])
        candidates = simulated > -np.inf
        scores = scorer_of(policy, nodes, kinds).score(as_state(world, nodes), as_demand(kinds, kind), candidates)
        np.testing.assert_array_equal(simulated[candidates], scores[candidates])


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_over_committed_and_no_pod_fails_that_would_fit(policy: str) -> None:
    random = np.random.default_rng(7)
    nodes, kinds, arrivals = some_nodes(random, 40), some_kinds(random, 20), random.integers(0, 20, 600)
    world = empty_world(nodes, kinds)
    chosen = packing._pack(world, arrivals, POLICIES[policy], random)
    placed = chosen != UNPLACED
    assert placed.any()
    assert not placed.all()
    for free, capacity, asked in (
        (world.cpu_free, nodes.cpu_millicores, kinds.cpu_millicores),
        (world.memory_free, nodes.memory_mib, kinds.memory_mib),
        (world.gpu_free.sum(axis=1), nodes.gpus * 1_000, kinds.gpu_request_milli),
    ):
        taken = np.bincount(chosen[placed], weights=asked[arrivals[placed]], minlength=40)
        np.testing.assert_allclose(free, capacity - taken)
        assert (free >= 0).all()
    assert (world.gpu_free >= 0).all()
    gpu_pods = placed & (kinds.gpus[arrivals] > 0)
    assert kinds.allowed[arrivals[gpu_pods], nodes.model[chosen[gpu_pods]]].all()
    for kind in arrivals[~placed]:  # nothing leaves, so what did not fit then does not fit now
        assert not any(fits(world, kind, node) for node in range(40))


def one_kind(gpus: float, gpu_milli: float, memory_mib: float = 0.0) -> PodKinds:
    cpu, memory, count, milli = (
        np.array([number], dtype=np.float64) for number in (1_000, memory_mib, gpus, gpu_milli)
    )
    typical = typical_pods(cpu, count, milli, np.ones(1), np.zeros(1, dtype=np.int64))
    return PodKinds(cpu, memory, count, milli, np.ones((1, 1), dtype=np.bool_), typical)


def equal_nodes(count: int) -> PackingNodes:
    return PackingNodes(
        np.full(count, 64_000.0), np.full(count, 1_024.0), np.full(count, 2.0), np.zeros(count, dtype=np.int64)
    )


@pytest.mark.parametrize("policy", ["first_fit", "best_fit", "dot_product", "fgd"])
def test_first_of_equal_nodes_is_taken(policy: str) -> None:
    random, arrivals = np.random.default_rng(0), np.zeros(4, dtype=np.int64)
    assert pack(equal_nodes(3), one_kind(2, 1_000), arrivals, policy, random).tolist() == [0, 1, 2, UNPLACED]


def test_memory_limits_what_fits() -> None:
    random = np.random.default_rng(0)
    chosen = pack(equal_nodes(1), one_kind(1, 100, memory_mib=512), np.zeros(3, dtype=np.int64), "fgd", random)
    assert chosen.tolist() == [0, 0, UNPLACED]


def test_random_policy_takes_nodes_and_devices_at_random_and_repeats_with_its_seed() -> None:
    nodes, kinds, arrivals = equal_nodes(8), one_kind(1, 500), np.zeros(16, dtype=np.int64)
    first, again = (pack(nodes, kinds, arrivals, "random", np.random.default_rng(3)) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert len(set(first.tolist())) > 4
    halves = [_free_after_two_halves(np.random.default_rng(seed)) for seed in range(20)]
    assert [0.0, 1000.0] in halves
    assert [500.0, 500.0] in halves


def _free_after_two_halves(random: np.random.Generator) -> list[float]:
    world = empty_world(equal_nodes(1), one_kind(1, 500))
    packing._pack(world, np.zeros(2, dtype=np.int64), POLICIES["random"], random)
    return sorted(world.gpu_free[0, :2].tolist())


def test_fgd_takes_the_device_that_leaves_the_least_fragment_the_first_among_equals() -> None:
    kinds = one_kind(1, 300)
    world = empty_world(equal_nodes(1), kinds)
    world.gpu_free[0, :2] = 500.0, 600.0  # 300 is typical: 200 would be left for nobody, 300 for one more
    world.fragment[0] = packing.fragment_of(world, 0, world.cpu_free[0])
    assert fgd_choice(world, 0, 0) == (50.0, 0b10)
    world.gpu_free[0, :2] = 700.0, 1000.0
    assert fgd_choice(world, 0, 0) == (50.0, 0b01)


def test_unknown_policy_is_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match="unknown packing policy 'worst_fit': choose one of first_fit, random"):
        pack(equal_nodes(1), one_kind(1, 1_000), np.zeros(1, dtype=np.int64), "worst_fit", np.random.default_rng(0))

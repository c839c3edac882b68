"""Truth and knowledge apart: what no sidecar could know yet leaves everything a policy sees equal, bit by bit.

Each case changes one hidden value of a small hand-made world. Until the first moment at which a watch or a scrape
could show it, state, demand and features must not differ in a single bit; afterwards they must, or the case would
prove nothing. Both simulators are held to it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.cluster import ClusterState, Demand
from agent.features import encode
from envs.batch_env import BatchEnv
from envs.dynamics.world import World
from envs.workloads import tape as tapes
from envs.workloads.synthetic import make_tape

pytestmark = pytest.mark.timeout(600)  # the first test of a fresh checkout compiles the kernels

NODES, APPS, STEPS = 4, 2, 8
FIRST, LAST = 8, 31  # the pods that arrive: one every 2 s from 2 s on; those before run from the start
DELAY_S, STEP_S = 4.0, 15.0


def arrival_s(pod: int) -> float:
    return 2.0 * (pod - FIRST + 1)


def base_columns() -> dict[str, object]:
    pods = np.arange(LAST + 1)
    return {
        "nodes": NODES,
        "pods": LAST + 1,
        "apps": APPS,
        "zones": 2,
        "node_zone": np.arange(NODES) % 2,
        "node_cpu_millicores": 16000.0,
        "node_memory_mib": 64000.0,
        "node_nic_known": np.arange(NODES) != 3,
        "node_gpus": 4,
        "pod_initial": pods < FIRST,
        "pod_arrival_s": np.where(pods < FIRST, 0.0, 2.0 * (pods - FIRST + 1)),
        "pod_start": (pods % NODES + 0.5) / NODES,
        "pod_app": pods % APPS,
        "pod_gpus": pods % 3 == 0,
        "pod_gpu_milli": 300,
        "pod_visible_after": 3,
        "app_sibling_mbps": 5.0,
        "background_cpu_ratio": 0.05,
        "background_rx_ratio": 0.05,
        "background_tx_ratio": 0.05,
        "node_background_memory_mib": 500.0,
        "load_step_s": STEP_S,
        "scrape_interval_s": 10.0,
        "scrape_delay_s": DELAY_S,
        "rate_window_s": 30.0,
    }


class Case(NamedTuple):
    """A hidden value, another value for it, and the first moment at which a sidecar may know."""

    column: str
    where: object  # index into the column
    value: float
    shows_at_s: float


def scraped_after(moment_s: float) -> float:
    """When the first scrape later than this moment has arrived; scrapes come at 1 s and then every 10 s."""
    return (1.0 if moment_s < 1.0 else 10.0 * (moment_s // 10.0 + 1.0)) + DELAY_S


POD = 12  # arrives, and is bound, at 10 s
BOUND_S = arrival_s(POD)
LATER = 24  # arrives at 34 s
FIRST_RATE_S = 10.0 + DELAY_S  # node metrics need two scrapes

CASES = {
    # what a pod really does: seen by the scrape after it was bound
    "cpu use": Case("pod_cpu_use_ratio", POD, 0.9, scraped_after(BOUND_S)),
    "memory use": Case("pod_memory_use_ratio", POD, 0.9, scraped_after(BOUND_S)),
    "receive rate": Case("pod_rx_mbps", POD, 90.0, scraped_after(BOUND_S)),
    "transmit rate": Case("pod_tx_mbps", POD, 90.0, scraped_after(BOUND_S)),
    "duration": Case("pod_duration_s", POD, 25.0, BOUND_S + 25.0),
    "traffic of pods that run from the start": Case("pod_rx_mbps", slice(0, FIRST), 35.0, scraped_after(0.0)),
    "undeclared sibling traffic": Case("app_sibling_mbps", 0, 50.0, scraped_after(0.0)),
    # where it really went: seen when the watch shows it, three decisions later
    "override": Case("pod_override", POD, 0.99, arrival_s(POD + 4)),
    # what comes: seen when it is there
    "future request": Case("pod_cpu_request_millicores", LATER, 100.0, arrival_s(LATER)),
    "future memory request": Case("pod_memory_request_mib", LATER, 100.0, arrival_s(LATER)),
    "future app": Case("pod_app", LATER, 1, arrival_s(LATER)),
    "future label": Case("pod_labelled", LATER, False, arrival_s(LATER)),
    "future annotation": Case("pod_annotated_mbps", LATER, 500.0, arrival_s(LATER)),
    "future latency limit": Case("pod_latency_soft_ms", LATER, 1.0, arrival_s(LATER)),
    "future GPUs": Case("pod_gpus", LATER, 2, arrival_s(LATER)),
    "no more arrivals": Case("pod_arrival_s", slice(LATER, None), np.inf, arrival_s(LATER)),
    "future maintenance": Case("node_maintenance_start_s", 1, 33.0, 33.0),
    # loads: seen by the scrape after they began
    "load of an app from the start": Case("app_load", (0, 0), 2.0, scraped_after(0.0)),
    "load of an app later": Case("app_load", (slice(2, None), 0), 2.0, scraped_after(2 * STEP_S)),
    "background CPU from the start": Case("background_cpu_ratio", (0, 1), 0.4, FIRST_RATE_S),
    "background CPU later": Case("background_cpu_ratio", (slice(2, None), 1), 0.4, scraped_after(2 * STEP_S)),
    "background traffic in from the start": Case("background_rx_ratio", (0, 1), 0.4, FIRST_RATE_S),
    "background traffic out from the start": Case("background_tx_ratio", (0, 1), 0.4, FIRST_RATE_S),
    "background memory": Case("node_background_memory_mib", 1, 5000.0, FIRST_RATE_S),
    # never said, but it shows in what is carried
    "NIC speed that is not known": Case("node_nic_mbps", 3, 4000.0, FIRST_RATE_S),
    # gaps
    "lost scrape": Case("scrape_missing", (2, 1), True, 20.0 + DELAY_S),
}


@pytest.fixture(scope="module")
def pair(hand_tape, with_columns):
    """The base world, and the same with one hidden value changed."""

    def make(case: Case):
        base = hand_tape(**base_columns())
        column = getattr(base, case.column).copy()
        assert not np.all(column[case.where] == case.value)
        column[case.where] = case.value
        return base, with_columns(base, **{case.column: column})

    return make


def bits(state: ClusterState, demand: Demand, *more: np.ndarray) -> dict[str, bytes]:
    """Everything that a policy may see, column by column."""
    columns = {column.name: getattr(part, column.name) for part in (state, demand) for column in fields(part)}
    columns |= {f"encoding {index}": values for index, values in enumerate(more)}
    return {name: np.ascontiguousarray(values).tobytes() for name, values in columns.items()}


def different(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def seen_in_world(tape) -> dict[float, dict[str, bytes]]:
    """What is known at every decision, by its moment (there is one decision every two seconds)."""
    world, seen = World(tape), {}
    while not world.done:
        encoding = encode(world.state(), world.demand(), world.candidates())
        seen[world.clock_s] = bits(world.state(), world.demand(), world.candidates(), encoding.nodes, encoding.pod)
        world.step(choice(world.candidates(), world.decisions))
    return seen


def choice(candidates: np.ndarray, decision: int) -> int:
    """A rule that looks at nothing hidden: the candidates in turn."""
    nodes = np.flatnonzero(candidates)
    return int(nodes[decision % len(nodes)])


def seen_in_batch(both) -> tuple[dict[float, dict[str, bytes]], ...]:
    env = BatchEnv(tapes.stack(both), threads=1)
    seen: tuple[dict[float, dict[str, bytes]], ...] = ({}, {})
    while not env.done.all():
        encoding = env.encode()
        for row in np.flatnonzero(~env.done):
            one = slice(row, row + 1)
            more = (env.candidates()[one], encoding.nodes[one], encoding.pod[one])
            seen[row][float(env.clock_s[row])] = bits(env.state(one), env.demand(one), *more)
        env.step(np.array([choice(mask, done) for mask, done in zip(env.candidates(), env.decisions, strict=True)]))
    return seen


def check(base: dict[float, dict[str, bytes]], changed: dict[float, dict[str, bytes]], shows_at_s: float) -> None:
    early = [moment for moment in base if moment < shows_at_s]
    assert early == [moment for moment in changed if moment < shows_at_s]
    assert len(early) >= 2
    leaks = {moment: different(base[moment], changed[moment]) for moment in early}
    assert not any(leaks.values()), f"known too early: {leaks}"
    late = [moment for moment in base if moment >= shows_at_s]
    assert any(moment not in changed or different(base[moment], changed[moment]) for moment in late), "never shows"


@pytest.mark.parametrize("name", CASES)
def test_hidden_value_changes_nothing_that_world_shows_before_it_can_be_known(pair, name):
    base, changed = pair(CASES[name])
    check(seen_in_world(base), seen_in_world(changed), CASES[name].shows_at_s)


@pytest.mark.parametrize("name", CASES)
def test_hidden_value_changes_nothing_that_the_batch_shows_before_it_can_be_known(pair, name):
    check(*seen_in_batch(pair(CASES[name])), CASES[name].shows_at_s)


@settings(max_examples=6)
@given(seed=st.integers(0, 10_000), cut_s=st.floats(40.0, 120.0))
def test_another_future_changes_nothing_before_it_begins(tiny_scenario, with_columns, seed, cut_s):
    """Other arrivals from the cut on, and other loads from the first step after it: the past stays as it was."""
    scenario = tiny_scenario(nodes={"maintenance": 0.0})
    true, other = make_tape(scenario, seed), make_tape(scenario, seed, future=1)
    both = [true, spliced(true, other, cut_s, with_columns)]
    base, changed = seen_in_batch(both)
    early = [moment for moment in base if moment < cut_s]
    assert early == [moment for moment in changed if moment < cut_s]
    assert not any(different(base[moment], changed[moment]) for moment in early)


def spliced(true, other, cut_s: float, with_columns):
    past, coming = true.pod_arrival_s < cut_s, other.pod_arrival_s >= cut_s
    names = [column.name for column in fields(true)]
    pods = {
        name: np.concatenate([getattr(true, name)[past], getattr(other, name)[coming]])
        for name in names
        if name.startswith("pod_") and name != "pod_metrics"
    }
    later = np.arange(len(true.app_load))[:, None] * true.load_step_s >= cut_s
    loads = {
        name: np.where(later, getattr(other, name), getattr(true, name))
        for name in ("app_load", "background_cpu_ratio", "background_rx_ratio", "background_tx_ratio")
    }
    return with_columns(true, **pods, **loads)

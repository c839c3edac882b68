"""Tapes for a scenario, synthetic or with the parts that real traces give, and what names them in every result."""

from __future__ import annotations

from pathlib import Path

from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads import tape as tapes
from envs.workloads.replay import TraceFolder
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import GENERATOR_VERSION, make_tape, sizes_of
from envs.workloads.tape import Tape
from training.group_tapes import TapeMaker


def open_traces(path: Path | None, skip_bad: bool = False) -> TraceFolder | None:
    return None if path is None else TraceFolder(path, skip_bad)


def make_world(scenario: Scenario, seed: int, index: int, traces: TraceFolder | None = None) -> Tape:
    """One tape; with traces, their loads, distances and pods take their part."""
    tape = make_tape(scenario, seed, index)
    return tape if traces is None else traces.applied(scenario, tape, seed, index)


def limited(world: Scenario, most_nodes: int) -> Scenario:
    """The same world with no more nodes than this; another digest, if that changes it."""
    count = world.nodes.count
    most = count.model_copy(update={"low": min(count.low, most_nodes), "high": min(count.high, most_nodes)})
    return world.model_copy(update={"nodes": world.nodes.model_copy(update={"count": most})})


def with_peak(world: Scenario, network_peak: float) -> Scenario:
    """The same world whose pods may ask for so much of its NICs."""
    return world.model_copy(update={"loads": world.loads.model_copy(update={"network_peak": network_peak})})


def tape_maker(traces: TraceFolder | None) -> TapeMaker:
    """How training makes its tapes."""
    return make_tape if traces is None else lambda scenario, seed, index: make_world(scenario, seed, index, traces)


def make_worlds(scenario: Scenario, seed: int, episodes: int, traces: TraceFolder | None = None) -> Tape:
    """A stack of so many tapes."""
    return tapes.stack([make_world(scenario, seed, index, traces) for index in range(episodes)], sizes_of(scenario))


def provenance(scenario: Scenario, seed: int, traces: TraceFolder | None = None) -> dict[str, object]:
    """What a result must name so that a change of scenario, generator, weights or traces is seen."""
    return {
        "scenario": scenario.name,
        "scenario_digest": scenario.digest(),
        "generator_version": GENERATOR_VERSION,
        "weights_digest": WEIGHTS_DIGEST,
        "seed": seed,
        "traces": None if traces is None else traces.provenance(),
    }

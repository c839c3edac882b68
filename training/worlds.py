"""Tapes for a scenario by name, synthetic or driven by real traces, with what names them in every result."""

from __future__ import annotations

from pathlib import Path

from agent.errors import InputError
from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads import tape as tapes
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import GENERATOR_VERSION, make_tape, sizes_of
from envs.workloads.tape import Tape


def make_worlds(scenario: Scenario, seed: int, episodes: int, traces: Path | None = None) -> Tape:
    """A stack of so many tapes; with a traces folder the loads, distances and pods of the traces take their part."""
    made = [make_tape(scenario, seed, index) for index in range(episodes)]
    if traces is not None:
        if not traces.is_dir():
            raise InputError(f"--traces {traces}: there is no such folder")
        from envs.workloads.replay import TraceFolder

        folder = TraceFolder(traces)
        made = [folder.applied(scenario, tape, seed, index) for index, tape in enumerate(made)]
        return tapes.stack(made)
    return tapes.stack(made, sizes_of(scenario))


def provenance(scenario: Scenario, seed: int, traces: Path | None = None) -> dict[str, object]:
    """What a result must name so that a change of scenario, generator or weights is seen."""
    return {
        "scenario": scenario.name,
        "scenario_digest": scenario.digest(),
        "generator_version": GENERATOR_VERSION,
        "weights_digest": WEIGHTS_DIGEST,
        "seed": seed,
        "traces": traces is not None,
    }

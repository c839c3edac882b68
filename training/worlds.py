"""Tapes for a scenario, synthetic or with the parts that real traces give, and what names them in every result."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.errors import InputError
from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads import tape as tapes
from envs.workloads.replay import TraceFolder
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import GENERATOR_VERSION, make_tape, sizes_of
from envs.workloads.tape import Tape
from training.group_tapes import TapeMaker

Option = Literal["traces", "recording"]
FILES: dict[Option, tuple[str, ...]] = {"traces": ("*/*.csv*",), "recording": ("*.jsonl.gz*", "*.parquet")}


@dataclass(frozen=True, slots=True)
class Origin:
    """What tapes are made of beside the generator; the digest tells whether it is still the same."""

    option: Option  # of `pilotfish train`
    path: str = field(compare=False)  # a folder that was only moved is the same
    digest: str

    def __str__(self) -> str:
        return f"--{self.option} {self.path}"


def origin_at(option: Option, path: Path) -> Origin:
    return Origin(option, str(path.resolve()), _digest(path, FILES[option]))


def origin_of(make: TapeMaker) -> Origin | None:
    """None: synthetic."""
    origin: Origin | None = getattr(make, "origin", None)
    return origin


def check_same(before: Origin | None, now: Origin | None) -> None:
    """A run goes on, and is exported, in the worlds that it began in."""
    if before == now:
        return
    if str(before) == str(now):
        raise InputError(f"{before} has changed since the run began with it; put back what it was, or begin anew")
    one, other = (origin or "synthetic worlds" for origin in (before, now))
    raise InputError(f"the run began with {one} and cannot go on with {other}; --resume alone goes on as it began")


@dataclass(frozen=True, slots=True)
class ReplayedTapes:
    """Makes tapes with the parts that real traces give."""

    traces: TraceFolder
    origin: Origin

    def __call__(self, scenario: Scenario, seed: int, number: int) -> Tape:
        return make_world(scenario, seed, number, self.traces)


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


def with_loads(world: Scenario, **changed: float | None) -> Scenario:
    """The same world with other rules for its loads; None leaves one as it is."""
    given = {name: value for name, value in changed.items() if value is not None}
    return world.model_copy(update={"loads": world.loads.model_copy(update=given)})


def tape_maker(traces: TraceFolder | None) -> TapeMaker:
    """How training makes its tapes."""
    return make_tape if traces is None else ReplayedTapes(traces, origin_at("traces", traces.path))


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


def _digest(path: Path, patterns: tuple[str, ...]) -> str:
    """Of the files that a folder can give, read or not: one more would change what is drawn."""
    found = {path} if path.is_file() else {file for pattern in patterns for file in path.glob(pattern)}
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(f"{file.relative_to(path)}\n".encode())
        try:
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        except OSError as why:
            raise InputError(f"{file}: {why.strerror or why}") from why
    return digest.hexdigest()[:12]

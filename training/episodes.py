"""One piece of an evaluation: some episodes of one scenario, played by one contestant.

A piece is small, says all it depends on, and gives the same numbers in whatever process and order it runs: that is what
lets pieces be spread over machines and repeated when one of them dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from agent.cluster import FloatArray
from envs.batch_env import BatchEnv
from envs.dynamics.costs import SECONDS_PER_HOUR, TERMS
from envs.workloads import tape as tapes
from envs.workloads.replay import TraceFolder
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import sizes_of
from envs.workloads.tape import Tape
from training.as_served import AsServed
from training.contestants import Contestant, player
from training.play import Played, Progress
from training.sampling import Sampled, Sampler, together
from training.shuffling import shuffled
from training.worlds import make_world

NODE_ROWS = 6000  # nodes of all episodes of a piece: more are hardly faster, and 500-node clusters must fit in memory


@dataclass(frozen=True, slots=True)
class Handicap:
    """What is taken from a contestant on purpose; nothing by default."""

    shuffle: tuple[str, ...] = ()  # features of nodes that are exchanged between the candidates
    assume: bool = True  # placements newer than the metrics are counted
    delay_s: float | None = None  # metrics come this late, whatever the scenario says
    missing: float = 0.0  # share of the scrapes that get lost on top

    def tape(self, tape: Tape, rng: np.random.Generator) -> Tape:
        """The same world with worse metrics: pods and loads stay what they are."""
        if self.delay_s is not None:
            tape = replace(tape, scrape_delay_s=np.full_like(tape.scrape_delay_s, self.delay_s))
            tapes.validate(tape)
        if self.missing:
            lost = tape.scrape_missing | (rng.random(tape.scrape_missing.shape) < self.missing)
            tape = replace(tape, scrape_missing=lost)
        return tape


NONE = Handicap()


@dataclass(frozen=True, slots=True)
class Piece:
    contestant: Contestant
    scenario: Scenario
    seed: int
    first: int  # number of the first episode
    count: int
    traces: Path | None = None
    skip_bad: bool = False
    handicap: Handicap = field(default=NONE)
    sample: bool = False  # look at the nodes on the way: slower


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one contestant's episodes."""

    played: Played
    asked: int  # decisions with a choice that a policy was asked for; 0 for a baseline
    answered: int
    sampled: Sampled | None = None

    @property
    def cost(self) -> FloatArray:
        return self.played.cost_per_hour

    @property
    def answered_share(self) -> float | None:
        return self.answered / self.asked if self.asked else None


def pieces_of(
    contestants: Sequence[Contestant],
    scenario: Scenario,
    seed: int,
    episodes: int,
    traces: Path | None = None,
    skip_bad: bool = False,
    handicap: Handicap = NONE,
    sample: bool = False,
) -> list[Piece]:
    """In the order in which tapes need to be made only once."""
    size = max(NODE_ROWS // int(scenario.nodes.count.high), 4)
    return [
        Piece(each, scenario, seed, first, min(size, episodes - first), traces, skip_bad, handicap, sample)
        for first in range(0, episodes, size)
        for each in contestants
    ]


def play_piece(piece: Piece, progress: Progress | None = None) -> Outcome:
    tape = _tapes.of(piece)
    env = BatchEnv(tape, assume=piece.handicap.assume)
    rng, own_rng = (np.random.default_rng((piece.seed, piece.first, stream)) for stream in (1, 2))
    distortion = shuffled(piece.handicap.shuffle, own_rng) if piece.handicap.shuffle else None
    who = player(piece.contestant, piece.scenario.name, own_rng, distortion)
    sampler = Sampler(env) if piece.sample else None
    began_s = env.clock_s.copy()
    terms = np.zeros((env.clusters, len(TERMS)))
    while not env.done.all():
        terms += env.step(who.choose(env, rng))
        if sampler is not None:
            sampler.look(env)
        if progress is not None:
            progress(float((env.clock_s / tape.horizon_s).mean()))
    hours = np.maximum((env.clock_s - began_s) / SECONDS_PER_HOUR, 1e-9)
    asked, answered = (who.asked, who.answered) if isinstance(who, AsServed) else (0, 0)
    return Outcome(Played(terms, hours, env.decisions), asked, answered, sampler.sampled() if sampler else None)


def joined(parts: Sequence[Outcome]) -> Outcome:
    """One contestant's pieces, in order, as one."""
    played = Played(
        np.concatenate([part.played.terms for part in parts]),
        np.concatenate([part.played.hours for part in parts]),
        np.concatenate([part.played.decisions for part in parts]),
    )
    sampled = [part.sampled for part in parts if part.sampled is not None]
    return Outcome(
        played,
        sum(part.asked for part in parts),
        sum(part.answered for part in parts),
        together(sampled) if sampled else None,
    )


class _Tapes:
    """The tapes of the last piece, for the next contestant on them; and the traces, which take seconds to read."""

    def __init__(self) -> None:
        self._key: object = None
        self._tape: Tape | None = None
        self._traces: dict[tuple[Path, bool], TraceFolder] = {}

    def of(self, piece: Piece) -> Tape:
        key = (piece.scenario.digest(), piece.seed, piece.first, piece.count, piece.traces, piece.handicap)
        if self._tape is None or key != self._key:
            self._tape = self._made(piece)
            self._key = key
        return self._tape

    def traces(self, path: Path | None, skip_bad: bool) -> TraceFolder | None:
        if path is None:
            return None
        if (path, skip_bad) not in self._traces:
            self._traces[path, skip_bad] = TraceFolder(path, skip_bad)
        return self._traces[path, skip_bad]

    def _made(self, piece: Piece) -> Tape:
        folder = self.traces(piece.traces, piece.skip_bad)
        made = []
        for index in range(piece.first, piece.first + piece.count):
            rng = np.random.default_rng((piece.seed, index, 3))
            made.append(piece.handicap.tape(make_world(piece.scenario, piece.seed, index, folder), rng))
        return tapes.stack(made, sizes_of(piece.scenario))


_tapes = _Tapes()

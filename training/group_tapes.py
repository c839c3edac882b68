"""Which tape every cluster plays: groups share theirs, and only those in use are kept.

Each group has a ring of rows in the stack of tapes, and its episode ``e`` lies in row ``e`` modulo the ring's length.
Two rows are enough while no member is two episodes ahead of another; where one is, the rings double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from agent.cluster import IntArray
from envs.batch_arrays import Tapes
from envs.batch_env import BatchEnv
from envs.workloads import tape as tapes
from envs.workloads.scenario import Scenario
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import Tape

TapeMaker = Callable[[Scenario, int, int], Tape]  # scenario, seed, number of the tape
NOTHING = -1


class GroupTapes:
    """Tape number ``e * groups + g`` is episode ``e`` of group ``g``: the same for the same seed, whoever is first."""

    def __init__(
        self, scenario: Scenario, groups: int, group_size: int, seed: int = 0, make: TapeMaker = make_tape
    ) -> None:
        self.scenario, self.seed, self.groups = scenario, seed, groups
        self.group = np.repeat(np.arange(groups), group_size)  # (clusters,)
        self.episode = np.zeros(groups * group_size, dtype=np.int64)  # (clusters,)
        self.held = np.tile(
            np.arange(1 if group_size == 1 else 2), (groups, 1)
        )  # (groups, ring): the episode in each row
        self._make = make

    @property
    def ring(self) -> int:
        return int(self.held.shape[1])

    def rows(self) -> IntArray:
        """The row of the stack that each cluster reads."""
        return np.asarray(self.group * self.ring + self.episode % self.ring)

    def first_stack(self) -> Tape:
        """The first episodes of every group, in the order of the rows."""
        group = np.repeat(np.arange(self.groups), self.ring)
        return self._stack(group, self.held.ravel())

    def restart(self, seed: int | None = None) -> None:
        """All members go to one new episode; with a seed, to the first one of that seed."""
        if seed is None:
            self.episode[:] = self.episode.max() + 1
        else:
            self.seed = seed
            self.episode[:] = 0
            self.held[:] = NOTHING

    def provide(self, clusters: IntArray, env: BatchEnv) -> None:
        """Make the tapes that these clusters play next, where no other member has played them before."""
        if self._spread() > self.ring:
            self._double(env)
        group, episode = self.group[clusters], self.episode[clusters]
        missing = self.held[group, episode % self.ring] != episode
        if not missing.any():
            return
        group, episode = np.unique(np.stack([group[missing], episode[missing]]), axis=1)
        env.replace_tapes(group * self.ring + episode % self.ring, self._stack(group, episode))
        self.held[group, episode % self.ring] = episode

    def _spread(self) -> int:
        """How many episodes in a row the members of one group are in."""
        by_group = self.episode.reshape(self.groups, -1)
        return int((by_group.max(axis=1) - by_group.min(axis=1)).max()) + 1

    def _stack(self, group: IntArray, episode: IntArray) -> Tape:
        numbers: Iterable[int] = (episode * self.groups + group).tolist()
        return tapes.stack([self._make(self.scenario, self.seed, n) for n in numbers], sizes_of(self.scenario))

    def _double(self, env: BatchEnv) -> None:
        """Rings twice as long; each tape moves to where the longer ring looks for it."""
        old, held = self.ring, self.held
        group, slot = np.nonzero(held != NOTHING)
        episode = held[group, slot]
        self.held = np.full((self.groups, 2 * old), NOTHING)
        self.held[group, episode % self.ring] = episode
        source = np.zeros(self.groups * self.ring, dtype=np.int64)
        source[group * self.ring + episode % self.ring] = group * old + slot
        env.use_tapes(Tapes._make(column[source] for column in env.tapes), self.rows())

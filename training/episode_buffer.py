"""What MaskablePPO learns from: decisions of several scenarios, each batch from one of them.

Scenarios differ in their number of nodes, so their decisions cannot lie in one array; padding all to the largest would
cost several times the work.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBufferSamples

from agent.cluster import FloatArray, IntArray
from agent.features import FeatureArray
from training.group_episodes import Decisions


@dataclass(frozen=True, slots=True)
class Lesson:
    """Decisions of one scenario, with how good each node was for each of them."""

    decisions: Decisions
    advantages: FeatureArray  # (decisions, nodes)
    returns: FloatArray  # (decisions,): what the critic should have said
    rows: IntArray  # the decisions that are learned from


class EpisodeBuffer:
    """Stands in for stable-baselines3's rollout buffer: ``get`` is all that MaskablePPO.train asks of it."""

    def __init__(self) -> None:
        self.lessons: Sequence[Lesson] = ()
        self._rng = np.random.default_rng()

    def fill(self, lessons: Sequence[Lesson], seed: int) -> None:
        """The next lessons; the seed fixes the order in which they are read."""
        self.lessons = lessons
        self._rng = np.random.default_rng(seed)

    @property
    def values(self) -> FloatArray:
        return np.concatenate([_of_decisions(lesson, lesson.decisions.value) for lesson in self.lessons])

    @property
    def returns(self) -> FloatArray:
        return np.concatenate([lesson.returns for lesson in self.lessons])

    def get(self, batch_size: int) -> Generator[MaskableDictRolloutBufferSamples, None, None]:
        """Every decision to learn from once, in batches of one scenario each, the batches of all scenarios mixed.

        A decision that was drawn at random is learned from as it was taken. At the others a node is drawn now, anew in
        each pass: its account is known as well.
        """
        batches = [
            (lesson, rows) for lesson in self.lessons for rows in _split(self._rng.permutation(lesson.rows), batch_size)
        ]
        for index in self._rng.permutation(len(batches)):
            lesson, rows = batches[index]
            yield _samples(lesson, rows, _actions(lesson.decisions, rows, self._rng))


def _split(rows: IntArray, size: int) -> list[IntArray]:
    return np.array_split(rows, max(round(len(rows) / size), 1))


def _actions(made: Decisions, rows: IntArray, rng: np.random.Generator) -> IntArray:
    log_p = made.log_p[rows]
    drawn = (log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1)
    return np.where(made.explored[rows], made.action[rows], drawn)


def _of_decisions(lesson: Lesson, dense: FloatArray) -> FloatArray:
    return np.asarray(dense[lesson.decisions.step, lesson.decisions.cluster])


def _samples(lesson: Lesson, rows: IntArray, actions: IntArray) -> MaskableDictRolloutBufferSamples:
    made = lesson.decisions

    def tensor(values: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.float32)

    return MaskableDictRolloutBufferSamples(
        observations={"nodes": tensor(made.nodes[rows]), "pod": tensor(made.pod[rows])},
        actions=torch.as_tensor(actions),
        old_values=tensor(_of_decisions(lesson, made.value)[rows]),
        old_log_prob=tensor(made.log_p[rows, actions]),
        advantages=tensor(lesson.advantages[rows, actions]),
        returns=tensor(lesson.returns[rows]),
        action_masks=torch.as_tensor(made.mask[rows]),
    )

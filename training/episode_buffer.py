"""What a policy learns from: decisions of several scenarios, each batch from one of them.

Scenarios differ in their number of nodes, so their decisions cannot lie in one array; padding all to the largest would
cost several times the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.features import FeatureArray


class Taken(Protocol):
    """Decisions as the policy saw them, wherever they were taken."""

    @property
    def nodes(self) -> FeatureArray: ...  # (decisions, nodes, features)

    @property
    def pod(self) -> FeatureArray: ...

    @property
    def mask(self) -> BoolArray: ...  # (decisions, nodes)

    @property
    def log_p(self) -> FeatureArray: ...  # (decisions, nodes)


@dataclass(frozen=True, slots=True)
class Lesson:
    """Decisions of one scenario, with how good each node was for each of them."""

    decisions: Taken
    advantages: FeatureArray  # (decisions, nodes)
    returns: FloatArray  # (decisions,): what the critic should have said
    rows: IntArray  # the decisions that are learned from


@dataclass(frozen=True, slots=True)
class Batch:
    """Some decisions as tensors, (decisions, ...) each."""

    nodes: Tensor
    pod: Tensor
    mask: Tensor
    log_p: Tensor  # (decisions, nodes), as they were when it was played
    advantages: Tensor  # (decisions, nodes)
    returns: Tensor


class EpisodeBuffer:
    """The lessons of one update."""

    def __init__(self) -> None:
        self.lessons: Sequence[Lesson] = ()
        self._rng = np.random.default_rng()

    def fill(self, lessons: Sequence[Lesson], seed: int) -> None:
        """The next lessons; the seed fixes the order in which they are read."""
        self.lessons = lessons
        self._rng = np.random.default_rng(seed)

    def get(self, batch_size: int) -> Iterator[Batch]:
        """Every decision to learn from once, in batches of one scenario each, the batches of all scenarios mixed."""
        batches = [
            (lesson, rows) for lesson in self.lessons for rows in _split(self._rng.permutation(lesson.rows), batch_size)
        ]
        for index in self._rng.permutation(len(batches)):
            yield _batch(*batches[index])


def _split(rows: IntArray, size: int) -> list[IntArray]:
    return np.array_split(rows, max(round(len(rows) / size), 1)) if len(rows) else []


def _batch(lesson: Lesson, rows: IntArray) -> Batch:
    made = lesson.decisions

    def tensor(values: NDArray[Any]) -> Tensor:
        return torch.as_tensor(values[rows], dtype=torch.float32)

    return Batch(
        nodes=tensor(made.nodes),
        pod=tensor(made.pod),
        mask=torch.as_tensor(made.mask[rows]),
        log_p=tensor(made.log_p),
        advantages=tensor(lesson.advantages),
        returns=tensor(lesson.returns),
    )

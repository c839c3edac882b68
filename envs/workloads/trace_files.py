"""The files of a traces folder: found by the layout that docs/traces.md gives, read once, and only when needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from agent.errors import InputError


class Trace(Protocol):
    """What a reader gives: data, and the number of malformed rows that it left out."""

    @property
    def bad_rows(self) -> int: ...


T = TypeVar("T", bound=Trace)


@dataclass
class Kind(Generic[T]):
    """One kind of trace: files that belong together, one for each pattern.

    A folder may hold several such groups (days, systems, lists); every episode draws one. A pattern can name a
    second choice after ``|``. ``read`` takes the files of a group, and whether to leave out malformed rows.
    """

    folder: Path
    patterns: tuple[str, ...]
    read: Callable[..., T]
    skip_bad: bool
    traces: dict[tuple[Path, ...], T] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        return self.folder.is_dir()

    @property
    def bad_rows(self) -> int:
        return sum(trace.bad_rows for trace in self.traces.values())

    def digests(self) -> dict[str, str]:
        """Every file read so far, by its name under the traces folder."""
        paths = sorted(path for group in self.traces for path in group)
        return {f"{self.folder.name}/{path.name}": _digest(path) for path in paths}

    def draw(self, rng: np.random.Generator) -> T:
        groups = self._groups()
        group = groups[rng.integers(len(groups))]
        if group not in self.traces:
            self.traces[group] = self.read(*group, self.skip_bad)
        return self.traces[group]

    def _groups(self) -> list[tuple[Path, ...]]:
        found = [self._matching(pattern) for pattern in self.patterns]
        if len({len(paths) for paths in found}) > 1:
            counts = ", ".join(f"{len(paths)} {name}" for paths, name in zip(found, self.patterns, strict=True))
            raise InputError(f"{self.folder}: as many files of each kind are needed, found {counts}")
        return list(zip(*found, strict=True))

    def _matching(self, pattern: str) -> list[Path]:
        choices = pattern.split("|")
        for choice in choices:
            if paths := sorted(self.folder.glob(choice)):
                return paths
        raise InputError(f"{self.folder}: no file {' or '.join(choices)}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]

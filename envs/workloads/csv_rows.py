"""One reader for every CSV trace: typed columns, and errors that name file, line and column.

The standard library's parser is used on purpose. A column parser such as polars fills short rows with nulls
and counts rows instead of lines, so its errors cannot point at the line to mend; and the sidecar, which may
import this package, does not ship one. Rows are taken in chunks and converted by column, which reads a
million rows in a few seconds.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.errors import InputError
from envs.workloads.csv_values import Columns, Converter, Integer, Number, Text, Texts

__all__ = ["Columns", "Converter", "Integer", "Number", "Table", "Text", "Texts", "read_rows"]

MAX_LINE_CHARS = 65_536  # a trace line is a few hundred; more is another kind of file
CHUNK_ROWS = 4_096  # small chunks keep the garbage collector out of it: a third faster than 32,768
_BLOCK_CHARS = 1 << 20
_SHOWN_CHARS = 40
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length. ``first_bad`` describes the first of the ``bad_rows`` that were skipped."""

    path: Path
    columns: Mapping[str, NDArray[Any]]
    lines: IntArray  # where each row stands in the file
    skip_bad: bool = False
    bad_rows: int = 0
    first_bad: str = ""

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def floats(self, column: str) -> FloatArray:
        return np.asarray(self.columns[column], dtype=np.float64)

    def ints(self, column: str) -> IntArray:
        return np.asarray(self.columns[column], dtype=np.int64)

    def texts(self, column: str) -> Texts:
        return np.asarray(self.columns[column], dtype=np.str_)

    def without(self, bad: BoolArray, column: str, why: str) -> Table:
        """What no single field shows: refuse such rows as the reader would have, or leave them out and count them."""
        if not bad.any():
            return self
        first = int(np.argmax(bad))
        found = _shown(str(self.columns[column][first]))
        message = f"{self.path}:{self.lines[first]}: column {column!r}: {found} {why}"
        if not self.skip_bad:
            raise InputError(message)
        return replace(
            self,
            columns={name: values[~bad] for name, values in self.columns.items()},
            lines=self.lines[~bad],
            bad_rows=self.bad_rows + int(bad.sum()),
            first_bad=self.first_bad or message,
        )


def read_rows(
    path: Path,
    columns: Columns,
    skip_bad: bool = False,
    optional: Columns | None = None,
    delimiter: str = ",",
) -> Table:
    """Read the named columns of a CSV or CSV.gz file; others are ignored.

    ``optional`` columns are in the table only if the file has them. A malformed row raises ``InputError``
    with file, line and column, or is left out and counted with ``skip_bad``.
    """
    try:
        with _open_text(path) as file:
            lines = _bounded_lines(file, path)
            header = [name.strip() for name in next(csv.reader(islice(lines, 1), delimiter=delimiter), [])]
            wanted = _select(path, header, columns, optional or {})
            gathered = _Gathered(path, header, wanted, delimiter, skip_bad)
            while chunk := list(islice(lines, CHUNK_ROWS)):
                gathered.add(chunk)
            return gathered.table()
    except (OSError, EOFError, zlib.error) as why:  # EOFError and zlib.error: a cut or damaged gzip file
        raise InputError(f"{path}: cannot be read: {why}") from why


def _select(path: Path, header: Sequence[str], columns: Columns, optional: Columns) -> dict[str, Converter]:
    if not header:
        raise InputError(f"{path}: is empty; expected a header with {', '.join(columns)}")
    twice = sorted({name for name in header if header.count(name) > 1 and (name in columns or name in optional)})
    if twice:
        raise InputError(f"{path}:1: column {twice[0]!r} appears more than once")
    missing = [name for name in columns if name not in header]
    if missing:
        raise InputError(f"{path}:1: no column {', '.join(missing)}; the file has {', '.join(header)}")
    return {**columns, **{name: converter for name, converter in optional.items() if name in header}}


@dataclass(slots=True)
class _Gathered:
    """The rows read so far, as arrays by chunk."""

    path: Path
    header: Sequence[str]
    wanted: Columns
    delimiter: str
    skip_bad: bool
    next_line: int = 2
    chunks: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    bad_rows: int = 0
    first_bad: str = ""

    def add(self, lines: list[str]) -> None:
        """Convert many lines at once; if any is malformed, look at them one by one."""
        numbers = list(range(self.next_line, self.next_line + len(lines)))
        try:
            chunk = self._arrays(lines)
        except (ValueError, csv.Error):
            good = [(number, line) for number, line in zip(numbers, lines, strict=True) if self._good(number, line)]
            numbers = [number for number, _ in good]
            chunk = self._arrays([line for _, line in good])
        self.chunks.append(chunk)
        self.numbers += numbers
        self.next_line += len(lines)

    def _arrays(self, lines: list[str]) -> dict[str, NDArray[Any]]:
        rows = list(csv.reader(lines, delimiter=self.delimiter, strict=True))
        if len(rows) != len(lines):  # an open quote swallowed the line end
            raise ValueError
        by_column = list(zip(*rows, strict=True)) or [()] * len(self.header)
        columns = dict(zip(self.header, by_column, strict=True))
        return {name: converter.column(columns[name]) for name, converter in self.wanted.items()}

    def _good(self, number: int, line: str) -> bool:
        try:
            row = next(csv.reader([line], delimiter=self.delimiter, strict=True), [])
        except csv.Error as why:
            return self._refuse(f"{self.path}:{number}: is not CSV: {why}: {_shown(line)}")
        if not row:
            return False  # a blank line is no row, and no fault
        if len(row) != len(self.header):
            return self._refuse(f"{self.path}:{number}: {len(row)} fields where the header has {len(self.header)}")
        for name, converter in self.wanted.items():
            text = row[self.header.index(name)]
            try:
                converter.parse(text)
            except ValueError as why:
                return self._refuse(f"{self.path}:{number}: column {name!r}: {_shown(text)} {why}")
        return True

    def _refuse(self, message: str) -> bool:
        if not self.skip_bad:
            raise InputError(message)
        self.bad_rows += 1
        self.first_bad = self.first_bad or message
        return False

    def table(self) -> Table:
        chunks = self.chunks or [self._arrays([])]
        columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in self.wanted}
        lines = np.array(self.numbers, dtype=np.int64)
        return Table(self.path, columns, lines, self.skip_bad, self.bad_rows, self.first_bad)


def _open_text(path: Path) -> TextIO:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def _bounded_lines(file: TextIO, path: Path) -> Iterator[str]:
    """Lines of a bounded length: a file without line ends must not fill the memory."""
    number, rest = 0, ""
    while block := file.read(_BLOCK_CHARS):
        *lines, rest = (rest + block).split("\n")
        if max(map(len, [*lines, rest])) > MAX_LINE_CHARS:
            number += next(i for i, line in enumerate([*lines, rest], 1) if len(line) > MAX_LINE_CHARS)
            raise InputError(f"{path}:{number}: line is longer than {MAX_LINE_CHARS} characters")
        yield from lines
        number += len(lines)
    if rest:
        yield rest


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")

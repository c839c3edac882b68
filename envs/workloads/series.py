"""Loads over time as the simulators want them, and how sampled rows become such arrays.

Axis 0 is time in equal steps, axis 1 the nodes or apps. A trace is nearly always shorter, or of another
width, than the world that replays it; how it is stretched is said here once and not in every importer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.errors import InputError


@dataclass(frozen=True, slots=True)
class BackgroundSeries:
    """Load of every node that is not ours to place; each ``(steps, nodes)`` within 0..1 of the capacity."""

    step_s: float
    cpu_ratio: FloatArray
    rx_ratio: FloatArray
    tx_ratio: FloatArray

    def resampled(self, step_s: float, horizon_s: float) -> BackgroundSeries:
        """The same loads in other steps, by linear interpolation."""
        arrays = (resample(a, self.step_s, step_s, horizon_s) for a in (self.cpu_ratio, self.rx_ratio, self.tx_ratio))
        return BackgroundSeries(step_s, *arrays)


@dataclass(frozen=True, slots=True)
class AppLoad:
    """How busy every app is, ``(steps, apps)``, as a multiple of its own mean over the series."""

    step_s: float
    load: FloatArray

    def resampled(self, step_s: float, horizon_s: float) -> AppLoad:
        return AppLoad(step_s, resample(self.load, self.step_s, step_s, horizon_s))


def steps_for(horizon_s: float, step_s: float) -> int:
    """Steps that cover the horizon, its last moment included."""
    return ceil(horizon_s / step_s) + 1


def resample(values: FloatArray, from_step_s: float, to_step_s: float, horizon_s: float) -> FloatArray:
    """Linear interpolation along axis 0; after the last sample its value holds."""
    wanted = np.arange(steps_for(horizon_s, to_step_s)) * (to_step_s / from_step_s)
    wanted = np.minimum(wanted, len(values) - 1)
    before = np.minimum(wanted.astype(np.int64), max(len(values) - 2, 0))
    after = np.minimum(before + 1, len(values) - 1)
    share = (wanted - before)[:, None]
    return np.asarray(values[before] * (1 - share) + values[after] * share, dtype=np.float64)


def pivot(step: IntArray, column: IntArray, values: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Rows to ``(steps, columns)``: samples of one cell are averaged, a cell without a sample is NaN."""
    steps, columns = shape
    cell = step * columns + column
    known = np.isfinite(values)
    total = np.bincount(cell[known], weights=values[known], minlength=steps * columns)
    count = np.bincount(cell[known], minlength=steps * columns)
    with np.errstate(invalid="ignore"):
        return np.asarray((total / count).reshape(shape), dtype=np.float64)


def filled_forward(values: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Repeat the last sample into the gaps (the first one backwards), and say which cells were gaps."""
    gaps = np.isnan(values)
    row = np.where(gaps, 0, np.arange(len(values))[:, None])
    last = np.maximum.accumulate(row, axis=0)
    first = np.argmin(gaps, axis=0)  # the first sample, for gaps before it
    last = np.maximum(last, first[None, :])
    return np.take_along_axis(values, last, axis=0), gaps


def window(length: int, steps: int, rng: np.random.Generator) -> IntArray:
    """Indices of a random stretch of the trace; a world longer than the trace reads it to and fro.

    Reading backwards after the end keeps every step as likely and as smooth as recorded; starting again
    from the first sample would put a jump where none was measured.
    """
    if steps <= length:
        return np.arange(steps) + rng.integers(length - steps + 1)
    there_and_back: IntArray = np.concatenate([np.arange(length), np.arange(length - 2, 0, -1)])
    position = (np.arange(steps) + rng.integers(length)) % len(there_and_back)
    return np.asarray(there_and_back[position], dtype=np.int64)


def choose(available: int, wanted: int, rng: np.random.Generator) -> IntArray:
    """Columns of the trace for the nodes: each at most once more than any other."""
    rounds = [rng.permutation(available) for _ in range(ceil(wanted / available))]
    return np.concatenate([*rounds, np.zeros(0, np.int64)])[:wanted].astype(np.int64)


def refuse_repeats(where: str, step: IntArray, column: IntArray, names: tuple[str, ...], steps: int) -> None:
    """Two rows for one cell mean that the file is not what it claims to be."""
    count = np.bincount(column * steps + step, minlength=steps * len(names))
    if (count > 1).any():
        repeated = int(np.argmax(count > 1))
        raise InputError(f"{where}: {names[repeated // steps]} has step {repeated % steps} more than once")

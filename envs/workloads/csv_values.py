"""How the text of a CSV cell becomes a value: finite, within its range, or refused with a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.cluster import FloatArray, IntArray

Texts = NDArray[np.str_]


class Converter(Protocol):
    """How the texts of one column become values; ``ValueError`` says what is wrong with a text."""

    def parse(self, text: str) -> Any: ...

    def column(self, texts: Sequence[str]) -> NDArray[Any]:
        """All texts at once, fast; raises if any is bad, without saying which."""
        ...


Columns = Mapping[str, Converter]


@dataclass(frozen=True, slots=True)
class Number:
    """A finite float in [minimum, maximum]; an empty text is ``empty``, or refused when that is None."""

    minimum: float = -np.inf
    maximum: float = np.inf
    empty: float | None = None

    def parse(self, text: str) -> float:
        if not text.strip() and self.empty is not None:
            return self.empty
        return float(_checked(_as_float(text), self.minimum, self.maximum))

    def column(self, texts: Sequence[str]) -> FloatArray:
        if self.empty is not None:
            return np.fromiter(map(self.parse, texts), np.float64, len(texts))
        _refuse_underscores(texts)
        values = np.fromiter(map(float, texts), np.float64, len(texts))
        if not (np.isfinite(values) & (values >= self.minimum) & (values <= self.maximum)).all():
            raise ValueError
        return values


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number in [minimum, maximum]; ``3.0`` is read as 3, since some writers turn counts into floats."""

    minimum: int = -(2**62)
    maximum: int = 2**62
    empty: int | None = None

    def parse(self, text: str) -> int:
        if not text.strip() and self.empty is not None:
            return self.empty
        return int(_checked(_as_int(text), self.minimum, self.maximum))

    def column(self, texts: Sequence[str]) -> IntArray:
        try:
            _refuse_underscores(texts)
            values = np.fromiter(map(int, texts), np.int64, len(texts))
        except (ValueError, OverflowError):  # empty or 3.0: one by one
            return np.fromiter(map(self.parse, texts), np.int64, len(texts))
        if not ((values >= self.minimum) & (values <= self.maximum)).all():
            raise ValueError
        return values


@dataclass(frozen=True, slots=True)
class Text:
    """A name. ``choices`` lists the allowed ones; ``empty`` allows an empty text."""

    choices: tuple[str, ...] = ()
    empty: bool = False
    max_chars: int = 256

    def parse(self, text: str) -> str:
        text = text.strip()
        if not text and not self.empty:
            raise ValueError("is empty")
        if "\ufffd" in text:  # what undecodable bytes were read as
            raise ValueError("is not UTF-8 text")
        if len(text) > self.max_chars:
            raise ValueError(f"is longer than {self.max_chars} characters")
        if text and self.choices and text not in self.choices:
            raise ValueError(f"is none of {', '.join(self.choices)}")
        return text

    def column(self, texts: Sequence[str]) -> Texts:
        parsed = {text: self.parse(text) for text in set(texts)}  # names repeat, so parse each once
        return np.array([parsed[text] for text in texts], dtype=np.str_)


def _refuse_underscores(texts: Sequence[str]) -> None:
    if "_" in "".join(texts):
        raise ValueError


def _as_float(text: str) -> float:
    if "_" in text:  # float() takes 1_000, no CSV writer means it
        raise ValueError("is not a number")
    try:
        return float(text)
    except ValueError:
        raise ValueError("is not a number" if text.strip() else "is empty") from None


def _as_int(text: str) -> int:
    try:
        if "_" not in text:
            return int(text)
    except ValueError:
        pass
    number = _as_float(text)
    if not number.is_integer():
        raise ValueError("is not a whole number")
    return int(number)


def _checked(value: float, minimum: float, maximum: float) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("is not finite")
    if value < minimum:
        raise ValueError("is negative" if minimum == 0 else f"is below {minimum:g}")
    if value > maximum:
        raise ValueError(f"is above {maximum:g}")
    return value

"""Kubernetes resource quantities, read as ``resource.Quantity`` of apimachinery reads them.

A quantity is held as a whole number of nano-units, the finest step that Kubernetes keeps: no float ever touches
it, so sums are exact and are rounded once, at the end, as kube-scheduler does. Anything finer is rounded away
from zero: who asks for some of a resource gets some of it.

Three differences, all on texts that the API server never sends, because it validates and writes canonical forms:

* beyond the range of int64 the result is the limit; Go wraps around or gives 0, so that the largest request
  would look like the smallest;
* negative fractions round away from zero always; Go does so only for short ones;
* a text without digits (``k``, ``+``) is refused, as the documented grammar says; Go reads 0.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from agent.errors import InputError

Quantity = str | int | float  # as JSON carries it; a number stands for its own text

INT64_MAX = 2**63 - 1
MAX_TEXT_LENGTH = 64  # the longest canonical form has 21 characters

_NANOS_PER_UNIT = 10**9
_NANOS_PER_MILLI = 10**6
_MAX_NANOS = INT64_MAX * _NANOS_PER_UNIT
_MAX_EXPONENT = 200  # with 64 digits at most, all that lies beyond is over the cap or below one nano
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_FACTORS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE]?))"
)


def millicores(quantity: Quantity) -> int:
    """CPU in thousandths of a core, rounded up (``MilliValue``)."""
    return whole_millis(nanos(quantity))


def value(quantity: Quantity) -> int:
    """Whole units (bytes, devices, bits per second), rounded up (``Value``)."""
    return whole_units(nanos(quantity))


def whole_millis(amount_nanos: int) -> int:
    """Nano-units as thousandths, rounded away from zero and capped to int64."""
    return _capped(_divided_up(amount_nanos, _NANOS_PER_MILLI), INT64_MAX)


def whole_units(amount_nanos: int) -> int:
    """Nano-units as whole units, rounded away from zero and capped to int64."""
    return _capped(_divided_up(amount_nanos, _NANOS_PER_UNIT), INT64_MAX)


def nanos(quantity: Quantity) -> int:
    """The exact amount in nano-units; raises ``InputError`` for what Kubernetes refuses."""
    return _nanos(_text_of(quantity))


@lru_cache(maxsize=4096)
def _nanos(text: str) -> int:
    """A cluster writes few quantities, and each of them for thousands of pods."""
    matched = _TEXT.fullmatch(text)
    if matched is None:
        raise _refused(text)
    fraction = matched["fraction"] or ""
    digits = int(matched["whole"] + fraction)
    factor, exponent = _scale(matched["suffix"] or "", matched["exponent"])
    amount = _shifted_up(digits * factor, exponent - len(fraction) + 9)
    return _capped(-amount if matched["sign"] == "-" else amount, _MAX_NANOS)


def _text_of(quantity: Quantity) -> str:
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float)):
        raise _refused(quantity)
    if isinstance(quantity, float) and not math.isfinite(quantity):
        raise _refused(quantity)
    if isinstance(quantity, int):  # str() of an enormous int is slow, and fails above 4,300 digits
        quantity = _capped(quantity, INT64_MAX)
    text = str(quantity)
    if len(text) > MAX_TEXT_LENGTH:
        raise InputError(f"quantity of {len(text)} characters ({text[:20]!r}...): at most {MAX_TEXT_LENGTH} are read")
    return text


def _scale(suffix: str, exponent: str | None) -> tuple[int, int]:
    """The suffix as a whole factor and a power of ten."""
    if exponent is not None:
        return 1, _capped(int(exponent), _MAX_EXPONENT)
    if suffix in _BINARY_FACTORS:
        return _BINARY_FACTORS[suffix], 0
    return 1, _DECIMAL_EXPONENTS[suffix]


def _shifted_up(digits: int, exponent: int) -> int:
    """``digits * 10**exponent``, rounded up to a whole number."""
    power: int = 10 ** abs(exponent)
    return digits * power if exponent >= 0 else _divided_up(digits, power)


def _divided_up(amount: int, divisor: int) -> int:
    rounded = -(-abs(amount) // divisor)
    return -rounded if amount < 0 else rounded


def _capped(amount: int, limit: int) -> int:
    return max(-limit, min(amount, limit))


def _refused(quantity: object) -> InputError:
    return InputError(
        f"{quantity!r} is not a Kubernetes quantity: write a number and at most one suffix "
        "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e and an exponent), such as 250m, 1.5Gi or 2e3"
    )

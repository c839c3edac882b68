"""Reading JSON objects field by field: the wrong type is one clear error that names the field.

Absent and null are the same: Go writes null for what is empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from agent.errors import InputError

Json = Mapping[str, Any]
T = TypeVar("T")

_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def typed(holder: Json, key: str, kind: type[T], default: T) -> T:
    found = holder.get(key)
    if found is None:
        return default
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise InputError(f"{key!r} must be {_NAMES[kind]}, not {_NAMES.get(type(found), type(found).__name__)}")
    return found


def text(holder: Json, key: str) -> str:
    return typed(holder, key, str, "")


def an_object(holder: Json, key: str) -> Json:
    return typed(holder, key, dict, {})


def objects(holder: Json, key: str) -> Sequence[Json]:
    found = typed(holder, key, list, [])
    if not all(isinstance(each, dict) for each in found):
        raise InputError(f"{key!r} must be a list of objects")
    return found


def texts(holder: Json, key: str) -> tuple[str, ...]:
    found = typed(holder, key, list, [])
    if not all(isinstance(each, str) for each in found):
        raise InputError(f"{key!r} must be a list of strings")
    return tuple(found)


def text_map(holder: Json, key: str) -> dict[str, str]:
    found = typed(holder, key, dict, {})
    if not all(isinstance(each, str) for each in found.values()):
        raise InputError(f"every value of {key!r} must be a string")
    return found


def number(holder: Json, key: str, low: float, high: float) -> float | None:
    found = holder.get(key)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"{key!r} must be a number, not {_NAMES.get(type(found), type(found).__name__)}")
    if not math.isfinite(found) or not low <= found <= high:
        raise InputError(f"{key!r} must be from {low:g} to {high:g}, not {found:g}")
    return float(found)


def whole_number(holder: Json, key: str, low: int, high: int) -> int:
    found = number(holder, key, low, high) or 0.0
    if found != int(found):
        raise InputError(f"{key!r} must be a whole number, not {found:g}")
    return int(found)


def only(holder: Json, known: Sequence[str], where: str) -> None:
    """A misspelt field must not pass silently."""
    unknown = sorted(set(holder) - set(known))
    if unknown:
        raise InputError(f"{where}: unknown field {unknown[0]!r}; choose from {', '.join(known)}")

"""Tuned linear scorers on disk: one JSON file of named weights, with the facts that say where they come from.

Weights have names, so they outlive a feature that is added; a name that the schema does not have is refused.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from agent.errors import InputError
from agent.features import SCHEMA_VERSION
from agent.linear import LinearScorer, weights_from

RELEASED = Path(__file__).parent / "released" / "linear" / "weights.json"
MIX = "mix"  # the one vector for all scenarios; the others are named after their scenario


def load_linear(name: str = MIX, path: Path = RELEASED) -> LinearScorer:
    """The scorer of this vector; as a scorer it is called linear_<name>."""
    entry = _vector(read_vectors(path), name, path)
    weights = entry.get("weights")
    if not isinstance(weights, dict) or not all(_is_number(value) for value in weights.values()):
        raise InputError(f"{path}: the weights of {name} are no table of finite numbers")
    return LinearScorer(weights_from(weights), f"linear_{name}")


def vector_names(path: Path = RELEASED) -> list[str]:
    return list(read_vectors(path))


def read_vectors(path: Path = RELEASED) -> dict[str, Any]:
    """Every vector with its facts, by name."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as why:
        raise InputError(f"{path}: {why.strerror or why}") from why
    except ValueError as why:
        raise InputError(f"{path}: not a JSON file: {why}") from why
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, int) or not isinstance(content.get("vectors"), dict):
        raise InputError(f"{path}: not a file of linear scorers: schema_version or vectors is missing")
    if version > SCHEMA_VERSION:
        raise InputError(f"{path}: made for feature schema {version}, this is {SCHEMA_VERSION}: update pilotfish")
    vectors: dict[str, Any] = content["vectors"]
    return vectors


def write_vectors(vectors: dict[str, Any], path: Path) -> None:
    """All or nothing: beside the file first, then in its place."""
    beside = path.with_name(path.name + ".new")
    content = {"schema_version": SCHEMA_VERSION, "vectors": vectors}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as why:
        raise InputError(f"{path}: {why.strerror or why}") from why


def _vector(vectors: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    if name not in vectors:
        raise InputError(f"no linear scorer {name} in {path}: choose from {', '.join(vectors)}")
    entry: dict[str, Any] = vectors[name]
    return entry


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

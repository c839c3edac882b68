"""What a search over training configurations varies: fields by their dotted names, and where each may go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from agent.errors import InputError
from training.config import TrainConfig, parse_config

FOLDER = Path(__file__).parent / "spaces"


class Choices(BaseModel):
    """One of these."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    choices: list[bool | int | float | str | None] = Field(min_length=1)


class Range(BaseModel):
    """Evenly between two numbers, or evenly by their logarithm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)
    log: bool = False

    @model_validator(mode="after")
    def in_order(self) -> Range:
        if self.low >= self.high or (self.log and self.low <= 0):
            raise ValueError(f"low {self.low:g} and high {self.high:g}: low must be less, and above 0 with log")
        return self

    def at(self, share: float) -> float:
        """The value so far along the range."""
        if self.log:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)


Space = Mapping[str, Choices | Range]
_SPACE: TypeAdapter[dict[str, Choices | Range]] = TypeAdapter(dict[str, Choices | Range])


def load_space(name: str, base: TrainConfig) -> Space:
    """A space by its name in training/spaces, or by the path of a YAML file; checked against the configuration."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise InputError(f"unknown search space {name!r}; choose one of {known}, or a .yaml file")
    try:
        space = _SPACE.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as why:
        raise InputError(f"{path}: not YAML: {' '.join(str(why).split())}") from why
    except ValidationError as why:
        raise InputError(f"{path}: {'; '.join(_problem(error) for error in why.errors())}") from why
    for field, values in space.items():
        ends = values.choices if isinstance(values, Choices) else [values.low, values.high]
        for value in ends:
            changed(base, {field: value}, str(path))
    return space


def changed(base: TrainConfig, values: Mapping[str, Any], origin: str = "tune") -> TrainConfig:
    """The configuration with some fields of other values, validated."""
    content = base.model_dump(mode="json")
    for field, value in values.items():
        *parents, last = field.split(".")
        place: Any = content
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last not in place:
            raise InputError(f"{origin}: {field} is no field of a training configuration")
        place[last] = value
    return parse_config(content, origin)


def present(base: TrainConfig, space: Space) -> dict[str, Any]:
    """The values that the configuration has now: the first sample, so that no search ends below where it began."""
    content = base.model_dump(mode="json")
    values = {}
    for field in space:
        place: Any = content
        for part in field.split("."):
            place = place[part]
        values[field] = place
    return values


def _problem(error: Any) -> str:
    return f"{'.'.join(str(part) for part in error['loc'])}: {error['msg'].removeprefix('Value error, ')}"

"""Settings of ``pilotfish train-gpu``: read from YAML, every field explained here, unknown keys refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent.errors import InputError
from agent.features import NODE_FEATURES
from envs.openb_policy import NO_WEIGHT

Kinds = Literal["two", "four", "all"]
CONFIG = Path(__file__).parent / "configs" / "gpu.yaml"


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Columns(_Settings):
    """Names of node features, by what they serve."""

    packing: tuple[str, ...] = Field(description="a weight for each kind of pod")
    cost: tuple[str, ...] = Field(description="one weight for all kinds of pods; of no effect in the packing world")

    @model_validator(mode="after")
    def known(self) -> Columns:
        unknown = sorted({*self.packing, *self.cost} - (set(NODE_FEATURES) - set(NO_WEIGHT)))
        if unknown:
            raise ValueError(f"no features that can have a weight: {', '.join(unknown)}")
        return self


class Phase(_Settings):
    """One search, from where the last one ended."""

    name: str
    columns: tuple[str, ...] = Field(description="which weights move: packing, cost or both")
    kinds: Kinds = Field("all", description="packing weights by kind of pod: two (GPUs or none), four, or all gates")
    generations: int = Field(ge=1)
    problems: int = Field(ge=0, description="packing problems in every generation, new ones each time")
    episodes: int = Field(ge=0, description="episodes of scenario gpu in every generation, new ones each time")
    spread: float = Field(gt=0, description="standard deviation of the first draws")


class GpuConfig(_Settings):
    seed: int = Field(ge=0, lt=1_000_000, description="seeds from 1,000,000 on are held out")
    lists: tuple[str, ...] = Field(min_length=2, description="openb lists that problems are mixed from, two at a time")
    node_share: float = Field(gt=0, le=1, description="of the openb nodes, drawn anew for each problem")
    pods: int = Field(ge=100, description="drawn from the two lists for each problem")
    phases: tuple[Phase, ...] = Field(min_length=1)
    population: int = Field(ge=4, description="vectors of weights in a generation")
    elite: int = Field(ge=2, description="how many of them the next generation is drawn around")
    step: float = Field(gt=0, le=1, description="how far mean and spread move to those of the elite")
    least_spread: float = Field(ge=0)
    dollar_weight: float = Field(
        gt=0, description="of cost over that of most pods first, beside unallocated over FGD's"
    )
    start: dict[str, float] = Field(description="first weights, the same for every kind of pod")
    columns: Columns
    empty_columns: Columns = Field(description="features that have one more weight where the node is empty")
    from_linear: tuple[str, ...] = Field(
        (),
        description="features, 0 in the packing world, that in the end take the weights of the linear scorer of gpu",
    )

    beside: int = Field(
        0,
        ge=0,
        description="decisions for a last search of these, by kind of pod, with the default model beside it",
    )

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def read_config(path: Path) -> GpuConfig:
    try:
        return GpuConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as why:
        raise InputError(f"{path}: {why.strerror}") from why
    except yaml.YAMLError as why:
        raise InputError(f"{path}: not YAML: {why}") from why
    except ValidationError as why:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in why.errors()[:3])
        raise InputError(f"{path}: {problems}") from why

"""How a policy is trained: one YAML file, every field explained, unknown keys refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agent.errors import InputError
from agent.heuristics.registry import SCORERS
from envs.workloads.scenario import Scenario, load_scenario
from models.linear import vector_names
from training.worlds import limited, with_loads

FOLDER = Path(__file__).parent / "configs"
NONE = "none"  # as a prior
LATER_FIELDS = ("varied_loads", "head_loads", "head_from")  # configurations without them have kept the digest of before
FIRST_HELD_OUT_SEED = 1_000_000  # training stays below it, evaluation begins there

Share = Annotated[float, Field(gt=0.0, le=1.0)]
Settings = TypeVar("Settings", bound=BaseModel)
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Loads(Part):
    """Of a world, instead of the scenario's own."""

    network_peak: Positive | None = Field(None, description="null: as the scenario says, whatever learning has")
    varied_loads: Share | None = Field(None, description="null: as the scenario says, whatever learning has")


class World(Part):
    """A scenario in the mix."""

    scenario: str = Field(description="a name from `pilotfish scenarios`, or a YAML file")
    groups: int = Field(12, ge=1, description="tapes of it in each update; each is played by a whole group")
    account: Literal["pod", "cluster"] = Field(
        "pod",
        description="pod: judged by the dollars its own pod makes (envs/batch_credit.py); cluster: by all dollars",
    )
    own_head: int = Field(
        0,
        ge=0,
        description="decisions for the search of a head of its own in the end; 0, or with --steps or --minutes: none",
    )
    head_loads: Loads | None = Field(None, description="with which that head is searched for; null: those of learning")
    head_from: str | None = Field(
        None,
        description="another world, whose own head that search starts from; null: what was learned, or a linear scorer",
    )


class Network(Part):
    hidden: int = Field(64, ge=4, le=512, description="width of the layers")
    prior: str = Field(
        "mix",
        description="linear scorer that learning starts from (models/linear.py); none: nothing",
    )
    sharpness: Positive = Field(0.5, description="how far the first policy trusts that scorer: its scores times this")

    @field_validator("prior")
    @classmethod
    def released(cls, name: str) -> str:
        choices = (NONE, *vector_names())
        if name not in choices:
            raise ValueError(f"unknown linear scorer {name!r}: choose from {', '.join(choices)}")
        return name


class Credit(Part):
    """How a decision is judged."""

    group_size: int = Field(4, ge=2, description="clusters that share a tape and are compared with each other")
    discount_s: Positive = Field(300.0, description="dollars that are spent so much later count 1/e")
    trace_s: Positive = Field(300.0, description="after so long the critic is trusted rather than what was seen")
    limit: Positive = Field(10.0, description="no advantage counts more than so many times their spread")
    explored: Share = Field(0.2, description="of the decisions, drawn at random; the others as served")
    least: float = Field(0.1, ge=0.0, description="decisions with less at stake, as a share of the usual, are left out")


class Learning(Part):
    first_rate: Positive = Field(1e-3, description="learning rate at the start")
    last_rate: Positive = Field(1e-4, description="at the end; straight in between")
    epochs: int = Field(3, ge=1, description="passes over each batch of episodes")
    batch_size: int = Field(1024, ge=1, description="decisions in a step of the optimiser, at 20 nodes")
    clip_range: Share = Field(0.15, description="PPO's limit for the change of a probability")
    entropy: float = Field(0.002, ge=0.0, description="reward for staying undecided")
    target_kl: Positive | None = Field(0.05, description="an update stops when the policy moved so far; null: never")
    renewal: Share = Field(0.1, description="share of the new weights in the running mean that is released")
    critic_weight: float = Field(0.5, ge=0.0, description="of the critic's error in the loss")
    gradient_limit: Positive = Field(0.5, description="longest step of the gradient")


class Watching(Part):
    """How progress is judged while it trains."""

    every: int = Field(10, ge=1, description="updates between two evaluations")
    episodes: int = Field(32, ge=1, description="of each scenario, always the same ones")
    seed: int = Field(900_000, ge=0, lt=FIRST_HELD_OUT_SEED, description="of those episodes")
    baselines: list[str] = Field(
        ["expected_utilisation", "least_allocated", "most_allocated", "network_overhead"],
        min_length=1,
        description="heuristics to compare with, beside expected_utilisation; the linear mix too, unless prior is none",
    )
    patience: int | None = Field(None, ge=1, description="stop after so many evaluations without a better one")

    @field_validator("baselines")
    @classmethod
    def known(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in SCORERS:
                raise ValueError(f"unknown heuristic {name!r}: choose from {', '.join(SCORERS)}")
        return names


class TrainConfig(Part):
    """A training run."""

    worlds: list[World] = Field(min_length=1, description="the scenarios; each counts alike, however dear it is")
    most_nodes: int = Field(100, ge=1, description="scenarios are cut to it; larger clusters show how it generalises")
    network_peak: Positive | None = Field(
        None,
        description="instead of the scenarios' own: where NICs are short, losses are common enough to learn from",
    )
    varied_loads: Share | None = Field(
        None,
        description="instead of the scenarios' own: the share of the episodes in which each load moves in its own way",
    )
    decisions: int = Field(20_000_000, ge=1, description="how many to learn from; --steps and --minutes override it")
    seed: int = Field(1, ge=0, lt=FIRST_HELD_OUT_SEED, description="of everything that is drawn at random")
    threads: int = Field(2, ge=1, description="of torch and of the simulator; another number, other rounding")
    network: Network = Network()
    credit: Credit = Credit()
    learning: Learning = Learning()
    watching: Watching = Watching()

    @model_validator(mode="after")
    def heads_from_others(self) -> Self:
        first = [world.scenario for world in self.worlds if world.own_head and world.head_from is None]
        for world in self.worlds:
            if world.own_head and world.head_from not in (None, *first):
                raise ValueError(
                    f"head_from of {world.scenario}: {world.head_from!r} has no head of its own that is searched for"
                    f" first: choose from {', '.join(first) or 'none'}"
                )
        return self

    def digest(self) -> str:
        text = json.dumps(_used(self.model_dump(mode="json")), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def without_heads(self) -> TrainConfig:
        """The same for a run that has no time to search for heads of the worlds' own."""
        return self.model_copy(update={"worlds": [world.model_copy(update={"own_head": 0}) for world in self.worlds]})

    def scenarios(self) -> list[Scenario]:
        """Where it learns."""
        return [self._scenario(world, self.network_peak, self.varied_loads) for world in self.worlds]

    def head_scenarios(self) -> list[Scenario]:
        """Where the worlds' own heads are searched for."""
        loads = [world.head_loads or self for world in self.worlds]
        return [
            self._scenario(world, each.network_peak, each.varied_loads)
            for world, each in zip(self.worlds, loads, strict=True)
        ]

    def heads_from(self) -> list[str | None]:
        """The scenario whose head the search for that of each world starts from."""
        names = {world.scenario: scenario.name for world, scenario in zip(self.worlds, self.scenarios(), strict=True)}
        return [names.get(world.head_from) if world.head_from else None for world in self.worlds]

    def _scenario(self, world: World, network_peak: float | None, varied: float | None) -> Scenario:
        scenario = limited(load_scenario(world.scenario), self.most_nodes)
        return with_loads(scenario, network_peak=network_peak, varied=varied)


def _used(content: Any) -> Any:
    """Without the later fields that are not used, wherever they are."""
    if isinstance(content, list):
        return [_used(each) for each in content]
    if not isinstance(content, dict):
        return content
    return {name: _used(value) for name, value in content.items() if name not in LATER_FIELDS or value is not None}


def load_config(name: str) -> TrainConfig:
    """A configuration by its name in training/configs, or by the path of a YAML file."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise InputError(f"unknown configuration {name!r}; choose one of {known}, or a .yaml file")
    return parse_config(read_yaml(path), str(path))


def parse_config(content: Any, origin: str) -> TrainConfig:
    return validated(TrainConfig, content, origin)


def read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as why:
        raise InputError(f"{path}: not YAML: {' '.join(str(why).split())}") from why


def validated(kind: type[Settings], content: Any, origin: str) -> Settings:
    """The configuration, or one line about every field that is wrong."""
    try:
        return kind.model_validate(content)
    except ValidationError as why:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in why.errors())
        raise InputError(f"{origin}: {problems}") from why

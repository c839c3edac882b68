"""A scenario: a named world, described in one YAML file of ``envs/scenarios`` and checked when it is read."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agent.cluster import GPUS_PER_NODE
from agent.errors import InputError
from envs.workloads.tape import MOST_DECISIONS_LATE, RING

FOLDER = Path(__file__).parent.parent / "scenarios"

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Span(Part):
    """A range from which each episode draws its own value, evenly."""

    low: NotNegative
    high: NotNegative

    @model_validator(mode="after")
    def in_order(self) -> Span:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self


class LogNormal(Part):
    """Heavy-tailed positive values: the median, and the spread of the logarithm."""

    median: Positive
    sigma: NotNegative


class CutLogNormal(LogNormal):
    """The same for shares of a capacity or a request: what lies above ``most`` becomes ``most``."""

    most: Positive


Amount = Span | CutLogNormal


class NodeKind(Part):
    share: Positive = Field(1.0, description="how common this kind is, relative to the others")
    cpu_cores: Positive
    memory_gib: Positive
    nic_gbps: Positive
    price_usd_per_hour: NotNegative
    power_idle_watts: NotNegative
    power_peak_watts: NotNegative
    gpus: int = Field(0, ge=0, le=GPUS_PER_NODE)
    pods: int = Field(110, ge=1)


class Fleet(Part):
    count: Span = Field(description="nodes, drawn for each episode")
    zones: int = Field(3, ge=1, le=16)
    zone_rtt_ms: Span = Span(low=0.3, high=2.0)
    same_zone_rtt_ms: NotNegative = 0.1
    kinds: list[NodeKind] = Field(min_length=1)
    nic_unknown: Share = Field(0.1, description="share of the nodes whose NIC speed the sidecar cannot learn")
    user_latency_ms: Span = Field(Span(low=5, high=20), description="per zone; each node differs by up to a fifth")
    maintenance: Share = Field(0.0, description="share of the nodes that go into maintenance once an episode")

    @field_validator("count")
    @classmethod
    def at_least_one(cls, count: Span) -> Span:
        if count.low < 1:
            raise ValueError(f"low {count.low:g}: a cluster has at least 1 node")
        return count


class Apps(Part):
    count: int = Field(12, ge=1, le=500)
    popularity: NotNegative = Field(0.7, description="Zipf exponent: how unequal the apps are in number of pods")
    cpu_request_millicores: LogNormal
    memory_mib_per_core: LogNormal
    cpu_use_ratio: Amount = Field(
        CutLogNormal(median=0.3, sigma=0.8, most=1.2), description="use over request, drawn for each app"
    )
    memory_use_ratio: Amount = CutLogNormal(median=0.33, sigma=0.8, most=1.0)
    use_jitter: NotNegative = Field(0.15, description="relative spread between the pods of one app")
    external_mbps: LogNormal = Field(description="receive plus transmit of a pod, outside the cluster; per app")
    receive_share: Span = Span(low=0.19, high=0.53)
    chatty: Share = Field(0.5, description="share of the apps whose pods talk to each other")
    sibling_mbps: LogNormal = LogNormal(median=40, sigma=0.8)
    labelled: Share = Field(0.85, description="share of the apps whose pods carry an owner or part-of label")
    sibling_declared: Share = Field(0.2, description="share of the apps that declare their sibling traffic")
    annotated: Share = Field(0.2, description="share of the pods with a network annotation")
    annotation_error: NotNegative = Field(0.3, description="spread of the logarithm of annotated over true")
    latency_limited: Share = 0.0
    latency_soft_ms: Span = Span(low=15, high=40)
    latency_hard_over_soft: Positive = 2.5


class Gpus(Part):
    """Pods that ask for GPUs; shares of one GPU and whole ones."""

    share: Share = Field(0.0, description="share of the pods that ask for any")
    fractional: Share = Field(0.4, description="of those, share that ask for a part of one GPU")
    whole: dict[Annotated[int, Field(ge=1, le=GPUS_PER_NODE)], Positive] = Field(
        {1: 0.8, 2: 0.05, 4: 0.05, 8: 0.1}, min_length=1, description="whole GPUs: how common"
    )


class Arrivals(Part):
    load: Span = Field(description="requests over capacity in the steady state, by the scarcer of CPU and memory")
    duration_s: LogNormal
    bursts: Share = Field(0.3, description="share of the pods that arrive in bursts of one app")
    burst_size: float = Field(10.0, ge=1.0, allow_inf_nan=False, description="pods in a burst, in the mean")
    deployments: int = Field(0, ge=0, description="if above 0: so many single-pod deployments, one by one, repeated")
    deployment_gap_s: Positive = 2.0


MOST_BACKGROUND = 0.9  # of a node: one that others fill has nothing to decide about


class Loads(Part):
    """How app load and background load move: autoregressive around their mean."""

    step_s: Positive = 15.0
    app_sigma: NotNegative = 0.35
    app_memory_s: Positive = 120.0
    spikes_per_hour: NotNegative = Field(0.0, description="sudden peaks of an app")
    spike_factor: Positive = 3.0
    network_peak: Positive = Field(
        0.8, description="most that pods ask of all NICs together, and one of the largest; what is above is scaled down"
    )
    background_cpu: Amount = CutLogNormal(median=0.026, sigma=1.9, most=0.5)
    background_network: Amount = CutLogNormal(median=0.048, sigma=1.14, most=0.2)
    background_idle: Share = Field(0.46, description="share of the nodes without background traffic")
    background_sigma: NotNegative = 0.55
    background_correlation: Share = Field(0.3, description="of the logarithms of a node's CPU and traffic")
    background_memory_s: Positive = 180.0
    varied: Share = Field(0.0, description="share of the episodes in which each load moves in a way of its own")


class Scraping(Part):
    interval_s: list[Positive] = Field([10.0, 15.0, 30.0], min_length=1, description="one is drawn for each episode")
    window_s: list[Positive] = Field([60.0, 120.0], min_length=1)
    delay_s: list[NotNegative] = Field([0.0, 5.0, 15.0], min_length=1)
    missing: Share = Field(0.02, description="share of the scrapes that get lost")
    blind: Share = Field(0.02, description="share of the nodes without metrics at all")
    pod_metrics: Share = Field(0.8, description="share of the episodes in which per-pod metrics exist")

    @model_validator(mode="after")
    def can_be_remembered(self) -> Scraping:
        span_s, often_s = max(self.window_s) + max(self.delay_s), min(self.interval_s)
        if math.ceil(span_s / often_s) + 1 > RING:
            raise ValueError(
                f"window_s + delay_s of {span_s:g} s hold more than the {RING} scrapes that are kept,"
                f" with interval_s {often_s:g}"
            )
        return self

    @property
    def first_rate_s(self) -> float:
        """When every node can have its first rate: no pod comes before."""
        return max(self.window_s) + max(self.delay_s) + 2 * max(self.interval_s)


class Binding(Part):
    override: Share = Field(0.03, description="share of the pods bound elsewhere than we ranked first")
    visible_after: int = Field(
        5, ge=0, le=MOST_DECISIONS_LATE, description="most decisions until the watch shows a binding"
    )
    candidate_minimum: int = Field(100, ge=1, description="kube-scheduler scores at least so many feasible nodes")


class Scenario(Part):
    name: str
    description: str
    nodes: Fleet
    apps: Apps
    gpus: Gpus = Gpus()
    arrivals: Arrivals
    loads: Loads = Loads()
    scraping: Scraping = Scraping()
    binding: Binding = Binding()
    horizon_s: Positive = 900.0
    tick_s: Positive = 2.0
    pending_timeout_s: Positive = 300.0

    @model_validator(mode="after")
    def long_enough(self) -> Scenario:
        if self.horizon_s <= self.scraping.first_rate_s:
            raise ValueError(
                f"horizon_s {self.horizon_s:g} is too short: with this scraping the first pods come after"
                f" {self.scraping.first_rate_s:g} s"
            )
        return self

    def digest(self) -> str:
        """Names this exact world in every result; a change of any value changes it."""
        content = self.model_dump(mode="json")
        if not self.loads.varied:
            del content["loads"]["varied"]  # the worlds that were there before it have kept their names
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def scenario_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_scenario(name: str) -> Scenario:
    """A scenario by its name, or by the path of a YAML file."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise InputError(f"unknown scenario {name!r}; choose one of {', '.join(scenario_names())}, or a .yaml file")
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as why:
        raise InputError(f"{path}: not YAML: {' '.join(str(why).split())}") from why
    return parse_scenario(content, str(path))


def parse_scenario(content: object, origin: str) -> Scenario:
    try:
        return Scenario.model_validate(content)
    except ValidationError as why:
        raise InputError(f"{origin}: {'; '.join(_problem(error) for error in why.errors())}") from why


def _problem(error: Any) -> str:
    """One line: where, and what is wrong."""
    where, what = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what

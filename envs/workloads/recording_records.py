"""What a recording holds: one JSON object a line, of six kinds.

The sidecar writes them, training reads them, so they are checked on both sides. Unknown is null, never 0 and
never NaN (which is not JSON). Times are unix seconds; units are in the names, as in ``agent.cluster``. The
meaning of every field is in docs/recording.md.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from agent.cluster import GPU_MILLI

FORMAT_VERSION = 2  # raise it with every change of the records
READABLE_VERSIONS = (1, FORMAT_VERSION)  # version 1 lacks fields that have a default

Number = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Column = tuple[Amount | None, ...]
Name = Annotated[str, Field(min_length=1, max_length=512)]
Features = tuple[Number, ...]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NodeSpec(_Strict):
    name: Name
    zone: str = ""
    cpu_allocatable_millicores: Amount
    memory_allocatable_mib: Amount
    pods_allocatable: Amount = 110
    gpus: int = Field(0, ge=0)
    nic_mbps: Amount | None = None
    user_latency_ms: Amount | None = None
    price_usd_per_hour: Amount | None = None
    power_idle_watts: Amount | None = None
    power_peak_watts: Amount | None = None
    schedulable: bool = True


class PodDemand(_Strict):
    """What the sidecar knew of the pod when it was asked; the same fields as ``agent.cluster.Demand``."""

    namespace: str = "default"
    app: str = ""
    cpu_request_millicores: Amount = 0
    memory_request_mib: Amount = 0
    gpus: int = Field(0, ge=0)
    gpu_milli: int = Field(GPU_MILLI, ge=0, le=GPU_MILLI)
    expected_cpu_millicores: Amount | None = None
    expected_memory_mib: Amount | None = None
    expected_rx_mbps: Amount | None = None
    expected_tx_mbps: Amount | None = None
    demand_source: Literal["annotation", "siblings", "namespace", "cluster", "none"] = "none"
    sibling_mbps: Amount | None = None
    latency_soft_ms: Amount | None = None
    latency_hard_ms: Amount | None = None


class Header(_Strict):
    """First in every segment, so that each can be read when older ones were deleted."""

    kind: Literal["header"] = "header"
    format_version: int = FORMAT_VERSION
    schema_version: int  # of the features that the scores were computed from
    at_s: Amount
    segment: int = Field(ge=0)
    nodes: tuple[NodeSpec, ...]
    node_features: tuple[Name, ...] = ()  # what the numbers of a row of features are
    pod_features: tuple[Name, ...] = ()


class Nodes(_Strict):
    """Nodes that are new or changed, and names of nodes that are gone."""

    kind: Literal["nodes"] = "nodes"
    at_s: Amount
    nodes: tuple[NodeSpec, ...] = ()
    removed: tuple[Name, ...] = ()


class Sample(_Strict):
    """Metrics of many nodes at once, by column; the age of a group says when it was measured."""

    kind: Literal["sample"] = "sample"
    at_s: Amount
    nodes: tuple[Name, ...]
    cpu_used_millicores: Column
    cpu_std_millicores: Column
    cpu_age_s: Column
    memory_used_mib: Column
    memory_age_s: Column
    rx_mbps: Column
    tx_mbps: Column
    connections: Column
    network_age_s: Column

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        for name in SAMPLE_COLUMNS:
            if len(getattr(self, name)) != len(self.nodes):
                raise ValueError(f"{name} has {len(getattr(self, name))} values for {len(self.nodes)} nodes")
        return self


class Decision(_Strict):
    """One answer: who was asked about, what each candidate scored, and what was chosen."""

    kind: Literal["decision"] = "decision"
    at_s: Amount
    pod_uid: Name
    demand: PodDemand
    candidates: tuple[Name, ...]
    scores: tuple[Number | None, ...]
    source: Name  # the step of the ladder that answered
    reason: str = ""
    chosen: Name | None = None  # None: no candidate
    shadow: bool = False  # the answer was not acted upon
    mode: Name = "active"  # of the rollout
    model: Name | None = None  # None: a heuristic answered
    took_ms: Amount | None = None
    deadline_ms: Amount | None = None
    cpu_age_s: Amount | None = None  # on the median node
    memory_age_s: Amount | None = None
    network_age_s: Amount | None = None
    levels: tuple[int, ...] = ()  # 0 to 10, one for each candidate
    pod_features: Features = ()
    feature_nodes: tuple[Name, ...] = ()  # the best candidates, the chosen one among them
    node_features: tuple[Features, ...] = ()  # one row for each of them

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if len(self.node_features) != len(self.feature_nodes) or len(self.levels) not in (0, len(self.candidates)):
            raise ValueError("node_features belong to feature_nodes one by one, levels to candidates")
        if len(self.scores) != len(self.candidates):
            raise ValueError(f"{len(self.scores)} scores for {len(self.candidates)} candidates")
        if self.chosen is not None and self.chosen not in self.candidates:
            raise ValueError(f"chosen node {self.chosen!r} is no candidate")
        return self


class Bound(_Strict):
    """Where the pod really went, whoever decided it."""

    kind: Literal["bound"] = "bound"
    at_s: Amount
    pod_uid: Name
    node: Name
    features: Features = ()  # of this node when the pod was decided, unless the decision has them


class Ended(_Strict):
    kind: Literal["ended"] = "ended"
    at_s: Amount
    pod_uid: Name


Record = Header | Nodes | Sample | Decision | Bound | Ended

SAMPLE_COLUMNS = tuple(name for name in Sample.model_fields if name not in ("kind", "at_s", "nodes"))
KINDS: dict[str, type[Record]] = {
    "header": Header,
    "nodes": Nodes,
    "sample": Sample,
    "decision": Decision,
    "bound": Bound,
    "ended": Ended,
}

_ADAPTER: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


def to_line(record: Record) -> bytes:
    return record.model_dump_json().encode() + b"\n"


def from_line(line: bytes) -> Record:
    """Raises pydantic's ``ValidationError``, a ``ValueError``, with every fault."""
    return _ADAPTER.validate_json(line)

"""Every setting of the sidecar: grouped, documented, validated once at start, and then passed in.

``serving.configuration`` reads them from the command line, the environment (``PILOTFISH_<GROUP>__<FIELD>``, such as
``PILOTFISH_SERVER__PORT=9000``) and a file. The table in docs/settings.md is made from these classes
(``settings_table``), and a test keeps it equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.errors import InputError
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.registry import scorer_by_name
from envs.live.cluster_settings import ClusterSettings
from envs.live.probe_settings import ProbeSettings
from envs.live.prometheus_settings import PrometheusSettings
from serving.labels import LabelSelector

Mode = Literal["off", "shadow", "canary", "active"]

ENV_PREFIX = "PILOTFISH_"
ENV_DELIMITER = "__"

RELEASED_MODEL = "released"
NO_MODEL = "none"


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Group):
    """How the sidecar listens."""

    host: str = Field("127.0.0.1", description="address to listen on; others need TLS or tokens, see docs/security.md")
    port: int = Field(8000, ge=1, le=65535, description="port to listen on")
    max_body_bytes: int = Field(1_048_576, ge=1024, description="longer request bodies are refused with 413")
    max_nodes: int = Field(10_000, ge=1, description="most node names that one request may list")
    max_event_streams: int = Field(16, ge=0, description="most readers of /v1/events, one per open console")
    ready_within_s: float = Field(60.0, gt=0, description="/readyz fails when the cluster state is older than this")


class SecuritySettings(Group):
    """Who may ask: TLS, client certificates, tokens (docs/security.md). Files are read again when they change."""

    certificate_file: str | None = Field(None, description="certificate (PEM, with its chain) to serve HTTPS with")
    key_file: str | None = Field(None, description="private key (PEM) of the certificate")
    client_ca_file: str | None = Field(None, description="clients need a certificate that this CA (PEM) has signed")
    token_file: str | None = Field(
        None, description="bearer tokens, one a line; every route but /healthz and /readyz then needs one"
    )
    allow_insecure: bool = Field(False, description="listen beyond loopback with neither TLS nor tokens")

    @model_validator(mode="after")
    def _files_belong_together(self) -> SecuritySettings:
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file go together")
        if self.client_ca_file and not self.certificate_file:
            raise ValueError("client_ca_file needs certificate_file and key_file")
        return self


class ConnectionSettings(Group):
    """How much patience clients may ask for."""

    max_open: int = Field(1000, ge=1, description="connections; requests on more of them are answered with 503")
    slow_client_s: float = Field(
        10.0, gt=0, le=600, description="longest wait for a handshake, a whole request, or an answer to be taken"
    )
    keep_alive_s: int = Field(
        120, ge=1, description="an unused connection is closed after this; kube-scheduler does so itself after 90 s"
    )


class LadderSettings(Group):
    """When a step of the ladder may answer."""

    deadline_ms: float = Field(
        100.0,
        gt=0,
        description="no step begins later than this after a request is read; kube-scheduler itself waits 5 s",
    )
    stale_after_s: float = Field(90.0, gt=0, description="metrics older than this count as missing")
    min_fresh_share: float = Field(
        0.5, ge=0, le=1, description="share of the candidates that need fresh metrics for a step that uses them"
    )
    heuristic: str = Field(
        ExpectedUtilisation.name,
        description="scorer of the step after the policy: any of docs/heuristics.md, such as `NetworkTraffic` or `LA`",
    )

    @field_validator("heuristic")
    @classmethod
    def known(cls, name: str) -> str:
        try:
            return scorer_by_name(name).name
        except InputError as why:
            raise ValueError(str(why)) from why


class ModelSettings(Group):
    """The trained policy, the first step of the ladder."""

    folder: str = Field(
        RELEASED_MODEL, description="folder of the model; `released` is the one shipped, `none` is heuristics alone"
    )
    gpu_folder: str = Field(
        RELEASED_MODEL, description="the same for pods that ask for GPUs; with `none` the other model scores them too"
    )


class ExplorationSettings(Group):
    """Random choices among feasible nodes, to learn from."""

    share: float = Field(0.0, ge=0, le=0.2, description="share of pods that get a random feasible node; 0 is none")


class ExtenderSettings(Group):
    """What kube-scheduler may ask for (docs/extender.md)."""

    scheduler_names: str = Field(
        "default-scheduler",
        description="`schedulerName`s of the pods to score, comma-separated; others pass untouched",
    )
    max_body_bytes: int = Field(
        67_108_864, ge=1024, description="the same limit as the server's, for these routes: whole nodes are large"
    )
    bind: bool = Field(False, description="also answer `bind`: the sidecar itself then tells the API server")
    preempt: bool = Field(False, description="also answer `preempt`: nodes with a protected victim are taken out")
    events: bool = Field(True, description="a Warning event tells the owner of a pod which annotation was ignored")
    protect_annotation: str = Field(
        "pilotfish.io/protected", description="pods with this annotation at `true` are never victims of a preemption"
    )


class RolloutSettings(Group):
    """How much of what the extender decides is acted on (docs/rollout.md)."""

    mode: Mode = Field("active", description="`off`, `shadow`, `canary` or `active`")
    canary_share: float = Field(0.1, ge=0, le=1, description="share of pods in the canary, by a hash of their UID")
    canary_selector: str = Field(
        "", description="instead of a share: the labels of the pods in the canary, such as `team=web,tier!=db`"
    )

    @field_validator("canary_selector")
    @classmethod
    def _readable(cls, text: str) -> str:
        try:
            LabelSelector.parse(text)
        except InputError as why:
            raise ValueError(str(why)) from why
        return text


class LegacySettings(Group):
    """The TCP protocol of the NetworkTraffic agent (docs/legacy.md)."""

    port: int = Field(0, ge=0, le=65535, description="port on loopback for the old agent's protocol (8765); 0 is off")


class BreakerSettings(Group):
    """When a failing step is left alone."""

    failures_to_open: int = Field(3, ge=1, description="failures in a row after which a step is skipped")
    cooldown_s: float = Field(30.0, ge=0, description="how long it is skipped before it is tried again")


class AssumedSettings(Group):
    """How long placements count that watch and metrics do not show yet."""

    provisional_s: float = Field(2.0, gt=0, description="an answer counts as a placement this long, or until the watch")
    bound_s: float = Field(300.0, gt=0, description="expected use of a bound pod is dropped after this at the latest")
    window_s: float = Field(60.0, gt=0, description="window of the rates in the metrics: [60s] in the queries")


class RecordingSettings(Group):
    """The record of decisions on disk."""

    folder: str = Field("", description="where decisions are recorded, for one sidecar alone; empty: nowhere")
    segment_mib: int = Field(16, ge=1, le=1024, description="a segment is finished at this size, or after an hour")
    total_mib: int = Field(1024, ge=4, description="the oldest segments are deleted above this; four segments at least")
    sample_every_s: float = Field(15.0, ge=1, description="how often the metrics of all nodes are recorded")
    feature_nodes: int = Field(32, ge=1, le=5000, description="best candidates whose features are recorded")
    queue: int = Field(1000, ge=1, description="records that may wait for the disk; more are dropped and counted")

    @model_validator(mode="after")
    def room_for_four_segments(self) -> RecordingSettings:
        if self.total_mib < 4 * self.segment_mib:
            raise ValueError(f"total_mib {self.total_mib} must hold four segments of {self.segment_mib} MiB")
        return self


class LoggingSettings(Group):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe message to log")
    format: Literal["text", "json"] = Field("text", description="lines for people, or one JSON object a line")
    decision_share: float = Field(
        0.01, ge=0, le=1, description="share of the decisions that get a line at level info; at debug all do"
    )


class TracingSettings(Group):
    """OpenTelemetry traces of requests and decisions; needs the extra otel."""

    endpoint: str = Field("", description="where spans go, such as http://collector:4318/v1/traces; empty: nowhere")
    share: float = Field(0.01, ge=0, le=1, description="share of the requests that are traced, unless the caller says")


class ReloadSettings(Group):
    """Changes while the sidecar runs."""

    every_s: float = Field(
        2.0, ge=0, description="how often the settings file and the model folders are looked at; 0 is never"
    )


class DecisionsSettings(Group):
    """The last decisions, in memory."""

    keep: int = Field(1000, ge=1, le=100_000, description="how many decisions GET /v1/decisions remembers")


class SimulationSettings(Group):
    """The simulated cluster that answers when there is no real one."""

    scenario: str = Field("microservices", description="name of a scenario, or path of a YAML file")
    seed: int = Field(0, ge=0, description="seed of the simulated world")
    speed: float = Field(1.0, gt=0, le=100, description="simulated seconds per second")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_DELIMITER, extra="ignore", frozen=True
    )

    server: ServerSettings = ServerSettings()
    security: SecuritySettings = SecuritySettings()
    connections: ConnectionSettings = ConnectionSettings()
    ladder: LadderSettings = LadderSettings()
    model: ModelSettings = ModelSettings()
    exploration: ExplorationSettings = ExplorationSettings()
    extender: ExtenderSettings = ExtenderSettings()
    rollout: RolloutSettings = RolloutSettings()
    legacy: LegacySettings = LegacySettings()
    breaker: BreakerSettings = BreakerSettings()
    assumed: AssumedSettings = AssumedSettings()
    recording: RecordingSettings = RecordingSettings()
    logging: LoggingSettings = LoggingSettings()
    tracing: TracingSettings = TracingSettings()
    reload: ReloadSettings = ReloadSettings()
    decisions: DecisionsSettings = DecisionsSettings()
    prometheus: PrometheusSettings = PrometheusSettings()
    probe: ProbeSettings = ProbeSettings()
    cluster: ClusterSettings = ClusterSettings()
    simulation: SimulationSettings = SimulationSettings()


def group_fields(group: str) -> dict[str, FieldInfo]:
    """The settings of a group, by name."""
    return dict(_fields(Settings.model_fields[group]))


def settings_rows() -> Iterator[tuple[str, str, str]]:
    """Variable, default and meaning of every setting."""
    for group_name, group in Settings.model_fields.items():
        for name, field in _fields(group):
            yield variable((group_name, name)), str(field.default), field.description or ""


def settings_table() -> str:
    """The table of docs/settings.md."""
    rows = [f"| `{variable}` | `{default}` | {meaning} |" for variable, default, meaning in settings_rows()]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def _fields(group: FieldInfo) -> Iterator[tuple[str, FieldInfo]]:
    model = group.annotation
    if isinstance(model, type) and issubclass(model, BaseModel):
        yield from model.model_fields.items()


def variable(location: tuple[int | str, ...]) -> str:
    return ENV_PREFIX + ENV_DELIMITER.join(str(part).upper() for part in location)


if __name__ == "__main__":
    import sys

    sys.stdout.write(settings_table() + "\n")

"""How Prometheus is asked: the group ``prometheus`` of the sidecar's settings (docs/prometheus.md).

It stands here and not in ``serving`` because the collector reads every field of it.
"""

from __future__ import annotations

import json
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agent.errors import InputError
from envs.live.prometheus_queries import ALL_PODS, CHOICES, POD_PARTS, STANDARD

AUTO = "auto"


class NetworkTrafficArgs(BaseModel):
    """The arguments of the NetworkTraffic plugin, by their own names and with its defaults (S1.1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prometheusAddress: str = Field(min_length=1)  # noqa: N815
    networkInterface: str = Field("ens192", min_length=1)  # noqa: N815
    timeRangeInMinutes: int = Field(5, ge=1, le=1440)  # noqa: N815


class PrometheusSettings(BaseModel):
    """Where Prometheus is and what it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field("", description="where Prometheus answers, such as `http://prometheus.monitoring:9090`")
    token_file: str = Field("", description="file with a bearer token, read anew for each question")
    ca_file: str = Field("", description="certificates to trust for https; empty: the usual ones")
    interval_s: float = Field(15.0, ge=0.2, le=600, description="how often it is asked; its scrape interval is right")
    timeout_s: float = Field(5.0, ge=0.05, le=60, description="no question takes longer; a round takes an interval")
    max_reply_bytes: int = Field(32 << 20, ge=1024, le=1 << 30, description="longer replies are refused")
    window_s: float = Field(60.0, ge=1, le=86400, description="window of the rates; 4 scrapes or more; as ASSUMED's")
    device: str = Field("", description="regular expression of the interfaces; empty: all that are not virtual")
    node_label: str = Field(AUTO, description="label that tells nodes apart; `auto` finds it")
    queries: dict[str, str] = Field({}, description="JSON: other queries by name, see docs/prometheus.md")
    pods: bool = Field(True, description="also ask for the use of single pods (cAdvisor), where it is known")
    pods_interval_s: float = Field(60.0, ge=0.2, le=3600, description="how often for that")
    network_traffic_args: str = Field(
        "", description="JSON arguments of the NetworkTraffic plugin instead of address, device and window"
    )

    @model_validator(mode="before")
    @classmethod
    def _take_plugin_args(cls, given: Any) -> Any:
        text = given.get("network_traffic_args") if isinstance(given, dict) else None
        if not text:
            return given
        try:
            args = NetworkTrafficArgs.model_validate_json(text)
        except ValidationError as why:
            faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in why.errors())
            raise ValueError(f"network_traffic_args: {faults}") from why
        window_s = 60.0 * args.timeRangeInMinutes
        taken = {"address": args.prometheusAddress, "device": args.networkInterface, "window_s": window_s}
        return {**given, **taken}

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        if not address:
            return address
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address[:80]!r} is no address such as http://prometheus:9090")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("an address has no user, password or query; use token_file")
        return address.rstrip("/")

    @field_validator("queries")
    @classmethod
    def _have_known_names(cls, queries: dict[str, str]) -> dict[str, str]:
        unknown = sorted(set(queries) - set(STANDARD))
        if unknown:
            raise ValueError(f"no query is called {', '.join(unknown)}; choose from {', '.join(STANDARD)}")
        return {name: CHOICES.get(query, query) for name, query in queries.items()}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.window_s < 2 * self.interval_s and not self.network_traffic_args:
            raise ValueError(f"window_s {self.window_s:g} must hold two scrapes, at least {2 * self.interval_s:g}")
        return self

    def needs_an_address(self) -> Self:
        if not self.address:
            raise InputError("no Prometheus is named: set PILOTFISH_PROMETHEUS__ADDRESS, or give --prometheus")
        return self

    def query(self, name: str, label: str, pods: str = ALL_PODS) -> str:
        """A query by name, ready to be asked, one value for each value of the label."""
        return (
            self._raw(name)
            .replace("<label>", label)
            .replace("<pods>", pods)
            .replace("<device>", device_matcher(self.device))
            .replace("<window>", seconds(self.window_s))
            .replace("<step>", seconds(self.interval_s))
        )

    def pod_parts(self) -> tuple[str, ...]:
        """Matchers of pods to ask for one after the other: 30,000 in one reply cost 40 MB more, for ever."""
        split = all("<pods>" in self._raw(name) for name in STANDARD if name.startswith("pod_"))
        return POD_PARTS if split else (ALL_PODS,)

    def _raw(self, name: str) -> str:
        return self.queries.get(name) or STANDARD[name]


# Interfaces that carry what another one carries too, or nothing that leaves the node.
VIRTUAL_DEVICES = (
    "lo|veth.*|docker.*|podman.*|cni.*|cbr.*|cali.*|flannel.*|cilium.*|lxc.*|weave.*|kube-.*|nodelocaldns|br-.*|virbr.*"
    "|bond.*|team.*|dummy.*|tun.*|tap.*|tunl.*|sit.*|gre.*|ip6.*|vxlan.*|genev.*|ovs.*|wg.*|ifb.*|nerdctl.*|.*[.].*"
)


def device_matcher(device: str) -> str:
    """The interfaces as a matcher of labels; Prometheus anchors regular expressions on both sides."""
    return f"device=~{json.dumps(device)}" if device else f"device!~{json.dumps(VIRTUAL_DEVICES)}"


def seconds(duration_s: float) -> str:
    """A duration as PromQL writes it."""
    return f"{round(duration_s * 1000)}ms"

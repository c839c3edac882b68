"""Which cluster is watched and how: the group ``cluster`` of the sidecar's settings (docs/live.md).

It stands here and not in ``serving`` because the watch reads every field of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


class ClusterSettings(BaseModel):
    """The cluster that is scored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Literal["kubernetes", "simulation"] = Field(
        "kubernetes", description="a real cluster, or the simulated one (which `pilotfish demo` always takes)"
    )
    kubeconfig: str = Field(
        "", description="file to reach the cluster by; empty: the pod's service account, else as kubectl finds it"
    )
    context: str = Field("", description="context of the kubeconfig; empty: its current one")
    namespaces: tuple[Annotated[str, StringConstraints(pattern=f"^{NAMESPACE}$")], ...] = Field(
        (), description="JSON list: see the pods of these alone; others then count nowhere. Empty: all"
    )
    page_items: int = Field(500, ge=1, le=10_000, description="most objects in one page of a list")
    page_max_bytes: int = Field(64 << 20, ge=1 << 20, le=1 << 30, description="a longer page is asked for in halves")
    request_timeout_s: float = Field(30.0, ge=0.1, le=600, description="for one page of a list")
    watch_s: float = Field(240.0, ge=1, le=3600, description="how long one watch lasts before it is asked for anew")
    nic_mbps_by_instance_type: dict[str, Annotated[float, Field(gt=0, le=1e9)]] = Field(
        {},
        description="JSON: NIC speed by `node.kubernetes.io/instance-type`, for nodes without `pilotfish.io/nic-mbps`",
    )
    same_zone_rtt_ms: float = Field(0.1, ge=0, le=10_000, description="round trip between nodes of one zone")
    zone_rtt_ms: float = Field(1.0, ge=0, le=10_000, description="round trip between zones")
    metrics: Literal["auto", "prometheus", "metrics-api", "none"] = Field(
        "auto", description="who measures nodes; `auto`: Prometheus where its address is set, else the metrics API"
    )
    metrics_interval_s: float = Field(15.0, ge=0.2, le=600, description="how often the metrics API is asked")

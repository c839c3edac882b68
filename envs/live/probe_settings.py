"""How latency to the users is measured: the group ``probe`` of the sidecar's settings (docs/probe.md)."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

ADDRESS = "<address>"
ZONE_PREFIX = "zone:"


class ProbeSettings(BaseModel):
    """Latency probes on the nodes; off by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field("", description=f"probe of every node, such as `http://{ADDRESS}:8100/`; empty: none is asked")
    urls: dict[str, str] = Field({}, description=f"JSON: other probes by node name or `{ZONE_PREFIX}NAME`")
    interval_s: float = Field(60.0, ge=0.2, le=3600, description="how often probes are asked")
    timeout_s: float = Field(2.0, ge=0.05, le=60, description="how long a probe may take to answer")

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: str) -> str:
        return _checked(url) if url else url

    @field_validator("urls")
    @classmethod
    def _are_urls(cls, urls: dict[str, str]) -> dict[str, str]:
        return {place: _checked(url) for place, url in urls.items()}

    @property
    def on(self) -> bool:
        return bool(self.url or self.urls)

    def url_of(self, node: str, zone: str, address: str) -> str:
        """Where to ask about a node: its own probe, else its zone's, else the one all nodes have; "": nowhere."""
        url = self.urls.get(node) or self.urls.get(f"{ZONE_PREFIX}{zone}") or self.url
        if ADDRESS in url and not address:
            return ""
        return url.replace(ADDRESS, f"[{address}]" if ":" in address else address)


def _checked(url: str) -> str:
    parts = urlsplit(url.replace(ADDRESS, "127.0.0.1"))
    if parts.scheme != "http" or not parts.hostname or parts.username:
        raise ValueError(f"{url[:80]!r} is no address of a probe such as http://{ADDRESS}:8100/")
    return url

"""Who measures the nodes: the sources that the settings choose, each by its name."""

from __future__ import annotations

from envs.live.kubernetes.api import ApiServer
from envs.live.ledger import Ledger
from envs.live.metrics import MetricsSource
from envs.live.metrics_api import MetricsApiSource
from envs.live.probe import LatencySource, Place
from envs.live.prometheus import PrometheusSource
from serving.settings import Settings


def metrics_sources(settings: Settings, api: ApiServer, ledger: Ledger) -> dict[str, MetricsSource]:
    """Best first, where two know the same; none at all leaves nodes to be scored by what their pods request."""
    wanted, sources = settings.cluster.metrics, dict[str, MetricsSource]()
    if wanted == "prometheus" or (wanted == "auto" and settings.prometheus.address):
        # A new reading is published at once: a change must not wait for the next look at the ledger.
        sources["prometheus"] = PrometheusSource(settings.prometheus, ledger.node_addresses, on_read=ledger.changed.set)
    elif wanted != "none":
        sources["metrics-api"] = MetricsApiSource(api, settings.cluster.metrics_interval_s)
    if settings.probe.on:
        sources["probe"] = LatencySource(settings.probe, lambda: places(ledger))
    return sources


def places(ledger: Ledger) -> dict[str, Place]:
    """Where the probes of the nodes are; the first address is the internal one."""
    with ledger.lock:
        return {
            name: Place(next(iter(ledger.addresses.get(name, ())), ""), node.zone)
            for name, node in ledger.nodes.items()
        }

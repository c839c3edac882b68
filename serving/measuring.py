"""Who measures the nodes: the sources that the settings choose, each by its name; others when the settings change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pydantic import BaseModel

from envs.live.joined import JoinedSources
from envs.live.kubernetes.api import ApiServer
from envs.live.ledger import Ledger
from envs.live.metrics import LiveMetrics
from envs.live.metrics_api import MetricsApiSource
from envs.live.probe import LatencySource, Place
from envs.live.prometheus import PrometheusSource
from envs.live.rounds import RoundsSource
from serving.settings import Settings


def chosen(settings: Settings) -> dict[str, BaseModel]:
    """The sources, best first where two know the same, and the settings of each.

    None at all leaves nodes to be scored by what their pods request.
    """
    wanted, sources = settings.cluster.metrics, dict[str, BaseModel]()
    if wanted == "prometheus" or (wanted == "auto" and settings.prometheus.address):
        sources["prometheus"] = settings.prometheus.needs_an_address()
    elif wanted != "none":
        sources["metrics-api"] = settings.cluster
    if settings.probe.on:
        sources["probe"] = settings.probe
    return sources


class Measuring:
    """A ``MetricsSource``. ``apply`` is called in the thread that reads settings again, one call at a time."""

    def __init__(self, settings: Settings, api: ApiServer, ledger: Ledger) -> None:
        self._api = api
        self._ledger = ledger
        self._made_from = chosen(settings)
        self._running = False
        self._put({name: self._made(name, settings) for name in self._made_from})

    @property
    def sources(self) -> Mapping[str, RoundsSource]:
        return self._sources

    def start(self) -> None:
        self._running = True
        self._joined.start()

    def stop(self) -> None:
        self._running = False
        self._joined.stop()

    def newest(self) -> LiveMetrics:
        return self._joined.newest()

    def apply(self, settings: Settings) -> None:
        """A source whose settings changed goes on from the readings of the one before it."""
        before, wanted = self._sources, chosen(settings)
        kept = {name: before[name] for name in wanted if self._made_from.get(name) == wanted[name]}
        made = {name: self._made(name, settings) for name in wanted if name not in kept}
        for name, source in made.items():
            if name in before:
                source.go_on_from(before[name].newest())
            if self._running:
                source.start()
        self._made_from = wanted
        self._put({name: kept.get(name) or made[name] for name in wanted})
        for name, source in before.items():
            if name not in kept:
                source.stop()

    def _put(self, sources: dict[str, RoundsSource]) -> None:
        self._sources, self._joined = sources, JoinedSources(list(sources.values()))

    def _made(self, name: str, settings: Settings) -> RoundsSource:
        ledger = self._ledger
        match name:
            case "prometheus":
                # A new reading is published at once: a change must not wait for the next look at the ledger.
                return PrometheusSource(settings.prometheus, ledger.node_addresses, on_read=ledger.changed.set)
            case "probe":
                return LatencySource(settings.probe, partial(places, ledger))
            case _:
                return MetricsApiSource(self._api, settings.cluster.metrics_interval_s)


def places(ledger: Ledger) -> dict[str, Place]:
    """Where the probes of the nodes are; the first address is the internal one."""
    with ledger.lock:
        return {
            name: Place(next(iter(ledger.addresses.get(name, ())), ""), node.zone)
            for name, node in ledger.nodes.items()
        }

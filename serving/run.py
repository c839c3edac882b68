"""Puts the parts together and runs them until a signal comes."""

from __future__ import annotations

import logging
import signal
import time

from serving.app import SidecarApp, create_app
from serving.configuration import ConfigurationSource
from serving.decide import new_decider
from serving.embedded import EmbeddedSimulation
from serving.listening import Server, listen
from serving.live import live_parts
from serving.logs import set_up_logging
from serving.measuring import chosen
from serving.observability import Metrics
from serving.reloading import LiveSettings, watcher_of
from serving.settings import Settings
from serving.sidecar import Sidecar

logger = logging.getLogger(__name__)


def run(source: ConfigurationSource) -> None:
    """Serve scores as the settings say: over a real cluster, unless they name the simulation."""
    signal.signal(signal.SIGTERM, _leave)
    settings = source.read().settings
    set_up_logging(settings.logging)
    listener = listen(settings)
    app = sidecar_app(settings)
    reload_on_change(app.state.sidecar, source)
    server = Server(app, settings, on_stop=app.state.sidecar.streams.stop, at_once=app.at_once)
    scheme = "https" if settings.security.certificate_file else "http"
    address = "{}://{}:{}".format(scheme, *listener.getsockname()[:2])
    logger.info("answering at %s: POST /v1/score, GET /v1/state and what %s/openapi.json lists", address, address)
    logger.info("open the console in a browser: %s/console", address)
    server.run(sockets=[listener])


def _leave(*_: object) -> None:
    """The first process of a container ignores a signal that has no handler; uvicorn has its own while it serves."""
    raise SystemExit(0)


def reload_on_change(sidecar: Sidecar, source: ConfigurationSource) -> None:
    """Settings and models are read again when their files change, settings also on SIGHUP."""
    sidecar.live.on_change(lambda settings: set_up_logging(settings.logging))
    watcher = watcher_of(sidecar.live, sidecar.models, source)
    sidecar.background.append(watcher)
    signal.signal(signal.SIGHUP, lambda *_: watcher.soon(lambda: sidecar.live.reload(source.read)))


def sidecar_app(settings: Settings) -> SidecarApp:
    """The application over the cluster that the settings name."""
    clock, metrics = time.monotonic, Metrics()
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    if settings.cluster.source == "simulation":
        return create_app(settings, EmbeddedSimulation(settings.simulation, decider, clock), decider, metrics)
    parts = live_parts(settings, decider, metrics)
    app = create_app(settings, parts.source, decider, metrics, parts.binder, parts.events)
    live: LiveSettings = app.state.sidecar.live
    live.check(chosen)
    live.on_change(parts.measuring.apply)
    return app

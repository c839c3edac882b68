"""Puts the parts together and runs them until a signal comes."""

from __future__ import annotations

import logging
import signal
import socket
import time

import uvicorn
from fastapi import FastAPI

from agent.errors import InputError
from envs.live.binding import Binder
from envs.live.snapshot import ClusterSource
from serving.app import create_app
from serving.configuration import ConfigurationSource
from serving.decide import Decider, new_decider
from serving.embedded import EmbeddedSimulation
from serving.live import live_parts
from serving.logs import set_up_logging
from serving.observability import Metrics
from serving.reloading import watcher_of
from serving.settings import ServerSettings, Settings
from serving.sidecar import Sidecar
from serving.streams import Streams

logger = logging.getLogger(__name__)

SHUTDOWN_S = 1  # for requests under way; a scheduler that loses one simply asks again


def run(source: ConfigurationSource) -> None:
    """Serve scores as the settings say: over a real cluster, unless they name the simulation."""
    settings = source.read().settings
    set_up_logging(settings.logging)
    app = sidecar_app(settings)
    reload_on_change(app.state.sidecar, source)
    listener = _listen(settings.server)
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    logger.info("answering at %s: POST /v1/score, GET /v1/state and what %s/openapi.json lists", address, address)
    logger.info("open the console in a browser: %s/console", address)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    Server(config, app.state.sidecar.streams).run(sockets=[listener])


class Server(uvicorn.Server):
    """Ends the event streams first when it stops: it waits for requests under way, and they would go on for ever."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.stop()
        await super().shutdown(sockets)


def reload_on_change(sidecar: Sidecar, source: ConfigurationSource) -> None:
    """Settings and models are read again when their files change, settings also on SIGHUP."""
    sidecar.live.on_change(lambda settings: set_up_logging(settings.logging))
    watcher = watcher_of(sidecar.live, sidecar.models, source)
    sidecar.background.append(watcher)
    signal.signal(signal.SIGHUP, lambda *_: watcher.soon(lambda: sidecar.live.reload(source.read)))


def sidecar_app(settings: Settings) -> FastAPI:
    """The application over the cluster that the settings name."""
    clock, metrics = time.monotonic, Metrics()
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    source, binder = cluster_parts(settings, decider)
    return create_app(settings, source, decider, metrics, binder)


def cluster_parts(settings: Settings, decider: Decider) -> tuple[ClusterSource, Binder | None]:
    """What shows the cluster, and who may bind pods in it."""
    if settings.cluster.source == "kubernetes":
        return live_parts(settings, decider)
    return EmbeddedSimulation(settings.simulation, decider, decider.clock), None


def _listen(server: ServerSettings) -> socket.socket:
    """Bind first: a port that is taken is one clear line, before anything has started."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        return socket.create_server((server.host, server.port), family=family)
    except OSError as why:
        raise InputError(f"cannot listen on {server.host} port {server.port}: {why.strerror}; choose another") from why

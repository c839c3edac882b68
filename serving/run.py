"""Puts the parts together and runs them until a signal comes."""

from __future__ import annotations

import logging
import socket
import time

import uvicorn
from fastapi import FastAPI

from agent.errors import InputError
from serving.app import create_app
from serving.decide import new_decider
from serving.embedded import EmbeddedSimulation
from serving.observability import Metrics
from serving.settings import ServerSettings, Settings, load_settings

logger = logging.getLogger(__name__)

SHUTDOWN_S = 1  # for requests under way; a scheduler that loses one simply asks again


def demo(
    host: str | None = None, port: int | None = None, scenario: str | None = None, seed: int | None = None
) -> None:
    """Serve scores over an embedded simulated cluster."""
    run(load_settings(server={"host": host, "port": port}, simulation={"scenario": scenario, "seed": seed}))


def serve(host: str | None = None, port: int | None = None) -> None:
    """Serve scores as the settings say. Until there are collectors for a real cluster, that is the simulation."""
    run(load_settings(server={"host": host, "port": port}))


def run(settings: Settings) -> None:
    logging.basicConfig(
        level=settings.server.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    app = sidecar_app(settings)
    listener = _listen(settings.server)
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    logger.info("answering at %s: POST /v1/score, GET /v1/state, /healthz, /readyz, /metrics", address)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    uvicorn.Server(config).run(sockets=[listener])


def sidecar_app(settings: Settings) -> FastAPI:
    """The application over the embedded simulation."""
    clock, metrics = time.monotonic, Metrics()
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    source = EmbeddedSimulation(settings.simulation, decider, clock)
    return create_app(settings, source, decider, metrics)


def _listen(server: ServerSettings) -> socket.socket:
    """Bind first: a port that is taken is one clear line, before anything has started."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        return socket.create_server((server.host, server.port), family=family)
    except OSError as why:
        raise InputError(f"cannot listen on {server.host} port {server.port}: {why.strerror}; choose another") from why

"""The two servers that are compared, each a process: ``python -m benchmarks.extender.server sidecar PORT NODES``.

``sidecar`` is the application as it is served, over a cluster of numbers. ``constant`` is the least that a FastAPI
extender can do: parse the same names, and emit them, all of them and with the same score. A fourth word makes it rank
so many milliseconds late, without computing anything meanwhile: what waiting alone costs kube-scheduler.
"""

from __future__ import annotations

import asyncio
import sys
import time

from fastapi import FastAPI, Request
from fastapi.responses import Response

from benchmarks.extender.cluster import StandingCluster
from serving.app import SidecarApp, create_app
from serving.configuration import load_settings
from serving.decide import new_decider
from serving.listening import Server, listen
from serving.observability import Metrics
from serving.settings import Settings
from serving.wire.extender import from_filter, from_levels, to_args


def sidecar(nodes: int) -> SidecarApp:
    settings, clock, metrics = Settings(), time.monotonic, Metrics()
    decider = new_decider(settings, clock, metrics.on_ranking, metrics.on_skip)
    return create_app(settings, StandingCluster(nodes, clock), decider, metrics)


def constant(nodes: int, late_ms: float = 0.0) -> FastAPI:
    app = FastAPI()

    @app.get("/readyz")
    async def readyz() -> Response:
        return Response(b"{}")

    @app.post("/extender/filter")
    async def filter_(request: Request) -> Response:
        args, names = to_args(await request.body(), nodes)
        return Response(from_filter(args, names, {}, {}), media_type="application/json")

    @app.post("/extender/prioritize")
    async def prioritize(request: Request) -> Response:
        _, names = to_args(await request.body(), nodes)
        if late_ms:
            await asyncio.sleep(late_ms / 1000.0)
        return Response(from_levels(names, [5] * len(names)), media_type="application/json")

    return app


def main() -> None:
    kind, port, nodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    late_ms = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    settings = load_settings(server={"port": port})
    listener = listen(settings)
    app = sidecar(nodes) if kind == "sidecar" else constant(nodes, late_ms)
    at_once = app.at_once if isinstance(app, SidecarApp) else None
    Server(app, settings, at_once=at_once).run(sockets=[listener])


if __name__ == "__main__":
    main()

"""The sidecar as an ASGI application: settings and parts in, routes out. Nothing is made at import."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.errors import InputError
from envs.live.binding import Binder
from envs.live.kubernetes.events import PodEvents
from envs.live.snapshot import ClusterSource
from serving.connection import AtOnce
from serving.decide import Decider
from serving.extender import Extender
from serving.legacy import legacy_agent
from serving.observability import Metrics, RequestCounts, RequestMetrics
from serving.routes import console, decisions, events, explain, extender, health, model, score, state
from serving.routes.http import error_reply
from serving.security.tokens import TokenFile, TokenGuard
from serving.settings import SecuritySettings, Settings
from serving.sidecar import Sidecar
from serving.tracing import trace

logger = logging.getLogger(__name__)


class SidecarApp(FastAPI):
    """FastAPI, but for the few routes on which kube-scheduler waits: its layers take several times what they need.

    Those are called as they are, behind the same guard, counters and traces as all the others.
    """

    _express: dict[str, ASGIApp]
    at_once: Mapping[bytes, AtOnce] = {}  # what a server may answer by itself

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        express = self._express.get(scope["path"]) if scope.get("method") == "POST" else None
        if express is None:
            await super().__call__(scope, receive, send)
        else:
            await express(scope, receive, send)

    def add_express(self, routes: Iterable[Route]) -> None:
        """To be called when all middleware is there."""
        self.router.routes[:0] = routes  # for whoever calls them in any other way
        self._express = {route.path: self._behind_middleware(route.app) for route in routes}

    def _behind_middleware(self, app: ASGIApp) -> ASGIApp:
        for cls, args, kwargs in reversed(self.user_middleware):
            app = cls(app, *args, **kwargs)
        return app


def create_app(
    settings: Settings,
    source: ClusterSource,
    decider: Decider,
    metrics: Metrics,
    binder: Binder | None = None,
    pod_events: PodEvents | None = None,
) -> SidecarApp:
    sidecar = Sidecar(settings, source, decider, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for part in sidecar.background:
            part.start()
        async with legacy_agent(settings.legacy.port, source, decider):
            yield
        for part in reversed(sidecar.background):
            part.stop()

    # The interactive pages load scripts from elsewhere; the description itself is at /openapi.json.
    app = SidecarApp(title="Pilotfish", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.sidecar = sidecar
    metrics.watch(source.snapshot, decider, lambda: sidecar.settings.ladder.stale_after_s)
    trace(app, sidecar)
    _add_guard(app, settings.security)
    watched, counts = bool(app.user_middleware), RequestCounts(metrics)
    app.add_middleware(RequestMetrics, counts=counts)  # last, so around the guard: refusals are counted too
    for routes in (score, explain, decisions, events, model, state, health, console):
        app.include_router(routes.router)
    judge = Extender(settings, source, decider, metrics)
    if pod_events is not None and settings.extender.events:
        judge.on_warning(pod_events.warn)
        sidecar.background.append(pod_events)
    sidecar.live.on_change(judge.apply)
    verbs = extender.Verbs(settings.server.max_nodes, judge, metrics, binder)
    app.add_express(extender.routes(settings, verbs))
    if not watched:  # a guard or traces must see every request
        app.at_once = extender.at_once(settings, verbs, counts)
    app.add_exception_handler(InputError, _on_input_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_defect)
    return app


def _add_guard(app: FastAPI, security: SecuritySettings) -> None:
    if security.token_file:
        tokens = TokenFile(security.token_file)
        app.add_middleware(TokenGuard, tokens=tokens, extender_needs_none=bool(security.client_ca_file))


async def _on_input_error(request: Request, why: Exception) -> Response:
    return error_reply(400, str(why))


async def _on_http_error(request: Request, why: Exception) -> Response:
    code, detail = (why.status_code, why.detail) if isinstance(why, HTTPException) else (500, "internal error")
    if code in (404, 405) and detail == HTTPStatus(code).phrase:
        detail = f"{detail}: {request.method} {request.url.path}; /openapi.json lists what there is"
    return error_reply(code, detail)


async def _on_defect(request: Request, why: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=why)
    return error_reply(500, "internal error; the log of the sidecar has the details")

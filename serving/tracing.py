"""OpenTelemetry traces, off unless an endpoint is set: one span a request, and in it one a decision.

The libraries are an extra of their own and loaded only when they are used. Spans wait in a bounded queue for a thread
that sends them; if nobody takes them they are dropped, and no request waits.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.decisions import Event
from serving.observability import route_of
from serving.settings import TracingSettings
from serving.sidecar import Sidecar

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

SERVICE = "pilotfish"
EXPORT_TIMEOUT_S = 2
STOP_WITHIN_S = 1.0
NS_PER_S = 1_000_000_000
ATTRIBUTES = ("uid", "namespace", "name", "best", "source", "reason", "model", "mode", "applied", "candidates")


def trace(app: FastAPI, sidecar: Sidecar, exporter: SpanExporter | None = None) -> None:
    """Trace the requests and decisions of this application, if the settings say where to."""
    settings = sidecar.settings.tracing
    if not settings.endpoint and exporter is None:
        return
    tracing = Tracing(settings, exporter)
    sidecar.decider.decisions.listen(tracing.on_event)
    sidecar.background.append(tracing)
    app.add_middleware(RequestTraces, tracing=tracing)


class Tracing:
    def __init__(self, settings: TracingSettings, exporter: SpanExporter | None = None) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        sampler = ParentBased(TraceIdRatioBased(settings.share))
        self._provider = TracerProvider(sampler, Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
        waits = BatchSpanProcessor(_sender(settings.endpoint)) if exporter is None else SimpleSpanProcessor(exporter)
        self._provider.add_span_processor(waits)
        self.tracer = self._provider.get_tracer(SERVICE)

    def on_event(self, event: Event) -> None:
        """A decision, with the times it really began and ended."""
        from opentelemetry import trace as api

        if event.kind != "decision" or event.noted is None or not api.get_current_span().is_recording():
            return
        told = event.noted.summary()
        ended_ns = int(event.at_s * NS_PER_S)
        span = self.tracer.start_span("decide", start_time=ended_ns - int(told["took_ms"] * 1e6))
        span.set_attributes({f"pilotfish.{name}": told[name] for name in ATTRIBUTES if told[name] is not None})
        span.end(ended_ns)

    def start(self) -> None:
        """The thread that sends began with the provider."""

    def stop(self) -> None:
        """What waits is sent, if the collector answers at once."""
        ending = threading.Thread(target=self._provider.shutdown, name="last traces", daemon=True)
        ending.start()
        ending.join(STOP_WITHIN_S)


def _sender(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)


class RequestTraces:
    """A span for every request that is drawn, in the caller's trace if the headers name one."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracer = tracing.tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind

        context = propagate.extract(_headers(scope))
        with self._tracer.start_as_current_span("request", context, SpanKind.SERVER) as span:

            async def watching(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(scope, receive, watching)
            span.update_name(f"{scope['method']} {route_of(scope)}")
            span.set_attribute("http.route", route_of(scope))


def _headers(scope: Any) -> dict[str, str]:
    """Only what names a trace: nothing else of a request may leave the process."""
    wanted = (b"traceparent", b"tracestate")
    return {key.decode(): value.decode("latin-1") for key, value in scope["headers"] if key in wanted}

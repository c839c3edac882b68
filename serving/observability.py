"""The sidecar's own metrics: who decided, from how old data, and how fast (docs/metrics.md).

Each sidecar has a registry of its own, so that tests and several sidecars in one process do not mix. Values that
only matter when somebody looks (ages, breakers) are read from the newest snapshot at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.ladder import Skip
from agent.scorer import METRIC_GROUPS
from envs.live.metrics import MetricsSource
from envs.live.snapshot import Snapshot
from serving.decide import Decider
from serving.decision import Ranking, median_ages
from serving.outcome_metrics import OutcomeCollector
from serving.policy import Policy
from serving.source_metrics import SourceCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UNKNOWN_ROUTE = "unknown"  # one label for every path that does not exist, or anybody could fill the memory
STREAMS = ("/v1/events",)  # counted but not timed: they last as long as somebody looks
NO_SOURCE = "none"  # of requests that decide nothing
BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_ANSWERED_BY: ContextVar[str] = ContextVar("answered_by", default=NO_SOURCE)  # a request and its answer share a context


class Metrics:
    def __init__(self) -> None:
        # Without this a series of creation times stands beside every counter.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "pilotfish_requests_total", "Requests answered", ["route", "code"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "pilotfish_request_seconds",
            "Time to answer",
            ["route", "source"],
            registry=self.registry,
            buckets=BUCKETS_S,
        )
        self.decisions = Counter(
            "pilotfish_decisions_total", "Pods scored, by the step that answered", ["source"], registry=self.registry
        )
        self._decided = cache(self.decisions.labels)
        self.skips = Counter(
            "pilotfish_ladder_step_skipped_total", "Steps skipped", ["step", "reason"], registry=self.registry
        )

        self.reloads = Counter(
            "pilotfish_reloads_total", "Settings and models read again", ["what", "result"], registry=self.registry
        )
        self.recorded = Counter(
            "pilotfish_recording_records_total", "Records of decisions on disk", ["result"], registry=self.registry
        )
        self.on_recorded(0, 0)
        for what, result in product(("settings", "model"), ("good", "bad")):
            self.reloads.labels(what, result)  # from 0 on: the first one must show as a rise
        self.shed = Counter(
            "pilotfish_extender_shed_total",
            "Extender calls answered neutrally for want of time",
            registry=self.registry,
        )
        self.full_nodes = Counter(
            "pilotfish_extender_full_nodes_total", "Extender calls that carried whole nodes", registry=self.registry
        )
        self.unknown_nodes = Counter(
            "pilotfish_extender_unknown_nodes_total", "Nodes asked for that the watch lacks", registry=self.registry
        )
        self.extender_defects = Counter(
            "pilotfish_extender_defects_total",
            "Extender calls answered neutrally after a defect",
            registry=self.registry,
        )

    def on_recorded(self, written: int, dropped: int) -> None:
        self.recorded.labels("written").inc(written)
        self.recorded.labels("dropped").inc(dropped)

    def on_settings(self, good: bool) -> None:
        self.reloads.labels("settings", "good" if good else "bad").inc()

    def on_reload(self, policy: Policy) -> None:
        self.reloads.labels("model", "bad" if policy.problems else "good").inc()

    def on_ranking(self, ranking: Ranking) -> None:
        self._decided(ranking.scores.source).inc()
        _ANSWERED_BY.set(ranking.scores.source)

    def on_skip(self, skip: Skip) -> None:
        self.skips.labels(skip.step, skip.reason).inc()

    def watch(
        self, snapshot: Callable[[], Snapshot | None], decider: Decider, stale_after_s: Callable[[], float]
    ) -> None:
        """Also export what can be read from the cluster state and the ladder."""
        self.registry.register(_StateCollector(snapshot, decider, stale_after_s))
        self.registry.register(OutcomeCollector(snapshot, decider))

    def watch_sources(self, sources: Callable[[], Mapping[str, MetricsSource]]) -> None:
        """Also export what each source of metrics has; which there are can change."""
        self.registry.register(SourceCollector(sources))

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


class _StateCollector(Collector):
    def __init__(
        self, snapshot: Callable[[], Snapshot | None], decider: Decider, stale_after_s: Callable[[], float]
    ) -> None:
        self._snapshot = snapshot
        self._decider = decider
        self._stale_after_s = stale_after_s

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield self._breakers()
        snapshot = self._snapshot()
        if snapshot is not None:
            yield from self._ages(snapshot)

    def _breakers(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily("pilotfish_breaker_open", "1 while a step is left alone", labels=["step"])
        for step in self._decider.ladder.steps:
            gauge.add_metric([step.scorer.name], float(step.breaker.state != "closed"))
        return gauge

    def _ages(self, snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
        now_s = self._decider.clock()
        state = snapshot.state_at(now_s)
        ages = GaugeMetricFamily("pilotfish_metric_age_seconds", "Age on the median node", labels=["group"])
        stale = GaugeMetricFamily("pilotfish_nodes_without_metric", "Nodes without a fresh value", labels=["group"])
        everywhere = np.ones(state.node_count, dtype=np.bool_)
        for group, age_s in median_ages(state, everywhere).items():
            ages.add_metric([group], float("nan") if age_s is None else age_s)
        for group in METRIC_GROUPS:
            fresh = getattr(state, f"{group}_age_s") <= self._stale_after_s()
            stale.add_metric([group], float((~fresh).sum()))
        yield ages
        yield stale
        yield GaugeMetricFamily("pilotfish_nodes", "Nodes that are known", value=state.node_count)
        yield GaugeMetricFamily(
            "pilotfish_snapshot_age_seconds", "Age of the cluster state", value=now_s - snapshot.taken_at_s
        )


class RequestCounts:
    """Counts and times requests, whichever way they are answered."""

    def __init__(self, metrics: Metrics) -> None:
        # looked up once for each: prometheus-client takes longer to find a child than to count
        self._requests = cache(lambda route, code: metrics.requests.labels(route, str(code)))
        self._seconds = cache(metrics.request_seconds.labels)

    def begun(self) -> float:
        """The time, to be given back at the end."""
        _ANSWERED_BY.set(NO_SOURCE)  # a server may use a context again
        return time.perf_counter()

    def ended(self, route: str, code: int, began_s: float) -> None:
        self._requests(route, code).inc()
        if route not in STREAMS:
            self._seconds(route, _ANSWERED_BY.get()).observe(time.perf_counter() - began_s)


class RequestMetrics:
    """Counts every request. Plain ASGI: the usual middleware class costs more than the scoring."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, code = self._counts.begun(), 500

        async def watching(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watching)
        finally:
            self._counts.ended(route_of(scope), code, began_s)


def route_of(scope: MutableMapping[str, Any]) -> str:
    return getattr(scope.get("route"), "path", UNKNOWN_ROUTE)

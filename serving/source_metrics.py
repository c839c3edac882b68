"""What each source of metrics has: how old, of how many nodes, with how many problems (docs/metrics.md).

The ages of a snapshot say what scores are made of; these say which source is to blame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.breaker import Clock
from envs.live.metrics import LiveMetrics, MetricsSource


class SourceCollector(Collector):
    """Reads the newest metrics of each source when somebody looks."""

    def __init__(self, sources: Callable[[], Mapping[str, MetricsSource]], wall: Clock = time.time) -> None:
        self._sources = sources
        self._wall = wall

    def collect(self) -> Iterator[GaugeMetricFamily]:
        ages = GaugeMetricFamily(
            "pilotfish_source_age_seconds", "Age of a column on the median node", labels=["source", "column"]
        )
        nodes = GaugeMetricFamily("pilotfish_source_nodes", "Nodes with a value", labels=["source", "column"])
        pods = GaugeMetricFamily("pilotfish_source_pods", "Pods whose use is known", labels=["source"])
        problems = GaugeMetricFamily("pilotfish_source_problems", "What could not be read", labels=["source"])
        for name, source in self._sources().items():
            newest = source.newest()
            self._add_columns(name, newest, ages, nodes)
            pods.add_metric([name], len(newest.pods))
            problems.add_metric([name], len(newest.problems))
        yield from (ages, nodes, pods, problems)

    def _add_columns(self, name: str, newest: LiveMetrics, ages: GaugeMetricFamily, nodes: GaugeMetricFamily) -> None:
        now_s = self._wall()
        for column, readings in newest.columns.items():
            nodes.add_metric([name, column], len(readings))
            if readings:
                ages.add_metric([name, column], median(now_s - reading.sampled_at_s for reading in readings.values()))

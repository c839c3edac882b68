"""Metrics of the nodes from Prometheus, read in the background: one question per metric for all nodes at once.

A node that is missing in a reply keeps its last reading, which grows older until it counts as missing; so do all nodes
while Prometheus is away. Ages are differences of Prometheus's own clock, so a clock of ours that runs wrong does not
make metrics look fresh; it is said instead.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from agent.breaker import Clock
from envs.live.metrics import LiveMetrics, PodName, PodUse, Reading
from envs.live.prometheus_client import PrometheusClient, PrometheusUnavailable, QueryRefused, Series
from envs.live.prometheus_mapping import DETECTION, Addresses, NodeMapping, mapping_of
from envs.live.prometheus_pod_use import pod_uses
from envs.live.prometheus_reading import COLUMNS, REPLY_TIME, Column, Faults, by_node, sample_ages, some
from envs.live.prometheus_settings import PrometheusSettings
from envs.live.rounds import RoundsSource

logger = logging.getLogger(__name__)

MAPPING_FOR_S = 60.0  # labels change seldom, and asking for them is the longest of all replies
FORGET_AFTER_S = 3600.0  # readings of nodes that are gone
CLOCKS_AGREE_S = 2.0
PODS = "pods"

Columns = dict[str, dict[str, Reading]]


class PrometheusSource(RoundsSource):
    """``nodes`` gives the nodes that the watch knows, with their addresses; None: no watch.

    ``on_read`` is called when there is something new, so that nobody has to look for it.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        nodes: Callable[[], Addresses] | None = None,
        wall: Clock = time.time,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings.needs_an_address()
        super().__init__("Prometheus", settings.interval_s)
        self._nodes = nodes
        self._wall = wall
        self._on_read = on_read
        self._client = PrometheusClient(settings)
        self._mapping = NodeMapping()
        self._found_nodes = False
        self._due_s: dict[str, float] = {}  # when mapping and pods are to be read again, time.monotonic
        self._read_at_s: dict[str, float] = {}  # when a column was read
        self._ends_at_s = 0.0  # of this round
        self._problems: dict[str, list[str]] = {}  # by part

    def _has_begun(self) -> bool:
        """Before the watch has shown its nodes no series could be given to one."""
        return self._nodes is None or bool(self._nodes())

    def _run(self) -> None:
        super()._run()
        self._client.close()

    def read(self) -> LiveMetrics:
        """One round of questions; ends early when Prometheus does not answer or the round takes too long."""
        self._ends_at_s = time.monotonic() + max(self.settings.interval_s, self.settings.timeout_s)
        columns: Columns = {name: dict(known) for name, known in self._newest.columns.items()}
        pods, down = self._newest.pods, ""
        try:
            self._find_mapping()
            self._read_columns(columns)
            pods = self._read_pods(pods)
        except PrometheusUnavailable as why:
            down = str(why)
        self._publish(columns, pods, down)
        return self._newest

    # --- questions

    def _ask(self, query: str) -> list[Series]:
        left_s = self._ends_at_s - time.monotonic()
        if left_s <= 0.0:
            raise PrometheusUnavailable("the round took too long; what is missing comes first in the next one")
        return self._client.vector(query, left_s)

    def _ask_pods(self, name: str, pods: str) -> list[Series]:
        return self._ask(self.settings.query(name, self._mapping.label, pods))

    def _named(self, name: str) -> str:
        return self.settings.query(name, self._mapping.label)

    def _find_mapping(self) -> None:
        """Now and then, and whenever the nodes changed or the last round found none of them."""
        addresses, now_s = ({} if self._nodes is None else self._nodes()), time.monotonic()
        changed = bool(addresses) and frozenset(addresses) != self._mapping.names
        if now_s < self._due_s.get("mapping", 0.0) and self._found_nodes and not changed:
            return
        asked_s = self._wall()
        series = self._ask(DETECTION)
        self._mapping = mapping_of(series, addresses, self.settings.node_label)
        self._due_s["mapping"] = now_s + MAPPING_FOR_S
        self._problems["mapping"] = [] if series else ["no series of a node exporter (node_memory_MemTotal_bytes)"]
        self._problems["clock"] = clock_problem(asked_s, self._wall(), [one.at_s for one in series[:1]])

    def _read_columns(self, columns: Columns) -> None:
        """The column that was read longest ago first: a round that ends early must not always miss the same."""
        sampled: dict[str, dict[str, float]] = {}  # time query -> node -> when, by our clock
        faults = Faults()
        for column in sorted(COLUMNS, key=lambda column: self._read_at_s.get(column.name, 0.0)):
            try:
                if column.time_query not in sampled:
                    sampled[column.time_query] = self._sample_times(column.time_query)
                readings = self._readings(column, sampled[column.time_query], faults)
                self._problems[column.name] = []
            except QueryRefused as why:
                readings, self._problems[column.name] = {}, [f"{column.name}: {why}"]
            columns.setdefault(column.name, {}).update(readings)
            self._read_at_s[column.name] = time.monotonic()
        self._found_nodes = any(sampled.values())
        self._problems["series"] = faults.said(self._mapping.label)

    def _readings(self, column: Column, sampled: Mapping[str, float], faults: Faults) -> dict[str, Reading]:
        asked_s = self._wall()
        values = by_node(self._ask(self._named(column.query)), self._mapping, column, faults)
        if self._is_reply_time(column.time_query):
            return {node: Reading(value, asked_s) for node, value in values.items()}
        return {node: Reading(value, sampled[node]) for node, value in values.items() if node in sampled}

    def _sample_times(self, name: str) -> dict[str, float]:
        if self._is_reply_time(name):
            return {}
        asked_s = self._wall()
        ages_s = sample_ages(self._ask(self._named(name)), self._mapping)
        missing = self._mapping.names - set(ages_s)
        what = name.removesuffix("_time")
        self._problems[name] = (
            [f"{what}: {len(missing)} nodes have no fresh series: {some(missing)}"] if missing else []
        )
        return {node: asked_s - age_s for node, age_s in ages_s.items()}

    def _is_reply_time(self, name: str) -> bool:
        return not name or self._named(name) == REPLY_TIME

    def _read_pods(self, known: Mapping[PodName, PodUse]) -> Mapping[PodName, PodUse]:
        now_s = time.monotonic()
        if not self.settings.pods or now_s < self._due_s.get(PODS, 0.0):
            return known
        self._due_s[PODS] = now_s + self.settings.pods_interval_s
        try:
            pods, self._problems[PODS] = pod_uses(self._ask_pods, self.settings.pod_parts(), known)
        except QueryRefused as why:
            self._problems[PODS] = [f"pods: {why}"]
            return known
        return pods

    # --- what requests see

    def _publish(self, columns: Columns, pods: Mapping[PodName, PodUse], down: str) -> None:
        oldest_s = self._wall() - FORGET_AFTER_S
        kept = {
            name: {node: reading for node, reading in readings.items() if reading.sampled_at_s >= oldest_s}
            for name, readings in columns.items()
        }
        told = [problem for part in self._problems.values() for problem in part]
        problems = tuple(([down] if down else []) + told)
        for problem in set(problems) - set(self._newest.problems):
            logger.warning("Prometheus: %s", problem)
        if self._newest.problems and not problems:
            logger.info("Prometheus: all is well again")
        self._newest = LiveMetrics(kept, pods, problems)
        self._on_read()


def clock_problem(asked_s: float, answered_s: float, replied_s: list[float]) -> list[str]:
    """Whether Prometheus answered at a time that was not between question and answer."""
    off_s = [max(asked_s - at_s, at_s - answered_s) for at_s in replied_s]
    return [f"its clock and ours differ by {off:.0f} s" for off in off_s if off > CLOCKS_AGREE_S]

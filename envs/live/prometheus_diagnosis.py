"""Which node has no series, and why: the questions that a person would ask Prometheus one after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from envs.live.prometheus import clock_problem
from envs.live.prometheus_client import PrometheusClient, QueryRefused, Series
from envs.live.prometheus_mapping import DETECTION, Addresses, mapping_of
from envs.live.prometheus_reading import COLUMNS, Faults, by_node, sample_ages, some

GROUPS = {"network": "network_time", "cpu": "cpu_time", "memory": "memory_time"}
BASE_METRICS = {
    "network": "node_network_receive_bytes_total",
    "cpu": "node_cpu_seconds_total",
    "memory": "node_memory_MemAvailable_bytes",
}
FUTURE_S = 600.0  # Prometheus takes no sample that is further ahead
SPEED_METRIC = "node_network_speed_bytes"


@dataclass(frozen=True, slots=True)
class NodeHealth:
    name: str
    ages_s: Mapping[str, float]  # group -> age of its newest sample
    values: Mapping[str, float]  # column -> newest value
    wrong: Mapping[str, str] = field(default_factory=dict)  # group -> why it has no usable series
    notes: tuple[str, ...] = ()  # what is worth knowing and does no harm

    @property
    def ok(self) -> bool:
        return not self.wrong


@dataclass(frozen=True, slots=True)
class Diagnosis:
    label: str  # that tells nodes apart
    nodes: tuple[NodeHealth, ...]
    problems: tuple[str, ...]  # of the whole

    @property
    def ok(self) -> bool:
        return bool(self.nodes) and not self.problems and all(node.ok for node in self.nodes)


def diagnose(client: PrometheusClient, addresses: Addresses, stale_after_s: float) -> Diagnosis:
    """Raises ``PrometheusUnavailable`` if Prometheus does not answer at all."""
    return _Doctor(client, addresses, stale_after_s).report()


class _Doctor:
    def __init__(self, client: PrometheusClient, addresses: Addresses, stale_after_s: float) -> None:
        self._client = client
        self._stale_after_s = stale_after_s
        self._problems: list[str] = []
        asked_s = time.time()
        detected = client.vector(DETECTION)
        self._problems += clock_problem(asked_s, time.time(), [one.at_s for one in detected[:1]])
        self._mapping = mapping_of(detected, addresses, client.settings.node_label)
        self._exporters = [one for one in detected if one.labels.get("__name__") != "kube_node_info"]
        self._targets = self._exporter_targets()
        self._faults = Faults()
        self._ages_s = {group: self._ages(name) for group, name in GROUPS.items()}
        self._values = {column.name: self._column(column.name) for column in COLUMNS}

    def report(self) -> Diagnosis:
        names = self._mapping.names or self._seen()
        nodes = tuple(self._node(name) for name in sorted(names))
        if not self._exporters:
            self._problems.append("no series of a node exporter (node_memory_MemTotal_bytes): is one installed?")
        if not names:
            self._problems.append("no node is known, neither from Kubernetes nor from any series")
        return Diagnosis(self._mapping.label, nodes, (*self._problems, *self._faults.said(self._mapping.label)))

    # --- what Prometheus has

    def _ask(self, query: str, at_s: float | None = None) -> list[Series]:
        try:
            return self._client.vector(query, at_s=at_s)
        except QueryRefused as why:
            self._problems.append(f"{why}; the query was {query}")
            return []

    def _named(self, name: str) -> str:
        return self._client.settings.query(name, self._mapping.label)

    def _ages(self, name: str) -> dict[str, float]:
        return sample_ages(self._ask(self._named(name)), self._mapping)

    def _column(self, name: str) -> dict[str, float]:
        column = next(column for column in COLUMNS if column.name == name)
        return by_node(self._ask(self._named(column.query)), self._mapping, column, self._faults)

    def _exporter_targets(self) -> list[Mapping[str, Any]]:
        """Targets of the jobs that bring series of node exporters; all of them where there are no such series."""
        targets = self._client.targets()
        brought = {one.labels.get("job") for one in self._ask("group by (job) (node_memory_MemTotal_bytes)")}
        return [one for one in targets if not brought or _labels(one).get("job") in brought]

    def _seen(self) -> set[str]:
        labels = [*(one.labels for one in self._exporters), *map(_labels, self._targets)]
        return {name for name in map(self._mapping.node_of, labels) if name is not None}

    # --- one node

    def _node(self, name: str) -> NodeHealth:
        ages_s = {group: ages[name] for group, ages in self._ages_s.items() if name in ages}
        values = {column: found[name] for column, found in self._values.items() if name in found}
        wrong = {}
        for group in GROUPS:
            if group not in ages_s:
                wrong[group] = self._why_missing(name, group)
            elif ages_s[group] > self._stale_after_s:
                wrong[group] = self._why_stale(name, ages_s[group])
        if "network" not in wrong and "rx_mbps" not in values:
            wrong["network"] = "it has counters, but no rate yet: the window needs two samples"
        return NodeHealth(name, ages_s, values, wrong, self._notes(name, values, wrong))

    def _why_missing(self, name: str, group: str) -> str:
        targets = [target for target in self._targets if self._mapping.node_of(_labels(target)) == name]
        if not targets:
            return self._why_unmapped()
        failing = [str(target.get("lastError", "")) for target in targets if target.get("health") != "up"]
        if len(failing) == len(targets):
            return f"its exporter is not scraped: {failing[0] or 'not yet'}"[:200]
        return self._why_filtered(name, group)

    def _why_unmapped(self) -> str:
        label = self._mapping.label
        strangers = {one.labels.get(label, "") for one in self._exporters if self._mapping.node_of(one.labels) is None}
        if strangers == {""}:
            others = sorted(set().union(*(one.labels for one in self._exporters)) - {"__name__"})
            return f"no label {label}: the series have {', '.join(others)}; set PROMETHEUS__NODE_LABEL"
        if strangers:
            return f"mapping not found: {label} {some(strangers)} belongs to no node, one of them may be this one"
        return "no target: Prometheus scrapes no node exporter there"

    def _why_filtered(self, name: str, group: str) -> str:
        """The exporter answers, but the query finds nothing."""
        metric = BASE_METRICS[group]
        label = self._mapping.label
        found = [one for one in self._ask(f"group by ({label}, device) ({metric})") if self._is(one, name)]
        ahead = self._ask(f"group by ({label}) (last_over_time({metric}[{FUTURE_S:.0f}s]))", time.time() + FUTURE_S)
        if not found and any(self._is(one, name) for one in ahead):
            return "its samples are of the future: the clock of the exporter is ahead"
        if not found:
            return f"no {metric}: that collector of its exporter is off, or the metric has another name"
        devices = {one.labels.get("device", "") for one in found}
        return (
            f"no interface matches: it has {some(devices)}; set PROMETHEUS__DEVICE" if devices != {""} else "no match"
        )

    def _is(self, one: Series, name: str) -> bool:
        return self._mapping.node_of(one.labels) == name

    def _why_stale(self, name: str, age_s: float) -> str:
        up = [one for one in self._targets if self._mapping.node_of(_labels(one)) == name and one.get("health") == "up"]
        if up:
            return f"stale: {age_s:.0f} s old although it is scraped: the clock of the exporter is behind"
        return f"stale: {age_s:.0f} s old, and it is not scraped any more"

    def _notes(self, name: str, values: Mapping[str, float], wrong: Mapping[str, str]) -> tuple[str, ...]:
        if "nic_mbps" in values or len(wrong) == len(GROUPS):
            return ()
        reported = any(self._is(one, name) for one in self._speeds)
        why = "not above 0, as on virtual NICs" if reported else "not reported"
        return (f"NIC speed unknown ({why}): label the node pilotfish.io/nic-mbps",)

    @cached_property
    def _speeds(self) -> list[Series]:
        return self._ask(f"max by ({self._mapping.label}) ({SPEED_METRIC})")


def _labels(target: Mapping[str, Any]) -> Mapping[str, str]:
    labels = target.get("labels")
    return {str(name): str(value) for name, value in labels.items()} if isinstance(labels, dict) else {}

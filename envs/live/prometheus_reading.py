"""Replies of Prometheus as readings by node: what is no usable number is left out and said, never guessed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from envs.live.prometheus_client import Series
from envs.live.prometheus_mapping import SHOWN, NodeMapping

MIB = float(2**20)
MBPS = 8e-6  # bytes in a second to megabits in a second
MILLICORES = 1000.0
REPLY_TIME = "reply"  # a time query that is none: values are as old as the answer
LARGEST = 1e15  # of any column: above it a counter or an exporter is broken


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the cluster state, its query, the factor to its unit, and the query that tells its time."""

    name: str
    query: str
    factor: float = 1.0
    time_query: str = ""  # "": as old as the answer


COLUMNS = (
    Column("rx_mbps", "rx", MBPS, "network_time"),
    Column("tx_mbps", "tx", MBPS, "network_time"),
    Column("cpu_used_millicores", "cpu", MILLICORES, "cpu_time"),
    Column("memory_used_mib", "memory", 1 / MIB, "memory_time"),
    Column("connections", "connections", 1.0, "network_time"),
    Column("cpu_std_millicores", "cpu_std", MILLICORES, "cpu_time"),
    Column("nic_mbps", "nic", MBPS),
)


@dataclass(slots=True)
class Faults:
    """What did not fit, for people."""

    unusable: dict[str, set[str]] = field(default_factory=dict)  # column -> NaN, infinite, negative or absurd
    unmapped: set[str] = field(default_factory=set)
    duplicated: set[str] = field(default_factory=set)

    def said(self, label: str) -> list[str]:
        told = [f"{column}: values of {some(found)} are no usable numbers" for column, found in self.unusable.items()]
        if self.unmapped:
            told.append(f"{label} {some(self.unmapped)} belongs to no node")
        if self.duplicated:
            told.append(f"several series for {some(self.duplicated)}; the highest counts")
        return told


def by_node(series: Iterable[Series], mapping: NodeMapping, column: Column, faults: Faults) -> dict[str, float]:
    """One value for each node that has one; of several the highest, because an idle twin must not hide a busy node."""
    found: dict[str, float] = {}
    for one in series:
        node, value = mapping.node_of(one.labels), one.value * column.factor
        if node is None:
            faults.unmapped.add(one.labels.get(mapping.label, "(none)"))
        elif not 0.0 <= value <= LARGEST:
            faults.unusable.setdefault(column.name, set()).add(node)
        else:
            if node in found:
                faults.duplicated.add(node)
            found[node] = max(value, found.get(node, 0.0))
    return found


def sample_ages(series: Iterable[Series], mapping: NodeMapping) -> dict[str, float]:
    """How old the youngest sample of each node was when Prometheus answered; a clock that is ahead makes it 0."""
    ages_s: dict[str, float] = {}
    for one in series:
        node, age_s = mapping.node_of(one.labels), max(one.at_s - one.value, 0.0)
        if node is not None and math.isfinite(age_s):
            ages_s[node] = min(age_s, ages_s.get(node, age_s))
    return ages_s


def some(names: Iterable[str]) -> str:
    """A few of them, and how many more."""
    ordered = sorted(set(names))
    more = len(ordered) - SHOWN
    return ", ".join(ordered[:SHOWN]) + (f" and {more} more" if more > 0 else "")

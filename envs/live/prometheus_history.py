"""The past as Prometheus kept it, chunk by chunk: metrics of the nodes on a grid of steps, and what the nodes were.

A chunk is short enough for one reply; a reply that is too long all the same is asked for in halves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.cluster import FloatArray
from envs.live.prometheus_client import PrometheusClient, QueryRefused, ReplyTooLarge, Series
from envs.live.prometheus_mapping import DETECTION, NodeMapping, mapping_of
from envs.live.prometheus_reading import COLUMNS, LARGEST, MIB, MILLICORES, REPLY_TIME, Column
from envs.live.prometheus_settings import seconds
from envs.workloads.recording_records import NodeSpec

STEPS_PER_CHUNK = 120
TIME_QUERIES = tuple({column.time_query: None for column in COLUMNS if column.time_query})
ZONE = "label_topology_kubernetes_io_zone"
GPU = "nvidia_com_gpu"


@dataclass(frozen=True, slots=True)
class Chunk:
    from_s: float
    to_s: float  # the last step of it
    step_s: float

    @property
    def times_s(self) -> FloatArray:
        return np.arange(self.from_s, self.to_s + self.step_s / 2, self.step_s)

    @property
    def length(self) -> str:
        """As PromQL writes it; a step more than the chunk, so that its first moment is in it."""
        return seconds(self.to_s - self.from_s + self.step_s)


def chunks(from_s: float, to_s: float, step_s: float) -> Iterator[Chunk]:
    """Whole seconds, because the client rounds to them."""
    steps = int((to_s - from_s) // step_s) + 1
    for first in range(0, steps, STEPS_PER_CHUNK):
        last = min(first + STEPS_PER_CHUNK, steps) - 1
        yield Chunk(from_s + first * step_s, from_s + last * step_s, step_s)


class History:
    """Asks for one chunk after the other; what is known of labels stays known when a node is gone."""

    def __init__(self, client: PrometheusClient) -> None:
        self.client = client
        self.mapping = NodeMapping()
        self.missing: dict[str, int] = {}  # what Prometheus did not have -> in how many chunks

    def vector(self, query: str, chunk: Chunk, what: str = "") -> list[Series]:
        """At the end of the chunk; ``what`` is said to be missing if there is nothing."""
        try:
            found = self.client.vector(query, at_s=chunk.to_s)
        except QueryRefused as why:
            found = []
            what = f"{what} ({why})" if what else ""
        if what and not found:
            self.missing[what] = self.missing.get(what, 0) + 1
        return found

    def find_mapping(self, chunk: Chunk) -> None:
        found = mapping_of(self.vector(DETECTION, chunk), {}, self.client.settings.node_label)
        if found.translated or found.names:
            translated = {**self.mapping.translated, **found.translated}
            self.mapping = replace(found, names=self.mapping.names | found.names, translated=translated)
        elif not self.mapping.names:
            self.mapping = found

    def columns(self, chunk: Chunk) -> tuple[list[str], dict[str, FloatArray]]:
        """Nodes, and a grid of (nodes, steps) for each column and each time query; NaN where nothing is known."""
        series = {column.name: self._column(column, chunk) for column in COLUMNS}
        nodes = sorted({name for found in series.values() for name, _ in self._mapped(found)})
        grids = {column.name: self._grid(series[column.name], nodes, chunk, column.factor) for column in COLUMNS}
        return nodes, grids | {name: self._sampled(name, nodes, chunk) for name in TIME_QUERIES}

    def specs(self, nodes: Sequence[str], chunk: Chunk, nic_mbps: Mapping[str, float]) -> list[NodeSpec]:
        """What is known of the nodes at the end of the chunk; those of unknown size are left out."""
        cpu, memory, pods, gpus = (self._allocatable(resource, chunk) for resource in ("cpu", "memory", "pods", GPU))
        cpu = {**self._exported("count by (<label>) (node_cpu_seconds_total{mode='idle'})", chunk), **cpu}
        memory = {**self._exported("max by (<label>) (node_memory_MemTotal_bytes)", chunk), **memory}
        zones = {one.labels.get("node", ""): one.labels.get(ZONE, "") for one in self.vector("kube_node_labels", chunk)}
        cordoned = self._by_node("kube_node_spec_unschedulable", chunk)
        return [
            NodeSpec(
                name=name,
                zone=zones.get(name, ""),
                cpu_allocatable_millicores=cpu[name] * MILLICORES,
                memory_allocatable_mib=memory[name] / MIB,
                pods_allocatable=pods.get(name, 110.0),
                gpus=int(gpus.get(name, 0.0)),
                nic_mbps=nic_mbps.get(name),
                schedulable=not cordoned.get(name, 0.0),
            )
            for name in sorted({*nodes, *cpu})
            if name in cpu and name in memory
        ]

    # --- questions

    def _named(self, name: str) -> str:
        return self.client.settings.query(name, self.mapping.label)

    def _column(self, column: Column, chunk: Chunk) -> list[Series]:
        found = self._over(self._named(column.query), chunk)
        if not found:
            self.missing[column.name] = self.missing.get(column.name, 0) + 1
        return found

    def _sampled(self, name: str, nodes: Sequence[str], chunk: Chunk) -> FloatArray:
        if self._named(name) == REPLY_TIME:
            return np.broadcast_to(chunk.times_s, (len(nodes), len(chunk.times_s)))
        return self._grid(self._over(self._named(name), chunk), nodes, chunk, 1.0)

    def _over(self, query: str, chunk: Chunk) -> list[Series]:
        try:
            return self.client.matrix(query, chunk.from_s, chunk.to_s, chunk.step_s)
        except QueryRefused as why:
            self.missing[str(why)] = self.missing.get(str(why), 0) + 1
            return []
        except ReplyTooLarge:
            steps = round((chunk.to_s - chunk.from_s) / chunk.step_s)
            if steps < 1:
                raise
            middle_s = chunk.from_s + (steps // 2) * chunk.step_s
            first = replace(chunk, to_s=middle_s)
            return [*self._over(query, first), *self._over(query, replace(chunk, from_s=middle_s + chunk.step_s))]

    def _allocatable(self, resource: str, chunk: Chunk) -> dict[str, float]:
        what = "" if resource == GPU else f"kube_node_status_allocatable of {resource}"
        query = f'max by (node) (kube_node_status_allocatable{{resource="{resource}"}})'
        return self._by_node(query, chunk, what)

    def _by_node(self, query: str, chunk: Chunk, what: str = "") -> dict[str, float]:
        found = self.vector(query, chunk, what)
        return {one.labels["node"]: one.value for one in found if one.labels.get("node") and 0 <= one.value <= LARGEST}

    def _exported(self, query: str, chunk: Chunk) -> dict[str, float]:
        found = self.vector(query.replace("<label>", self.mapping.label), chunk)
        return {name: one.value for name, one in self._mapped(found) if 0 <= one.value <= LARGEST}

    # --- grids

    def _mapped(self, series: Sequence[Series]) -> Iterator[tuple[str, Series]]:
        for one in series:
            name = self.mapping.node_of(one.labels)
            if name is not None:
                yield name, one

    def _grid(self, series: Sequence[Series], nodes: Sequence[str], chunk: Chunk, factor: float) -> FloatArray:
        row = {name: place for place, name in enumerate(nodes)}
        grid = np.full((len(nodes), len(chunk.times_s)), math.nan)
        for name, one in self._mapped(series):
            if name in row:
                steps = np.rint((np.array(one.times_s) - chunk.from_s) / chunk.step_s).astype(np.int64)
                values = np.array(one.values) * factor
                usable = (values >= 0.0) & (values <= LARGEST) & (steps >= 0) & (steps < grid.shape[1])
                grid[row[name], steps[usable]] = np.fmax(grid[row[name], steps[usable]], values[usable])
        return grid

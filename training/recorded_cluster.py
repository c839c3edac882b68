"""A recording as arrays: the nodes, the pods with their lives, and the metrics over time.

Only pods that the sidecar was asked about are known one by one. What others used (pods that ran before the recording
began, daemons, the kubelet) is what remains of a node's metrics when the known pods are taken off: its background.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agent.cluster import FloatArray, IntArray
from agent.errors import InputError
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import Bound, Decision, Ended, Header, Nodes, NodeSpec, Record, Sample
from envs.workloads.series import filled_forward

METRICS = ("cpu_used_millicores", "memory_used_mib", "rx_mbps", "tx_mbps")
AMOUNTS = (
    *("cpu_request_millicores", "memory_request_mib", "gpus", "gpu_milli"),
    *("expected_cpu_millicores", "expected_memory_mib", "expected_rx_mbps", "expected_tx_mbps"),
    *("sibling_mbps", "latency_soft_ms", "latency_hard_ms"),
)
EXPECTED = dict(zip(METRICS, AMOUNTS[4:8], strict=True))


@dataclass(frozen=True, slots=True)
class RecordedPods:
    """Pods in order of arrival; times in unix seconds."""

    arrived_s: FloatArray
    ended_s: FloatArray  # inf: it still ran when the recording stopped
    node: IntArray  # -1: never bound
    app: IntArray
    labelled: FloatArray  # 1 if the app was known
    annotated: FloatArray  # 1 if its demand came from an annotation
    followed: FloatArray  # 1 if it went where we sent it, 0 if not, NaN if nobody knows
    amounts: dict[str, FloatArray]  # by name of AMOUNTS; NaN: unknown


@dataclass(frozen=True, slots=True)
class RecordedCluster:
    began_s: float
    stopped_s: float
    nodes: tuple[NodeSpec, ...]
    added_s: FloatArray  # (nodes,)
    removed_s: FloatArray  # (nodes,): inf if it stayed
    apps: int
    pods: RecordedPods
    sample_s: FloatArray  # (samples,)
    age_s: float  # of the network metrics, in the median
    missing: float  # share of the samples without network metrics
    background: dict[str, FloatArray]  # (samples, nodes), by name of METRICS, what known pods are not expected to use

    @property
    def span_s(self) -> float:
        return self.stopped_s - self.began_s


def read_cluster(path: Path) -> RecordedCluster:
    """A recording in segments, or packed by ``pilotfish record pack``."""
    return _Reader(path).read(_records(path))


def _records(path: Path) -> Iterable[Record]:
    if (path / "header.parquet").is_file():
        from training.record import unpack  # loads pyarrow

        return unpack(path)
    return read_recording(path)


@dataclass(slots=True)
class _Life:
    decision: Decision
    arrived_s: float
    node: str = ""
    ended_s: float = np.inf


@dataclass(slots=True)
class _Reader:
    path: Path
    specs: dict[str, NodeSpec] = field(default_factory=dict)
    added_s: dict[str, float] = field(default_factory=dict)
    removed_s: dict[str, float] = field(default_factory=dict)
    lives: dict[str, _Life] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    def read(self, records: Iterable[Record]) -> RecordedCluster:
        for record in records:
            self.times_s.append(record.at_s)
            self._take(record)
        if not self.specs or not self.lives or len(self.samples) < 2:
            what = f"{len(self.specs)} nodes, {len(self.lives)} decided pods and {len(self.samples)} samples"
            raise InputError(f"{self.path}: the recording has {what}: too little to make a world of")
        return self._cluster()

    def _take(self, record: Record) -> None:
        match record:
            case Header() | Nodes():
                self._nodes(record)
            case Sample():
                self.samples.append(record)
            case Decision():
                life = self.lives.get(record.pod_uid)  # asked again: it had not been bound
                self.lives[record.pod_uid] = _Life(record, record.at_s if life is None else life.arrived_s)
            case Bound() if record.pod_uid in self.lives:
                self.lives[record.pod_uid].node = record.node
            case Ended() if record.pod_uid in self.lives:
                self.lives[record.pod_uid].ended_s = record.at_s

    def _nodes(self, record: Header | Nodes) -> None:
        for spec in record.nodes:
            self.specs[spec.name] = spec
            self.added_s.setdefault(spec.name, -np.inf if isinstance(record, Header) else record.at_s)
            self.removed_s.pop(spec.name, None)
        for name in record.removed if isinstance(record, Nodes) else ():
            self.removed_s[name] = record.at_s

    def _cluster(self) -> RecordedCluster:
        index = {name: number for number, name in enumerate(self.specs)}
        pods, apps = self._pods(index)
        metrics = {name: _metric(self.samples, name, index) for name in METRICS}
        ages = _metric(self.samples, "network_age_s", index)
        sample_s = np.array([sample.at_s for sample in self.samples])
        return RecordedCluster(
            began_s=min(self.times_s),
            stopped_s=max(self.times_s),
            nodes=tuple(self.specs.values()),
            added_s=np.array([self.added_s[name] for name in self.specs]),
            removed_s=np.array([self.removed_s.get(name, np.inf) for name in self.specs]),
            apps=apps,
            pods=pods,
            sample_s=sample_s,
            age_s=float(np.nanmedian(ages)) if np.isfinite(ages).any() else 0.0,
            missing=float(np.isnan(metrics["rx_mbps"]).mean()),
            background={
                name: _without_pods(values, sample_s, pods, EXPECTED[name]) for name, values in metrics.items()
            },
        )

    def _pods(self, index: dict[str, int]) -> tuple[RecordedPods, int]:
        lives = sorted(self.lives.values(), key=lambda life: life.arrived_s)
        demands = [life.decision.demand for life in lives]
        owners = [f"{demand.namespace}/{demand.app}" for demand in demands]  # without an app: the namespace is one
        names, app = np.unique(owners, return_inverse=True)
        pods = RecordedPods(
            arrived_s=np.array([life.arrived_s for life in lives]),
            ended_s=np.array([life.ended_s for life in lives]),
            node=np.array([index.get(life.node, -1) for life in lives], dtype=np.int64),
            app=np.asarray(app, dtype=np.int64),
            labelled=np.array([float(bool(demand.app)) for demand in demands]),
            annotated=np.array([float(demand.demand_source == "annotation") for demand in demands]),
            followed=np.array([_followed(life) for life in lives]),
            amounts={name: _numbers([getattr(demand, name) for demand in demands]) for name in AMOUNTS},
        )
        return pods, len(names)


def _followed(life: _Life) -> float:
    if not life.node or life.decision.shadow or life.decision.chosen is None:
        return np.nan
    return float(life.node == life.decision.chosen)


def _numbers(values: list[Any]) -> FloatArray:
    return np.array([np.nan if value is None else float(value) for value in values])


def _metric(samples: list[Sample], name: str, index: dict[str, int]) -> FloatArray:
    """(samples, nodes); NaN where there was none."""
    values = np.full((len(samples), len(index)), np.nan)
    for row, sample in enumerate(samples):
        columns = [index[node] for node in sample.nodes if node in index]
        known = [value for node, value in zip(sample.nodes, getattr(sample, name), strict=True) if node in index]
        values[row, columns] = _numbers(known)
    return values


def _without_pods(values: FloatArray, sample_s: FloatArray, pods: RecordedPods, expected: str) -> FloatArray:
    """What the nodes used beyond what the known pods on them were expected to use; gaps repeat what was before."""
    known = np.zeros(values.shape)
    amount = np.nan_to_num(pods.amounts[expected])
    first = np.searchsorted(sample_s, pods.arrived_s)
    last = np.searchsorted(sample_s, pods.ended_s)
    for pod in np.flatnonzero(pods.node >= 0):
        known[first[pod] : last[pod], pods.node[pod]] += amount[pod]
    seen = ~np.isnan(values).all(axis=0)
    filled = np.where(seen, filled_forward(np.where(seen, values, 0.0))[0], 0.0)
    return np.maximum(filled - known, 0.0)

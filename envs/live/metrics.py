"""What a source of metrics knows: for each column of the cluster state the newest reading of every node it has.

Prometheus and the metrics API publish the same thing, whole and never changed afterwards; ``envs.live`` joins it with
the watch by node name. Times are seconds of the machine's clock (``time.time``), as the source stamped them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

PodName = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Reading:
    value: float  # in the unit that the column's name ends with
    sampled_at_s: float


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one running pod was seen to use; NaN: not known."""

    cpu_millicores: float
    memory_mib: float
    rx_mbps: float
    tx_mbps: float


@dataclass(frozen=True, slots=True)
class LiveMetrics:
    columns: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)  # column of ClusterState -> node name
    pods: Mapping[PodName, PodUse] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # what could not be read, for people


class MetricsSource(Protocol):
    """Reads metrics in the background."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Ask the background work to end; returns soon, also when it does not."""
        ...

    def newest(self) -> LiveMetrics:
        """What was read last; empty until there is something."""
        ...


class NoMetrics:
    """The watch alone: nodes are scored by what their pods request."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def newest(self) -> LiveMetrics:
        return _NOTHING


_NOTHING = LiveMetrics()

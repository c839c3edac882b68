"""What became of one workload under one scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.cluster.metering import Meter

# Name of a harm, a share, and how a plot says it.
HARMS: dict[str, str] = {
    "overload_share": "node-time with an overloaded NIC",
    "lost_share": "traffic lost",
    "cross_zone_share": "traffic across zones",
    "throttled_share": "CPU throttled",
}
# What else is measured, and how a plot says it.
OTHERS: dict[str, str] = {
    "overload_node_s": "NIC overload, node-s an episode",
    "pending_p50_ms": "pending p50, ms",
    "pending_p99_ms": "pending p99, ms",
    "pods_per_s": "pods/s",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one episode, or of several summed up."""

    meter: Meter
    node_s: float  # nodes x seconds of the tape
    pending_s: Sequence[float]  # on the wall's clock, of pods that were bound
    arrived: int
    wall_s: float
    first_choices: Sequence[bool] = field(default_factory=list)  # of pods that an extender of ours ranked
    sources: Mapping[str, int] = field(default_factory=dict)  # who ranked them

    @property
    def harms(self) -> dict[str, float]:
        meter = self.meter
        return {
            "overload_share": meter.overload_s / self.node_s,
            "lost_share": meter.lost_share,
            "cross_zone_share": meter.cross_zone_share,
            "throttled_share": meter.throttled_share,
        }

    @property
    def pods_per_s(self) -> float:
        return len(self.pending_s) / self.wall_s

    @property
    def unbound(self) -> int:
        return self.arrived - len(self.pending_s)

    @property
    def first_choice_share(self) -> float:
        return float(np.mean(self.first_choices)) if self.first_choices else float("nan")

    def pending_percentile_s(self, percent: float) -> float:
        return float(np.percentile(self.pending_s, percent)) if self.pending_s else float("nan")


def summed(outcomes: Iterable[Outcome]) -> Outcome:
    """Episodes weigh by what happened in them: shares are those of all traffic, not means of shares."""
    parts = list(outcomes)
    return Outcome(
        meter=Meter(**{name: sum(getattr(part.meter, name) for part in parts) for name in Meter.__slots__}),
        node_s=sum(part.node_s for part in parts),
        pending_s=[each for part in parts for each in part.pending_s],
        arrived=sum(part.arrived for part in parts),
        wall_s=sum(part.wall_s for part in parts),
        first_choices=[each for part in parts for each in part.first_choices],
        sources={
            name: sum(part.sources.get(name, 0) for part in parts)
            for name in sorted({name for part in parts for name in part.sources})
        },
    )


def suffered(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Every harm over some episodes, and the seconds of overload in one of them."""
    parts = list(outcomes)
    whole = summed(parts)
    return {**whole.harms, "overload_node_s": whole.meter.overload_s / len(parts)}


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """All that is measured of an arm over its episodes."""
    whole = summed(outcomes)
    return {
        **suffered(outcomes),
        "pending_p50_ms": 1000.0 * whole.pending_percentile_s(50),
        "pending_p99_ms": 1000.0 * whole.pending_percentile_s(99),
        "pods_per_s": whole.pods_per_s,
    }

"""What running pods are seen to use, as means by app, by namespace and of the cluster: the guess for the next pod."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agent.cluster import App
from agent.demand import BYTES_PER_MIB, ObservedDemand, Use
from envs.live.ledger import PodRow
from envs.live.metrics import PodName, PodUse


class _Mean:
    """Running means of the four figures of a ``Use``, each over those who know it."""

    __slots__ = ("counts", "sums")

    def __init__(self) -> None:
        self.sums = [0.0] * 4
        self.counts = [0] * 4

    def add(self, figures: tuple[float, float, float, float]) -> None:
        for place, figure in enumerate(figures):
            if math.isfinite(figure):
                self.sums[place] += figure
                self.counts[place] += 1

    def use(self) -> Use:
        return Use(*(total / count if count else math.nan for total, count in zip(self.sums, self.counts, strict=True)))


def observed_demand(pods: Mapping[PodName, PodRow], uses: Mapping[PodName, PodUse]) -> ObservedDemand:
    """Pods that the watch does not know are left out: nobody could say whose siblings they are."""
    apps: dict[App, _Mean] = {}
    namespaces: dict[str, _Mean] = {}
    cluster = _Mean()
    for name, use in uses.items():
        row = pods.get(name)
        if row is None:
            continue
        figures = _figures(row, use)
        cluster.add(figures)
        namespaces.setdefault(name[0], _Mean()).add(figures)
        if row.app:
            apps.setdefault((name[0], row.app), _Mean()).add(figures)
    return ObservedDemand(
        {app: mean.use() for app, mean in apps.items()},
        {namespace: mean.use() for namespace, mean in namespaces.items()},
        cluster.use(),
    )


def _figures(row: PodRow, use: PodUse) -> tuple[float, float, float, float]:
    """A share of no request says nothing."""
    cpu = use.cpu_millicores / row.cpu_millicores if row.cpu_millicores else math.nan
    memory = use.memory_mib * BYTES_PER_MIB / row.memory_bytes if row.memory_bytes else math.nan
    return use.rx_mbps, use.tx_mbps, cpu, memory

"""Spread by the risk of overload: how much is used, and how much that varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.heuristics.shares import share_of


@dataclass(frozen=True, slots=True)
class LoadVariationRiskBalancing:
    """From Trimaran (sigs.k8s.io/scheduler-plugins): ``LoadVariationRiskBalancing``.

    Formula, per resource: score = 100 x (1 - (mu + sigma) / 2), mu = (used + the pod's request) / allocatable,
    sigma = margin x (standard deviation / allocatable) ^ (1 / sensitivity), both limited to 0 to 1; the node's score is
    the smaller one of CPU and memory. Margin and sensitivity are 1 by default.

    As upstream, a missing standard deviation is 0 (that of memory is never scraped here), a node with one of the two
    metrics is scored by that one, and a node with neither scores 0. Upstream rounds to integers.
    """

    margin: float = 1.0
    sensitivity: float = 1.0
    name: ClassVar[str] = "load_variation_risk_balancing"
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory")

    def __post_init__(self) -> None:
        if self.margin < 0:
            raise InputError(f"margin {self.margin}: must not be negative")
        if self.sensitivity <= 0:
            raise InputError(f"sensitivity {self.sensitivity}: must be above 0")

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        cpu = _mean(state.cpu_used_millicores, demand.cpu_request_millicores, state.cpu_allocatable_millicores)
        cpu += self._deviation(state.cpu_std_millicores, state.cpu_allocatable_millicores)
        memory = _mean(state.memory_used_mib, demand.memory_request_mib, state.memory_allocatable_mib)
        risk = np.fmax(cpu, memory, out=cpu)  # fmax takes the other one where one is missing
        risk *= -50.0
        risk += 100.0
        return np.fmax(risk, 0.0, out=risk)

    def _deviation(self, std: FloatArray, capacity: FloatArray) -> FloatArray:
        sigma = share_of(np.fmax(std, 0.0), capacity)
        np.minimum(sigma, 1.0, out=sigma)
        if self.sensitivity != 1.0:
            np.power(sigma, 1.0 / self.sensitivity, out=sigma)
        sigma *= self.margin
        return np.minimum(sigma, 1.0, out=sigma)


def _mean(used: FloatArray, request: FloatArray, capacity: FloatArray) -> FloatArray:
    """mu, NaN where the metric is missing."""
    mu = share_of(used + request[..., None], capacity)
    return np.minimum(mu, 1.0, out=mu)

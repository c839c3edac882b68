"""Stay near the pods one talks to: static costs between zones, summed over the siblings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray

SAME_ZONE_COST = 1.0
MAX_COST = 100.0  # also between zones whose distance is unknown


@dataclass(frozen=True, slots=True)
class NetworkOverhead:
    """From scheduler-plugins (sigs.k8s.io): ``NetworkOverhead``.

    Formula: cost = sum over the running siblings of 0 on the same node, 1 in the same zone, c(a, b) from zone a to
    zone b; score = 100 - 100 x (cost - min) / (max - min) over the candidates, and 100 for all when costs are equal.

    Upstream reads c from a NetworkTopology object, integers up to 100. Here c = 1 + round trip in ms, at most 100, so
    that another zone is always dearer than the own one; an unknown round trip costs 100. Upstream counts the pods
    that an AppGroup object names as dependencies; here they are the siblings, and a pod without any scores 100
    everywhere (upstream 0: equal as well).
    """

    name: ClassVar[str] = "network_overhead"
    needs: ClassVar[tuple[str, ...]] = ()

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        cost = accumulated_cost(state, demand)
        least = np.min(cost, axis=-1, where=candidates, initial=np.inf)[..., None]
        most = np.max(cost, axis=-1, where=candidates, initial=-np.inf)[..., None]
        scale = np.divide(-100.0, most - least, out=np.zeros_like(most), where=most > least)
        cost -= np.where(scale < 0, least, 0.0)
        cost *= scale
        cost += 100.0
        return cost


def accumulated_cost(state: ClusterState, demand: Demand) -> FloatArray:
    """What the siblings' distance from each node adds up to."""
    to_other_zones = _cost_between_zones(state.zone_rtt_ms) @ _siblings_by_zone(state, demand)[..., None]
    cost = np.take_along_axis(to_other_zones[..., 0], state.zone, axis=-1)
    cost += SAME_ZONE_COST * (demand.siblings_in_zone - demand.siblings_on_node)
    return cost


def _siblings_by_zone(state: ClusterState, demand: Demand) -> FloatArray:
    """Siblings in each zone ``(..., zones)``: every node of a zone says the same number, so the last one stands."""
    zones = state.zone_rtt_ms.shape[-1]
    siblings = np.zeros((*state.zone.shape[:-1], zones))
    np.put_along_axis(siblings, state.zone, demand.siblings_in_zone, axis=-1)
    return siblings


def _cost_between_zones(zone_rtt_ms: FloatArray) -> FloatArray:
    """``(..., zones, zones)``, with 0 for the own zone, which is counted node by node."""
    cost = np.fmin(zone_rtt_ms + SAME_ZONE_COST, MAX_COST)  # fmin: NaN, an unknown distance, becomes the highest
    own = np.arange(cost.shape[-1])
    cost[..., own, own] = 0.0
    return cost

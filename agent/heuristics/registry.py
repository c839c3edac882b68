"""Every heuristic by its name: what configuration, the command line and comparisons may ask for."""

from __future__ import annotations

from collections.abc import Callable

from agent.errors import InputError
from agent.heuristics.balanced_allocation import BalancedAllocation
from agent.heuristics.best_fit import BestFit
from agent.heuristics.dot_product import DotProduct
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.fgd import Fgd
from agent.heuristics.least_allocated import LeastAllocated
from agent.heuristics.load_variation_risk_balancing import LoadVariationRiskBalancing
from agent.heuristics.most_allocated import MostAllocated
from agent.heuristics.network_overhead import NetworkOverhead
from agent.heuristics.network_traffic import NetworkTraffic, NetworkTrafficCorrected
from agent.heuristics.neutral import Neutral
from agent.heuristics.random import Random
from agent.heuristics.requested_to_capacity_ratio import RequestedToCapacityRatio
from agent.heuristics.rescheduler import Rescheduler
from agent.heuristics.target_load_packing import TargetLoadPacking
from agent.heuristics.thesis_policies import LatencyAwareMostPods, LeastConnections, LeastPods, MostPods
from agent.scorer import Scorer

SCORERS: dict[str, Callable[[], Scorer]] = {
    Random.name: Random,
    Neutral.name: Neutral,
    LeastAllocated.name: LeastAllocated,
    MostAllocated.name: MostAllocated,
    BalancedAllocation.name: BalancedAllocation,
    RequestedToCapacityRatio.name: RequestedToCapacityRatio,
    NetworkTraffic.name: NetworkTraffic,
    NetworkTrafficCorrected.name: NetworkTrafficCorrected,
    MostPods.name: MostPods,
    LeastPods.name: LeastPods,
    LeastConnections.name: LeastConnections,
    LatencyAwareMostPods.name: LatencyAwareMostPods,
    Rescheduler.name: Rescheduler,
    TargetLoadPacking.name: TargetLoadPacking,
    LoadVariationRiskBalancing.name: LoadVariationRiskBalancing,
    NetworkOverhead.name: NetworkOverhead,
    BestFit.name: BestFit,
    DotProduct.name: DotProduct,
    Fgd.name: Fgd,
    ExpectedUtilisation.name: ExpectedUtilisation,
}


def scorer_by_name(name: str) -> Scorer:
    """A scorer with its defaults. The spelling of the original is right too: ``NetworkTraffic``, ``MA``."""
    wanted = _plain(name)
    for known, create in SCORERS.items():
        if _plain(known) == wanted:
            return create()
    raise InputError(f"unknown scorer {name!r}: choose one of {', '.join(SCORERS)}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")

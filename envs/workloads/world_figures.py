"""Generated worlds in the same numbers as the traces, to be held against figures.yaml.

What moves over time is measured in a long, empty world of the scenario: in an episode of a quarter of an hour a load
that forgets itself within minutes has no mean of its own yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agent.cluster import FloatArray
from envs.workloads.calibration import IDLE_NIC_RATIO
from envs.workloads.scenario import Scenario, Span
from envs.workloads.statistics import (
    Figures,
    correlations,
    index_of_dispersion,
    log_normal,
    over_time,
    spread,
    top_share,
)
from envs.workloads.synthetic import make_tape
from envs.workloads.tape import Tape

EPISODES = 40
LONG_S = 40_000.0

Column = Callable[[Tape], FloatArray]


def world_figures(scenario: Scenario, seed: int = 0, episodes: int = EPISODES) -> Figures:
    """Figures of a scenario over some episodes, named as the traces' own where they mean the same."""
    tapes = [make_tape(scenario, seed, index) for index in range(episodes)]
    long = make_tape(_empty(scenario), seed)
    parts = (_use(tapes), _traffic(tapes), _arrivals(tapes), _requests(tapes), _distances(tapes))
    figures = [*parts, _background(tapes), _movement(long, scenario.loads.step_s)]
    return {name: float(value) for part in figures for name, value in part.items()}


def _empty(scenario: Scenario) -> Scenario:
    arrivals = scenario.arrivals.model_copy(update={"load": Span(low=0, high=0), "deployments": 0})
    return scenario.model_copy(update={"arrivals": arrivals, "horizon_s": LONG_S})


def _use(tapes: Sequence[Tape]) -> Figures:
    cpu = _pooled(tapes, lambda tape: tape.pod_cpu_use_ratio)
    memory = _pooled(tapes, lambda tape: tape.pod_memory_use_ratio)
    return {
        "cpu_use.mean": cpu.mean(),
        "cpu_use.below_30_pct_share": (cpu < 0.3).mean(),
        "memory_use.mean": memory.mean(),
        "memory_use.below_30_pct_share": (memory < 0.3).mean(),
    }


def _traffic(tapes: Sequence[Tape]) -> Figures:
    """Between pods: the spread within a system, the largest of all episodes."""
    sigmas = [log_normal(_pod_mbps(tape), "traffic", "mbps")["traffic.lognormal_sigma"] for tape in tapes]
    received, sent = _pooled(tapes, lambda tape: tape.pod_rx_mbps), _pooled(tapes, lambda tape: tape.pod_tx_mbps)
    return {
        "traffic.lognormal_sigma": np.mean(sigmas),
        "traffic.top_10_pct_share": top_share(_pooled(tapes, _pod_mbps)),
        "traffic.rx_share": received.sum() / (received.sum() + sent.sum()),
    }


def _pod_mbps(tape: Tape) -> FloatArray:
    """What a pod sends and receives, as its own interface counts it."""
    siblings: FloatArray = tape.app_sibling_mbps[tape.pod_app]
    return np.asarray(tape.pod_rx_mbps + tape.pod_tx_mbps + 2 * siblings, dtype=np.float64)


def _arrivals(tapes: Sequence[Tape]) -> Figures:
    coming = [tape.pod_arrival_s[~tape.pod_initial].astype(np.float64) for tape in tapes]
    dispersions = np.array([index_of_dispersion(arrival_s, 60) for arrival_s in coming])
    life_s = _pooled(tapes, lambda tape: tape.pod_duration_s[~tape.pod_initial])
    sizes = [np.bincount(tape.pod_app, minlength=tape.app_slots).astype(np.float64) for tape in tapes]
    return {
        "arrivals.dispersion_60_s": dispersions.mean(),
        "lifetime.p50_s": np.median(life_s),
        "app_pods.top_10_pct_share": np.array([top_share(size) for size in sizes]).mean(),
    }


def _requests(tapes: Sequence[Tape]) -> Figures:
    cpu = _pooled(tapes, lambda tape: tape.pod_cpu_request_millicores)
    memory = _pooled(tapes, lambda tape: tape.pod_memory_request_mib)
    gpus, milli = _pooled(tapes, lambda tape: tape.pod_gpus), _pooled(tapes, lambda tape: tape.pod_gpu_milli)
    shared = (gpus == 1) & (milli < 1_000)
    return {
        **log_normal(cpu, "cpu_request", "millicores"),
        "memory_mib_per_cpu.p50": np.median(memory / cpu * 1_000),
        "no_gpu_share": (gpus == 0).mean(),
        "shared_gpu_share": shared.mean(),
        "several_gpus_share": (gpus > 1).mean(),
        "shared_gpu_milli.mean": milli[shared].mean() if shared.any() else np.nan,
    }


def _distances(tapes: Sequence[Tape]) -> Figures:
    own = _pooled(tapes, lambda tape: np.diagonal(tape.zone_rtt_ms))
    between = _pooled(tapes, lambda tape: tape.zone_rtt_ms[np.triu_indices(tape.zone_slots, 1)])
    return {
        "same_zone.p50_ms": np.median(own),
        **{f"between_zones.{key}_ms": np.quantile(between, q) for key, q in (("min", 0), ("p50", 0.5), ("max", 1))},
    }


def _background(tapes: Sequence[Tape]) -> Figures:
    """Between nodes, by the mean of each over its episode."""
    cpu = _pooled(tapes, lambda tape: tape.background_cpu_ratio.mean(axis=0))
    nic = _pooled(tapes, lambda tape: np.maximum(tape.background_rx_ratio, tape.background_tx_ratio).mean(axis=0))
    active = nic > IDLE_NIC_RATIO
    memory = _pooled(tapes, lambda tape: tape.node_background_memory_mib / tape.node_memory_mib)
    return {
        "background_cpu.mean": cpu.mean(),
        **spread(cpu, "background_cpu"),
        "background_memory.mean": memory.mean(),
        "background_nic.idle_share": 1 - active.mean(),
        "background_nic.mean": nic.mean(),
        "background_nic.active_mean": nic[active].mean(),
    }


def _movement(tape: Tape, step_s: float) -> Figures:
    """How loads move over time."""
    traffic = tape.background_rx_ratio + tape.background_tx_ratio
    return {
        **over_time(tape.background_cpu_ratio.astype(np.float64), "background_cpu", step_s),
        **over_time(traffic.astype(np.float64), "background_nic", step_s),
        "background_nic.cpu_correlation.p50": np.nanmedian(correlations(tape.background_cpu_ratio, traffic)),
        **over_time(tape.app_load.astype(np.float64), "app_load", step_s),
    }


def _pooled(tapes: Sequence[Tape], column: Column) -> FloatArray:
    """One column of all episodes together."""
    return np.concatenate([column(tape) for tape in tapes]).astype(np.float64)

"""Worlds to train in, made of a recording of the own cluster.

``recorded_scenario(path)`` gives two things: a scenario whose figures are those of the recording (a synthetic twin: the
same fleet, requests, durations and load), and a maker of tapes that replay stretches of it. On such a tape come from
the recording: nodes, zones, arrivals, requests, lives and apps of the pods, where they ran at the start, their expected
use, and what else the nodes carried. Not recorded, so synthetic: round trips between zones, the ups and downs of each
app's load, lost scrapes, and how long pods go on that still ran at the end.

Training (seeds below 1,000,000) and evaluation (from there on) replay different stretches, where it is long enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, FloatArray, IntArray
from agent.errors import InputError
from envs.workloads import tape as tapes
from envs.workloads.recording_records import NodeSpec
from envs.workloads.scenario import (
    Apps,
    Arrivals,
    Binding,
    Fleet,
    Loads,
    LogNormal,
    NodeKind,
    Scenario,
    Scraping,
    Span,
)
from envs.workloads.synthetic import make_tape, sizes_of
from envs.workloads.tape import RING, Tape
from training.config import FIRST_HELD_OUT_SEED, TrainConfig, World
from training.group_tapes import TapeMaker
from training.recorded_cluster import RecordedCluster, read_cluster
from training.worlds import Origin, check_same, open_traces, origin_at, origin_of, tape_maker

HELD_OUT_SHARE = 0.25  # of the moments at which a stretch can begin
LONGEST_S = 900.0  # of an episode
SHORTEST_S = 60.0  # of what is replayed in one
MOST_BACKGROUND = 0.9  # as in synthetic worlds: a node that others fill has nothing to decide about
MOST_APPS = 500
# Where the recording does not know it: per core, as in the scenario microservices.
NIC_GBPS, PRICE_USD_PER_HOUR, IDLE_WATTS, PEAK_WATTS = 2.5 / 8, 0.048, 7.5, 18.75
CPU_USE, MEMORY_USE = 0.3, 0.33  # use over request, medians of public traces (docs/traces.md)
LATENCY_MS = 10.0


def recorded_scenario(path: Path) -> tuple[Scenario, TapeMaker]:
    """The twin of a recording, and the maker of its tapes: ``make(scenario, seed, number)``."""
    cluster = read_cluster(path)
    scenario = _roomy(_twin(path.resolve().name, cluster), cluster)
    return scenario, RecordedTapes(cluster, origin_at("recording", path))


def recorded_stack(scenario: Scenario, make: TapeMaker, seed: int, episodes: int) -> Tape:
    """So many tapes of a recording, for ``training.play``."""
    return tapes.stack([make(scenario, seed, number) for number in range(episodes)], sizes_of(scenario))


def recorded_config(path: Path, out: Path, base: TrainConfig, groups: int = 12) -> tuple[TrainConfig, TapeMaker]:
    """A training run on a recording instead of the configuration's scenarios; its twin is written into ``out``.

    ``groups`` are the tapes of an update. ``train(config, out, make=make)`` does the rest.
    """
    scenario, make = recorded_scenario(path)
    out.mkdir(parents=True, exist_ok=True)
    twin = out.resolve() / f"{scenario.name}.yaml"
    twin.write_text(yaml.safe_dump(scenario.model_dump(mode="json"), sort_keys=False), encoding="utf-8")
    nodes = max(base.most_nodes, int(scenario.nodes.count.high))  # a recording cannot be cut to fewer nodes
    world = World(scenario=str(twin), groups=groups)
    update = {"worlds": [world], "most_nodes": nodes, "network_peak": None, "varied_loads": None}  # it is what it is
    return base.model_copy(update=update), make


def tapes_again(before: Origin | None) -> TapeMaker:
    """The maker of the tapes that a run began with; refused if what they are made of is gone or has changed."""
    if before is None:
        return make_tape
    path = Path(before.path)
    if not path.exists():
        raise InputError(f"{before}, which the run began with, is gone; put it back, or begin anew")
    make = recorded_scenario(path)[1] if before.option == "recording" else tape_maker(open_traces(path))
    check_same(before, origin_of(make))
    return make


@dataclass(frozen=True, slots=True)
class RecordedTapes:
    """Makes tapes of one recording; the same for the same scenario, seed and number."""

    cluster: RecordedCluster
    origin: Origin

    def __call__(self, scenario: Scenario, seed: int, number: int) -> Tape:
        rng = np.random.default_rng(np.random.SeedSequence((seed, number), spawn_key=(1,)))
        base = make_tape(scenario, seed, number)
        first_s = scenario.scraping.first_rate_s  # of the tape: before it metrics fill up, then the replay begins
        since_s = _begin(self.cluster, scenario.horizon_s - first_s, seed, rng)
        window = _Window(since_s, first_s, scenario.horizon_s)
        columns = {
            **_nodes(self.cluster, window),
            **_pods(self.cluster, scenario, window, rng),
            **_background(self.cluster, base, window),
        }
        declared = _declared(self.cluster)[: base.app_slots]
        siblings = {"app_sibling_mbps": np.nan_to_num(declared), "app_sibling_declared": np.isfinite(declared)}
        return tapes.make(**vars(replace(base, **columns, **siblings)))


@dataclass(frozen=True, slots=True)
class _Window:
    """Second ``first_s`` of the tape is ``since_s`` of the recording."""

    since_s: float
    first_s: float
    horizon_s: float

    def on_tape(self, recorded_s: FloatArray) -> FloatArray:
        return recorded_s - self.since_s + self.first_s

    @property
    def until_s(self) -> float:
        return self.since_s + self.horizon_s - self.first_s


def _begin(cluster: RecordedCluster, span_s: float, seed: int, rng: np.random.Generator) -> float:
    """A moment to begin at; for evaluation among the last ones."""
    last = max(cluster.stopped_s - span_s - cluster.began_s, 0.0)
    low, high = (1.0 - HELD_OUT_SHARE, 1.0) if seed >= FIRST_HELD_OUT_SEED else (0.0, 1.0 - HELD_OUT_SHARE)
    return cluster.began_s + float(rng.uniform(low, high)) * last


# --- tapes


def _nodes(cluster: RecordedCluster, window: _Window) -> dict[str, Any]:
    zones = {name: number for number, name in enumerate(sorted({spec.zone for spec in cluster.nodes}))}
    specs = [_filled(spec) for spec in cluster.nodes]

    def column(name: str) -> FloatArray:
        return np.array([float(getattr(spec, name)) for spec in specs])

    away_s, back_s = _away(cluster, window)
    return {
        "node_cpu_millicores": column("cpu_allocatable_millicores"),
        "node_memory_mib": column("memory_allocatable_mib"),
        "node_pods": column("pods_allocatable"),
        "node_gpus": np.minimum(column("gpus"), GPUS_PER_NODE),
        "node_nic_mbps": column("nic_mbps"),
        "node_nic_known": np.array([spec.nic_mbps is not None for spec in cluster.nodes]),
        "node_zone": np.array([zones[spec.zone] for spec in cluster.nodes]),
        "node_user_latency_ms": column("user_latency_ms"),
        "node_price_usd_per_hour": column("price_usd_per_hour"),
        "node_power_idle_watts": column("power_idle_watts"),
        "node_power_peak_watts": column("power_peak_watts"),
        "node_background_memory_mib": np.median(cluster.background["memory_used_mib"], axis=0),
        "node_maintenance_start_s": away_s,
        "node_maintenance_end_s": back_s,
    }


def _away(cluster: RecordedCluster, window: _Window) -> tuple[FloatArray, FloatArray]:
    """When a node takes no pods, on the tape: before it came, or after it went, or never."""
    came_s, gone_s = window.on_tape(cluster.added_s), window.on_tape(cluster.removed_s)
    late, gone = came_s > window.first_s, gone_s < window.horizon_s
    start_s = np.where(gone, np.maximum(gone_s, 0.0), np.where(late, 0.0, np.inf))
    end_s = np.where(gone, np.inf, np.where(late, came_s, np.inf))
    return start_s, end_s


def _pods(cluster: RecordedCluster, scenario: Scenario, window: _Window, rng: np.random.Generator) -> dict[str, Any]:
    pods, known = cluster.pods, cluster.pods.amounts
    ended_s = _completed(cluster, rng)
    there = (ended_s > window.since_s) & (pods.arrived_s < window.until_s)
    initial = there & (pods.arrived_s <= window.since_s) & (pods.node >= 0)
    coming = there & (pods.arrived_s > window.since_s)
    order = np.concatenate([np.flatnonzero(initial), np.flatnonzero(coming)])[: sizes_of(scenario).pods]
    count, runs = len(order), initial[order]
    start = np.where(runs, (pods.node[order] + 0.5) / len(cluster.nodes), rng.random(count) * 0.999999)
    arrival_s = np.where(runs, 0.0, window.on_tape(pods.arrived_s[order]))
    followed = rng.random(count) < scenario.binding.override
    expected = {name: np.nan_to_num(known[name][order]) for name in ("expected_rx_mbps", "expected_tx_mbps")}
    sibling = np.nan_to_num(_declared(cluster)[pods.app[order]])
    return {
        "pod_initial": runs,
        "pod_arrival_s": arrival_s,
        "pod_duration_s": np.maximum(window.on_tape(ended_s[order]) - arrival_s, 2.0),
        "pod_app": np.minimum(pods.app[order], scenario.apps.count - 1),
        "pod_labelled": pods.labelled[order] > 0,
        "pod_cpu_request_millicores": known["cpu_request_millicores"][order],
        "pod_memory_request_mib": known["memory_request_mib"][order],
        "pod_gpus": np.minimum(known["gpus"][order], GPUS_PER_NODE),
        "pod_gpu_milli": np.minimum(known["gpu_milli"][order], GPU_MILLI),
        "pod_cpu_use_ratio": _use_ratio(cluster, "cpu_request_millicores", "expected_cpu_millicores", CPU_USE)[order],
        "pod_memory_use_ratio": _use_ratio(cluster, "memory_request_mib", "expected_memory_mib", MEMORY_USE)[order],
        "pod_rx_mbps": np.maximum(expected["expected_rx_mbps"] - sibling, 0.0),
        "pod_tx_mbps": np.maximum(expected["expected_tx_mbps"] - sibling, 0.0),
        "pod_annotated_mbps": np.where(pods.annotated[order] > 0, np.maximum(*expected.values()), np.nan),
        "pod_latency_soft_ms": known["latency_soft_ms"][order],
        "pod_latency_hard_ms": known["latency_hard_ms"][order],
        "pod_start": start,
        "pod_override": np.where(followed, rng.random(count) * 0.999999, -1.0),
        "pod_visible_after": rng.integers(0, scenario.binding.visible_after + 1, count),
    }


def _completed(cluster: RecordedCluster, rng: np.random.Generator) -> FloatArray:
    """When pods end; those that still ran go on for as long as another pod of the recording lived."""
    pods = cluster.pods
    over = np.isfinite(pods.ended_s)
    lived_s = _lived_s(cluster)
    more_s = rng.choice(lived_s, size=len(over))
    return np.where(over, pods.ended_s, cluster.stopped_s + more_s)


def _lived_s(cluster: RecordedCluster) -> FloatArray:
    """Of pods that ended; if none did, the whole recording."""
    over = np.isfinite(cluster.pods.ended_s)
    lived_s = np.maximum((cluster.pods.ended_s - cluster.pods.arrived_s)[over], 1.0)
    return lived_s if len(lived_s) else np.array([max(cluster.span_s, 1.0)])


def _use_ratio(cluster: RecordedCluster, request: str, expected: str, usual: float) -> FloatArray:
    asked, used = cluster.pods.amounts[request], cluster.pods.amounts[expected]
    ratio = np.divide(used, asked, out=np.full(len(asked), np.nan), where=asked > 0)
    return np.clip(np.where(np.isfinite(ratio), ratio, usual), 0.0, 1.5)


def _declared(cluster: RecordedCluster) -> FloatArray:
    """Traffic to siblings that some pod of the app declared, (apps,); NaN: none did."""
    declared = np.full(cluster.apps, np.nan)
    known = np.isfinite(cluster.pods.amounts["sibling_mbps"])
    declared[cluster.pods.app[known]] = cluster.pods.amounts["sibling_mbps"][known]
    return declared


def _background(cluster: RecordedCluster, base: Tape, window: _Window) -> dict[str, Any]:
    """Each step takes the last sample before it; before the first one, the first."""
    at_s = np.arange(base.app_load.shape[0]) * float(base.load_step_s) - window.first_s + window.since_s
    row = np.clip(np.searchsorted(cluster.sample_s, at_s, side="right") - 1, 0, len(cluster.sample_s) - 1)
    specs = [_filled(spec) for spec in cluster.nodes]
    cpu = np.array([spec.cpu_allocatable_millicores for spec in specs])
    nic = np.array([float(spec.nic_mbps or 0.0) for spec in specs])

    def ratio(name: str, capacity: FloatArray) -> FloatArray:
        return np.minimum(cluster.background[name][row] / capacity, MOST_BACKGROUND)

    return {
        "background_cpu_ratio": ratio("cpu_used_millicores", cpu),
        "background_rx_ratio": ratio("rx_mbps", nic),
        "background_tx_ratio": ratio("tx_mbps", nic),
    }


# --- the twin


def _twin(name: str, cluster: RecordedCluster) -> Scenario:
    scraping = _scraping(cluster)
    horizon_s = min(LONGEST_S, scraping.first_rate_s + cluster.span_s)
    if horizon_s - scraping.first_rate_s < SHORTEST_S:
        raise InputError(
            f"the recording covers {cluster.span_s:.0f} s: at least {SHORTEST_S:.0f} s are needed to make a world of it"
        )
    return Scenario(
        name=name,
        description=f"The cluster of a recording: {len(cluster.nodes)} nodes, {len(cluster.pods.app)} decided pods.",
        nodes=_fleet(cluster),
        apps=_apps(cluster),
        arrivals=Arrivals(load=_load(cluster), duration_s=_lognormal(_lived_s(cluster), 60.0)),
        loads=Loads(step_s=scraping.interval_s[0]),
        scraping=scraping,
        binding=Binding(override=_share(cluster.pods.followed == 0, np.isfinite(cluster.pods.followed))),
        horizon_s=horizon_s,
    )


def _scraping(cluster: RecordedCluster) -> Scraping:
    """As far as the samples show it; the age of a metric has the delay and half the interval in it."""
    interval_s = float(np.clip(np.median(np.diff(cluster.sample_s)), 5.0, 60.0))
    delay_s = float(np.clip(cluster.age_s - interval_s / 2.0, 0.0, 2.0 * interval_s))
    window_s = min(max(60.0, 2.0 * interval_s), (RING - 1) * interval_s - delay_s)
    return Scraping(interval_s=[interval_s], window_s=[window_s], delay_s=[delay_s], missing=cluster.missing, blind=0.0)


def _fleet(cluster: RecordedCluster) -> Fleet:
    kinds: dict[tuple[Any, ...], NodeKind] = {}
    for spec in map(_filled, cluster.nodes):
        kind = NodeKind(
            cpu_cores=spec.cpu_allocatable_millicores / 1000.0,
            memory_gib=spec.memory_allocatable_mib / 1024.0,
            nic_gbps=float(spec.nic_mbps or 0.0) / 1000.0,
            price_usd_per_hour=float(spec.price_usd_per_hour or 0.0),
            power_idle_watts=float(spec.power_idle_watts or 0.0),
            power_peak_watts=float(spec.power_peak_watts or 0.0),
            gpus=min(spec.gpus, GPUS_PER_NODE),
            pods=max(int(spec.pods_allocatable), 1),
        )
        known = kinds.get(tuple(kind.model_dump(exclude={"share"}).values()))
        share = 1.0 if known is None else known.share + 1.0
        kinds[tuple(kind.model_dump(exclude={"share"}).values())] = kind.model_copy(update={"share": share})
    count = len(cluster.nodes)
    latency_ms = [float(_filled(spec).user_latency_ms or 0.0) for spec in cluster.nodes]
    return Fleet(
        count=Span(low=count, high=count),
        zones=min(len({spec.zone for spec in cluster.nodes}), 16),
        kinds=list(kinds.values()),
        nic_unknown=sum(spec.nic_mbps is None for spec in cluster.nodes) / count,
        user_latency_ms=Span(low=min(latency_ms), high=max(latency_ms)),
    )


def _filled(spec: NodeSpec) -> NodeSpec:
    """What is unknown of a node by the number of its cores."""
    cores = spec.cpu_allocatable_millicores / 1000.0
    usual = {
        "nic_mbps": NIC_GBPS * 1000.0 * cores,
        "price_usd_per_hour": PRICE_USD_PER_HOUR * cores,
        "power_idle_watts": IDLE_WATTS * cores,
        "power_peak_watts": PEAK_WATTS * cores,
        "user_latency_ms": LATENCY_MS,
    }
    return spec.model_copy(update={name: value for name, value in usual.items() if getattr(spec, name) is None})


def _apps(cluster: RecordedCluster) -> Apps:
    pods, known = cluster.pods, cluster.pods.amounts
    cores = known["cpu_request_millicores"] / 1000.0
    per_core = np.divide(known["memory_request_mib"], cores, out=np.zeros(len(cores)), where=cores > 0)
    declared = _declared(cluster)
    return Apps(
        count=min(cluster.apps, MOST_APPS),
        cpu_request_millicores=_lognormal(known["cpu_request_millicores"], 100.0),
        memory_mib_per_core=_lognormal(per_core, 2048.0),
        external_mbps=_lognormal(known["expected_rx_mbps"] + known["expected_tx_mbps"], 1.0),
        chatty=_share(np.isfinite(declared)),
        sibling_mbps=_lognormal(declared, 40.0),
        sibling_declared=1.0,  # others are not known to talk
        labelled=_share(pods.labelled > 0),
        annotated=_share(pods.annotated > 0),
        latency_limited=_share(np.isfinite(known["latency_soft_ms"])),
    )


def _load(cluster: RecordedCluster) -> Span:
    """Requests of the decided pods over the capacity, lowest and highest in the second half of the recording."""
    at_s = np.linspace(cluster.began_s + cluster.span_s / 2.0, cluster.stopped_s, 50)
    pods, shares = cluster.pods, []
    running = (pods.arrived_s <= at_s[:, None]) & (pods.ended_s > at_s[:, None]) & (pods.node >= 0)
    for request, capacity in (
        ("cpu_request_millicores", "cpu_allocatable_millicores"),
        ("memory_request_mib", "memory_allocatable_mib"),
    ):
        shares.append(running @ pods.amounts[request] / sum(getattr(spec, capacity) for spec in cluster.nodes))
    scarcer = np.maximum(*shares)
    return Span(low=float(scarcer.min()), high=float(scarcer.max()))


def _roomy(scenario: Scenario, cluster: RecordedCluster) -> Scenario:
    """Tapes have room for as many pods as the scenario's load needs: raise it until every stretch fits."""
    needed = _most_pods(cluster, scenario.horizon_s - scenario.scraping.first_rate_s)
    load = scenario.arrivals.load
    while sizes_of(scenario).pods < needed:
        load = Span(low=load.low, high=max(load.high, 0.01) * 1.1)
        arrivals = scenario.arrivals.model_copy(update={"load": load})
        scenario = scenario.model_copy(update={"arrivals": arrivals})
    return scenario


def _most_pods(cluster: RecordedCluster, span_s: float) -> int:
    starts_s = np.linspace(cluster.began_s, max(cluster.stopped_s - span_s, cluster.began_s), 200)[:, None]
    pods = cluster.pods
    return int(((pods.ended_s > starts_s) & (pods.arrived_s < starts_s + span_s)).sum(axis=1).max())


def _lognormal(values: FloatArray, usual: float) -> LogNormal:
    """Fitted to what is known and above 0."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not len(positive):
        return LogNormal(median=usual, sigma=0.0)
    logarithm = np.log(positive)
    return LogNormal(median=math.exp(float(np.median(logarithm))), sigma=float(logarithm.std()))


def _share(true: IntArray | FloatArray | Any, among: Any = None) -> float:
    count = len(true) if among is None else int(among.sum())
    return float(np.sum(true) / count) if count else 0.0

"""Tapes from a scenario: synthetic worlds, calibrated to the figures in docs/traces.md.

``make_tape(scenario, seed, index)`` gives the same tape for the same three, whatever else ran before. Another
``future`` is the same cluster with the same apps and the same nodes busy with other things, but other arrivals,
durations and movements of the loads: what an agent that knows the cluster and not what comes must be ready for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agent.cluster import FloatArray
from envs.workloads import arrivals, carrying
from envs.workloads import tape as tapes
from envs.workloads.arrivals import Columns
from envs.workloads.draws import Rng, draw, lognormal, mean_of, wander, with_mean, with_peaks
from envs.workloads.scenario import MOST_BACKGROUND, Scenario
from envs.workloads.tape import Sizes, Tape
from envs.workloads.varied import is_varied, varied_loads

# Thousandths of a GPU that a pod asks for, and how common: the six commonest sizes of the openb lists, rounded.
GPU_PARTS = {810: 0.38, 470: 0.28, 320: 0.12, 650: 0.09, 230: 0.07, 160: 0.06}

Levels = tuple[FloatArray, FloatArray]  # mean background of every node, CPU and network, over its capacity

GENERATOR_VERSION = 3  # part of every result: raise it when the same scenario and seed give another tape


class Kept(NamedTuple):
    """What all futures of a tape share, though it is drawn with them."""

    levels: Levels
    scales: FloatArray  # of the traffic of each app


def sizes_of(scenario: Scenario) -> Sizes:
    nodes = int(scenario.nodes.count.high)
    steps = math.ceil(scenario.horizon_s / scenario.loads.step_s) + 1
    scrapes = math.ceil(scenario.horizon_s / min(scenario.scraping.interval_s)) + 2
    running = 1.05 * _running_pods(scenario, _mean_capacity(scenario) * nodes, scenario.arrivals.load.high)
    scraping = scenario.scraping
    quiet_s = min(scraping.window_s) + min(scraping.delay_s) + 2 * min(scraping.interval_s)  # before the first arrival
    arriving = running * max(scenario.horizon_s - quiet_s, 0.0) / mean_of(scenario.arrivals.duration_s)
    pods = math.ceil(running + arriving + 2.5 * math.sqrt(arriving * (1.0 + scenario.arrivals.burst_size)) + 16)
    if scenario.arrivals.deployments:
        pods = math.ceil(scenario.horizon_s / scenario.arrivals.deployment_gap_s) + 1
        pods = max(pods, scenario.arrivals.deployments)  # at least one round, however short the episode
    return Sizes(nodes, pods, scenario.apps.count, scenario.nodes.zones, steps, scrapes)


def make_tape(scenario: Scenario, seed: int, index: int = 0, future: int = 0) -> Tape:
    kept = _drawn(scenario, seed, index, 0)[1] if future else None
    return tapes.make(**_drawn(scenario, seed, index, future, kept)[0])


def _drawn(scenario: Scenario, seed: int, index: int, future: int, kept: Kept | None = None) -> tuple[Columns, Kept]:
    """Columns of a tape, with what other futures keep of it, or had kept."""
    world = np.random.default_rng(np.random.SeedSequence((seed, index)))
    rng = np.random.default_rng(np.random.SeedSequence((seed, index, future)))
    sizes = sizes_of(scenario)
    rules = _rules(scenario, world)
    load = float(draw(scenario.arrivals.load, 1, world)[0])
    nodes = _nodes(scenario, world)
    apps = _apps(scenario, world)
    timing = arrivals.timing(scenario, nodes, apps, rules, load, sizes.pods, rng)
    pods = _pods(scenario, apps, timing, rng)
    loads, levels = _loads(scenario, len(nodes["node_zone"]), sizes, kept and kept.levels, rng)
    if is_varied(scenario.loads, seed, index):
        loads = varied_loads(scenario.loads, sizes, *levels, seed, index, future)
    scrapes = _scrapes(scenario, len(nodes["node_zone"]), sizes, rng)
    siblings = {name: apps[name] for name in ("app_sibling_mbps", "app_sibling_declared")}
    columns = {**rules, **nodes, **siblings, **timing, **pods, **loads, **scrapes}
    scale = kept.scales if kept else carrying.scales(columns, scenario.loads.network_peak)
    return {**columns, **carrying.scaled(columns, scale)}, Kept(levels, scale)


def make_tapes(scenario: Scenario, seed: int, indices: range | list[int]) -> Tape:
    """A stack of tapes, padded to the sizes of the scenario."""
    sizes = sizes_of(scenario)
    return tapes.stack([make_tape(scenario, seed, index) for index in indices], sizes)


# --- the parts of a tape


def _rules(scenario: Scenario, rng: Rng) -> Columns:
    scraping = scenario.scraping
    return {
        "horizon_s": scenario.horizon_s,
        "tick_s": scenario.tick_s,
        "pending_timeout_s": scenario.pending_timeout_s,
        "candidate_minimum": scenario.binding.candidate_minimum,
        "load_step_s": scenario.loads.step_s,
        "scrape_interval_s": rng.choice(scraping.interval_s),
        "scrape_delay_s": rng.choice(scraping.delay_s),
        "rate_window_s": rng.choice(scraping.window_s),
        "pod_metrics": rng.random() < scraping.pod_metrics,
    }


def _nodes(scenario: Scenario, rng: Rng) -> Columns:
    fleet = scenario.nodes
    count = int(rng.integers(int(fleet.count.low), int(fleet.count.high) + 1))
    shares = np.array([kind.share for kind in fleet.kinds])
    kind = rng.choice(len(fleet.kinds), size=count, p=shares / shares.sum())
    zone = rng.permutation(np.arange(count) % fleet.zones)
    zone_latency_ms = draw(fleet.user_latency_ms, fleet.zones, rng)

    def column(name: str) -> FloatArray:
        return np.array([getattr(entry, name) for entry in fleet.kinds], dtype=np.float64)[kind]

    memory_mib = column("memory_gib") * 1024.0
    start_s = np.where(rng.random(count) < fleet.maintenance, rng.uniform(0.2, 0.8, count) * scenario.horizon_s, np.inf)
    return {
        "node_cpu_millicores": column("cpu_cores") * 1000.0,
        "node_memory_mib": memory_mib,
        "node_pods": column("pods"),
        "node_gpus": column("gpus"),
        "node_nic_mbps": column("nic_gbps") * 1000.0,
        "node_nic_known": rng.random(count) >= fleet.nic_unknown,
        "node_zone": zone,
        "node_user_latency_ms": zone_latency_ms[zone] * rng.uniform(0.8, 1.2, count),
        "node_price_usd_per_hour": column("price_usd_per_hour"),
        "node_power_idle_watts": column("power_idle_watts"),
        "node_power_peak_watts": column("power_peak_watts"),
        "node_background_memory_mib": memory_mib * rng.uniform(0.03, 0.11, count),
        "node_maintenance_start_s": start_s,
        "node_maintenance_end_s": start_s + 0.2 * scenario.horizon_s,
        "zone_rtt_ms": _rtt(scenario, rng),
    }


def _rtt(scenario: Scenario, rng: Rng) -> FloatArray:
    zones = scenario.nodes.zones
    one_way = np.triu(draw(scenario.nodes.zone_rtt_ms, zones * zones, rng).reshape(zones, zones), 1)
    return one_way + one_way.T + np.eye(zones) * scenario.nodes.same_zone_rtt_ms


def _apps(scenario: Scenario, rng: Rng) -> Columns:
    apps, count = scenario.apps, scenario.apps.count
    popularity = rng.permutation(np.arange(1, count + 1) ** -apps.popularity)
    popularity /= popularity.sum()
    cpu = with_mean(apps.cpu_request_millicores, popularity, rng)
    memory = with_mean(apps.memory_mib_per_core, popularity, rng) * cpu / 1000.0
    external = with_mean(apps.external_mbps, popularity, rng)
    receive = draw(apps.receive_share, count, rng)
    chatty = rng.random(count) < apps.chatty
    soft_ms = np.where(rng.random(count) < apps.latency_limited, draw(apps.latency_soft_ms, count, rng), np.nan)
    return {
        "popularity": popularity,
        "cpu_millicores": np.maximum(cpu.round(-1), 10.0),
        "memory_mib": np.maximum(memory.round(), 16.0),
        "cpu_use_ratio": draw(apps.cpu_use_ratio, count, rng),
        "memory_use_ratio": draw(apps.memory_use_ratio, count, rng),
        "rx_mbps": external * receive,
        "tx_mbps": external * (1.0 - receive),
        "labelled": rng.random(count) < apps.labelled,
        "latency_soft_ms": soft_ms,
        "app_sibling_mbps": np.where(chatty, lognormal(apps.sibling_mbps, count, rng), 0.0),
        "app_sibling_declared": rng.random(count) < apps.sibling_declared,
    }


def _pods(scenario: Scenario, apps: Columns, timing: Columns, rng: Rng) -> Columns:
    spec, app = scenario.apps, timing["pod_app"]
    count = len(app)

    def jittered(values: FloatArray) -> FloatArray:
        return np.asarray(values[app] * np.exp(spec.use_jitter * rng.standard_normal(count)))

    rx, tx = jittered(apps["rx_mbps"]), jittered(apps["tx_mbps"])
    total = np.maximum(rx, tx) + apps["app_sibling_mbps"][app]
    claimed = total * np.exp(spec.annotation_error * rng.standard_normal(count))
    binding = scenario.binding
    return {
        "pod_labelled": apps["labelled"][app],
        "pod_cpu_request_millicores": apps["cpu_millicores"][app],
        "pod_memory_request_mib": apps["memory_mib"][app],
        "pod_cpu_use_ratio": jittered(apps["cpu_use_ratio"]),
        "pod_memory_use_ratio": np.minimum(jittered(apps["memory_use_ratio"]), 1.5),
        "pod_rx_mbps": rx,
        "pod_tx_mbps": tx,
        "pod_annotated_mbps": np.where(rng.random(count) < spec.annotated, claimed, np.nan),
        "pod_latency_soft_ms": apps["latency_soft_ms"][app],
        "pod_latency_hard_ms": apps["latency_soft_ms"][app] * spec.latency_hard_over_soft,
        "pod_start": rng.random(count) * 0.999999,
        "pod_override": np.where(rng.random(count) < binding.override, rng.random(count) * 0.999999, -1.0),
        "pod_visible_after": rng.integers(0, binding.visible_after + 1, count),
        **_gpu_requests(scenario, count, rng),
    }


def _gpu_requests(scenario: Scenario, count: int, rng: Rng) -> Columns:
    gpus = scenario.gpus
    asks = rng.random(count) < gpus.share
    fractional = rng.random(count) < gpus.fractional
    sizes, weights = np.array(list(gpus.whole)), np.array(list(gpus.whole.values()))
    whole = rng.choice(sizes, size=count, p=weights / weights.sum())
    part = rng.choice(list(GPU_PARTS), size=count, p=list(GPU_PARTS.values()))
    return {
        "pod_gpus": np.where(asks, np.where(fractional, 1, whole), 0),
        "pod_gpu_milli": np.where(asks & fractional, part, 1000),
    }


def _loads(scenario: Scenario, nodes: int, sizes: Sizes, levels: Levels | None, rng: Rng) -> tuple[Columns, Levels]:
    """How all loads move, and the mean background of the nodes: what is given, or else what is drawn."""
    loads = scenario.loads
    app = np.exp(loads.app_sigma * wander(sizes.steps, sizes.apps, loads.step_s / loads.app_memory_s, rng))
    app *= math.exp(-(loads.app_sigma**2) / 2.0)
    app = with_peaks(app, loads, rng)
    noise = wander(sizes.steps, 3 * nodes, loads.step_s / loads.background_memory_s, rng)
    noise = noise.reshape(sizes.steps, 3, nodes)
    shared = loads.background_correlation  # a node that computes more also sends and receives more
    noise[:, 1:] = shared * noise[:, :1] + math.sqrt(1.0 - shared**2) * noise[:, 1:]
    level = np.exp(loads.background_sigma * noise - loads.background_sigma**2 / 2.0)
    drawn = _background_levels(scenario, nodes, rng)
    cpu, network = levels or drawn
    columns = {
        "app_load": app,
        "background_cpu_ratio": np.minimum(level[:, 0] * cpu, MOST_BACKGROUND),
        "background_rx_ratio": np.minimum(level[:, 1] * network, MOST_BACKGROUND),
        "background_tx_ratio": np.minimum(level[:, 2] * network, MOST_BACKGROUND),
    }
    return columns, (cpu, network)


def _background_levels(scenario: Scenario, nodes: int, rng: Rng) -> Levels:
    loads = scenario.loads
    cpu, network = draw(loads.background_cpu, nodes, rng), draw(loads.background_network, nodes, rng)
    return cpu, np.where(rng.random(nodes) < loads.background_idle, 0.0, network)


def _scrapes(scenario: Scenario, nodes: int, sizes: Sizes, rng: Rng) -> Columns:
    lost = rng.random((sizes.scrapes, nodes)) < scenario.scraping.missing
    return {"scrape_missing": lost | (rng.random(nodes) < scenario.scraping.blind)}


def _mean_capacity(scenario: Scenario) -> FloatArray:
    """CPU millicores and memory MiB of a node, in the mean."""
    kinds = scenario.nodes.kinds
    shares = np.array([kind.share for kind in kinds])
    each = np.array([[kind.cpu_cores * 1000.0, kind.memory_gib * 1024.0] for kind in kinds])
    return np.asarray(shares @ each / shares.sum())


def _running_pods(scenario: Scenario, capacity: FloatArray, load: float) -> float:
    cpu = mean_of(scenario.apps.cpu_request_millicores)
    memory = mean_of(scenario.apps.memory_mib_per_core) * cpu / 1000.0
    return float(load * min(capacity[0] / cpu, capacity[1] / memory))

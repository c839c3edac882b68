"""Worlds with the loads, distances and pods of real clusters, where a trace has them.

No source has requests, use and traffic of the same pods, so a replayed world is a synthetic one of which single parts
are exchanged. Which ones, and how fast they are played, is a modelling choice that docs/traces.md states. Every part
has a random stream of its own: a folder more or less leaves the other parts of a world as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agent.cluster import GPU_MILLI, BoolArray, FloatArray, IntArray
from agent.errors import InputError
from envs.workloads import bitbrains, carrying, dlrm, nezha, openb, rtt, server_traffic
from envs.workloads import tape as tapes
from envs.workloads.scenario import MOST_BACKGROUND, Scenario
from envs.workloads.series import BackgroundSeries, choose, steps_for, window
from envs.workloads.tape import Tape
from envs.workloads.trace_files import Kind, T

REPLAY_VERSION = 2  # part of every result: raise it when the same folder, scenario and seed give another world

SUB_FOLDERS = ("bitbrains", "gpu_cluster_net", "k8s_nezha", "latency", "dlrm2025", "openb")

VM_SPEED = 5.0  # five minutes of Bitbrains in one: its CPU then changes as fast as the synthetic one (3 minutes)
MOST_APP_LOAD = 5.0  # services with few requests reach 40 times their mean, which is no load but a single call
FARTHEST_ZONES_MS = 5.0  # zones of a region are at most 2.2 ms apart, regions at least 10: beyond, sites are regions
LARGE_FLEET_NODES = 100.0  # the arrivals of DLRM are those of many apps in a large cluster

Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Regions:
    """The zones of every region with their round trips."""

    zones: dict[str, rtt.RttTable]
    bad_rows: int


class TraceFolder:
    """A folder laid out as docs/traces.md says; what is missing is not used, the rest is read when needed."""

    def __init__(self, path: Path, skip_bad: bool = False) -> None:
        if not path.is_dir():
            raise InputError(f"traces: {path} is no folder")
        if not any((path / name).is_dir() for name in SUB_FOLDERS):
            raise InputError(f"traces: {path} has none of the sub-folders {', '.join(SUB_FOLDERS)}")
        self.path = path

        def kind(folder: str, read: Callable[..., T], *patterns: str) -> Kind[T]:
            return Kind(path / folder, patterns, read, skip_bad)

        self._vms = kind("bitbrains", bitbrains.read_bitbrains, "*_series.csv*", "*_vms.csv*")
        read_servers = server_traffic.read_server_traffic
        self._servers = kind("gpu_cluster_net", read_servers, "*_traffic*.csv*", "*_servers.csv*")
        self._services = kind("k8s_nezha", nezha.read_pod_metrics, "*_pods.csv*")
        self._zones = kind("latency", _read_zones, "*inter_az*.csv*")
        self._regions = kind("latency", _read_regions, "*inter_region*.csv*")
        self._jobs = kind("dlrm2025", dlrm.read_dlrm, "*instances*.csv*")
        self._gpu_pods = kind("openb", openb.read_openb_pods, "*pod_list_default.csv*|*pod_list_*.csv*")

    def applied(self, scenario: Scenario, tape: Tape, seed: int, index: int) -> Tape:
        """The same tape with the parts that the folder can give; the same for the same seed and index."""
        parts = (self._background, self._app_load, self._distances, self._gpu_requests, self._arrivals)
        replayed = tape
        for number, part in enumerate(parts):
            rng = np.random.default_rng(np.random.SeedSequence((seed, index), spawn_key=(number,)))
            replayed = part(scenario, replayed, index, rng)
        if replayed is tape:
            there = ", ".join(name for name in SUB_FOLDERS if (self.path / name).is_dir())
            raise InputError(f"traces: {self.path} has only {there}, which has no part in scenario {scenario.name}")
        columns = vars(replayed)
        # the NICs are of a size for these loads now
        scale = carrying.scales(columns, scenario.loads.network_peak)
        return tapes.make(**{**columns, **carrying.scaled(columns, scale)})

    @property
    def bad_rows(self) -> int:
        """Malformed rows left out of the files read so far."""
        return sum(kind.bad_rows for kind in self._kinds())

    def provenance(self) -> dict[str, object]:
        """Names what was replayed: a digest of every file read so far."""
        files = {name: digest for kind in self._kinds() for name, digest in kind.digests().items()}
        return {"replay_version": REPLAY_VERSION, "files": files, "bad_rows": self.bad_rows}

    def _kinds(self) -> tuple[Kind[Any], ...]:
        return self._vms, self._servers, self._services, self._zones, self._regions, self._jobs, self._gpu_pods

    # --- the parts, each a tape as it was if the folder has nothing for it

    def _background(self, _: Scenario, tape: Tape, index: int, rng: Rng) -> Tape:
        """VMs and servers take turns; each node takes the load of one of them."""
        sources = ((self._vms, self._vm_background), (self._servers, self._server_background))
        there = [background for kind, background in sources if kind.there]
        return there[index % len(there)](tape, rng) if there else tape

    def _vm_background(self, tape: Tape, rng: Rng) -> Tape:
        """CPU as it was; traffic as a multiple of the VM's mean, since the trace does not know the NICs."""
        trace = self._vms.draw(rng)
        column = choose(len(trace.vms), tape.node_slots, rng)
        row = window(len(trace.cpu_ratio), steps_for(float(tape.horizon_s) * VM_SPEED, trace.step_s), rng)
        rx = tape.background_rx_ratio.mean(axis=0) * _multiple_of_mean(trace.rx_mbps[:, column])[row]
        tx = tape.background_tx_ratio.mean(axis=0) * _multiple_of_mean(trace.tx_mbps[:, column])[row]
        series = BackgroundSeries(trace.step_s / VM_SPEED, trace.cpu_ratio[np.ix_(row, column)], rx, tx)
        cpu_ratio = _fitted(series, tape).cpu_ratio
        return replace(_with_traffic(tape, series), background_cpu_ratio=np.minimum(cpu_ratio, MOST_BACKGROUND))

    def _server_background(self, tape: Tape, rng: Rng) -> Tape:
        """Traffic only: the servers' CPU was not measured."""
        trace = self._servers.draw(rng)
        series = server_traffic.background_from_server_traffic(trace, tape.node_slots, float(tape.horizon_s), rng)
        return _with_traffic(tape, series)

    def _app_load(self, _: Scenario, tape: Tape, index: int, rng: Rng) -> Tape:
        if not self._services.there:
            return tape
        load = nezha.app_load(self._services.draw(rng), tape.app_slots, float(tape.horizon_s), rng)
        load = load.resampled(float(tape.load_step_s), float(tape.horizon_s))
        return replace(tape, app_load=np.minimum(load.load, MOST_APP_LOAD))

    def _distances(self, scenario: Scenario, tape: Tape, index: int, rng: Rng) -> Tape:
        if not self._zones.there:
            return tape
        fleet, zones = scenario.nodes, tape.zone_slots
        if fleet.zone_rtt_ms.low > FARTHEST_ZONES_MS:
            table = self._regions.draw(rng)
            near = rtt.region_rtt_matrix(table, min(zones, len(table.places)), fleet.same_zone_rtt_ms, rng)
        else:
            regions = self._zones.draw(rng).zones
            most = max(len(table.places) for table in regions.values())
            near = rtt.zone_rtt_matrix(regions, min(zones, most), rng)
        place = np.arange(zones) % len(near)  # with more zones than were measured, some share a place
        return replace(tape, zone_rtt_ms=near[np.ix_(place, place)])

    def _gpu_requests(self, scenario: Scenario, tape: Tape, index: int, rng: Rng) -> Tape:
        """Each pod asks for what one pod of the list asked for, so that CPU, memory and GPU belong together."""
        if scenario.gpus.share == 0 or not self._gpu_pods.there:
            return tape
        pods = self._gpu_pods.draw(rng)
        fitting = np.flatnonzero(_fits_somewhere(pods, tape))
        if not len(fitting):
            raise InputError(f"{self._gpu_pods.folder}: no pod of the list fits a node of scenario {scenario.name}")
        pick = rng.choice(fitting, size=tape.pod_slots)
        asked = replace(
            tape,
            pod_cpu_request_millicores=pods.cpu_request_millicores[pick],
            pod_memory_request_mib=pods.memory_request_mib[pick],
            pod_gpus=pods.gpus[pick],
            pod_gpu_milli=np.where(pods.gpus > 0, pods.gpu_milli, GPU_MILLI)[pick],
        )
        return _thinned(asked, tape, rng)

    def _arrivals(self, scenario: Scenario, tape: Tape, index: int, rng: Rng) -> Tape:
        """The pods of the tape at the pace of the trace: bursts, and apps that come together."""
        if scenario.nodes.count.high < LARGE_FLEET_NODES or scenario.arrivals.deployments or not self._jobs.there:
            return tape
        jobs = self._jobs.draw(rng)
        coming = np.flatnonzero(~tape.pod_initial & np.isfinite(tape.pod_arrival_s))
        came = np.flatnonzero(~jobs.initial)
        if len(coming) < 2 or len(came) < 2:
            return tape
        row = window(len(came) - 1, len(coming), rng)
        elapsed_s = np.cumsum(np.diff(jobs.arrival_s[came])[row])
        first_s, last_s = tape.pod_arrival_s[coming[[0, -1]]]
        share = (elapsed_s - elapsed_s[0]) / max(elapsed_s[-1] - elapsed_s[0], 1e-9)
        app = jobs.app[came[row + 1]]
        arrival_s = tape.pod_arrival_s.copy()
        # Pods and arrivals are paired app by app, the commonest first, so that those of one app stay together.
        pods, moments = _by_commonest(tape.pod_app[coming]), _by_commonest(app)
        arrival_s[coming[pods]] = (first_s + share * (last_s - first_s))[moments]
        return _taken(replace(tape, pod_arrival_s=arrival_s), np.lexsort((arrival_s, ~tape.pod_initial)))


def _read_zones(path: Path, skip_bad: bool) -> Regions:
    zones = rtt.read_inter_zone(path, skip_bad)
    if not zones:
        raise InputError(f"{path}: no round trips")
    return Regions(zones, next(iter(zones.values())).bad_rows)  # each carries the count of the whole file


def _read_regions(path: Path, skip_bad: bool) -> rtt.RttTable:
    table = rtt.read_inter_region(path, skip_bad)
    if not table.places:
        raise InputError(f"{path}: no round trips")
    return table


def _fitted(series: BackgroundSeries, tape: Tape) -> BackgroundSeries:
    return series.resampled(float(tape.load_step_s), float(tape.horizon_s))


def _with_traffic(tape: Tape, series: BackgroundSeries) -> Tape:
    fitted = _fitted(series, tape)
    rx, tx = (np.minimum(ratio, MOST_BACKGROUND) for ratio in (fitted.rx_ratio, fitted.tx_ratio))
    return replace(tape, background_rx_ratio=rx, background_tx_ratio=tx)


def _multiple_of_mean(values: FloatArray) -> FloatArray:
    """Each column over its own mean; one that is always 0 stays 0."""
    mean = values.mean(axis=0)
    return np.asarray(values / np.where(mean > 0, mean, 1.0))


def _fits_somewhere(pods: openb.OpenbPods, tape: Tape) -> BoolArray:
    """Pods that the largest nodes can hold; others would only wait, whatever is decided."""
    cpu = pods.cpu_request_millicores[:, None] <= tape.node_cpu_millicores
    memory = pods.memory_request_mib[:, None] <= tape.node_memory_mib
    return np.asarray((cpu & memory & (pods.gpus[:, None] <= tape.node_gpus)).any(axis=1))


def _thinned(tape: Tape, before: Tape, rng: Rng) -> Tape:
    """Larger pods, but fewer: the load that the scenario asks for stays."""
    share = min(_sum_ratio(before, tape, name) for name in ("pod_cpu_request_millicores", "pod_memory_request_mib"))
    if share >= 1:
        return tape
    keep = max(round(share * tape.pod_slots), 1)
    return _taken(tape, np.sort(rng.choice(tape.pod_slots, size=keep, replace=False)))


def _sum_ratio(before: Tape, after: Tape, column: str) -> float:
    old, new = (float(getattr(tape, column).sum(dtype=np.float64)) for tape in (before, after))
    return old / new if new > 0 else 1.0


def _by_commonest(app: IntArray) -> IntArray:
    """Indices by app, the app with the most entries first, within an app in the order given."""
    _, label, count = np.unique(app, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-count, kind="stable"))
    return np.asarray(np.argsort(rank[label], kind="stable"))


def _taken(tape: Tape, pods: IntArray) -> Tape:
    """Only these pods, in this order."""
    columns = [name for name, (axes, _) in tapes.AXES.items() if tapes.PODS in axes]
    return replace(tape, **{name: getattr(tape, name)[pods] for name in columns})

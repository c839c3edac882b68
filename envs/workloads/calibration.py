"""What real clusters look like, in numbers that a generator can be set to.

``calibrate`` measures the traces that are there. figures.yaml keeps what it found, beside figures from papers and
reports for what no trace shows; docs/traces.md lists both with their sources, and a test keeps the two in step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from agent.cluster import FloatArray
from agent.errors import InputError
from envs.workloads import bitbrains, dlrm, nezha, rtt, server_traffic
from envs.workloads.csv_rows import Columns, Integer, Number, Table, read_rows
from envs.workloads.statistics import (
    Figures,
    correlations,
    index_of_dispersion,
    log_normal,
    over_time,
    spread,
    top_share,
)

FIGURES_FILE = Path(__file__).with_name("figures.yaml")
OPENB_FILE = "openb/openb_pod_list_default.csv.gz"
OPENB_MULTI_GPU_FILE = "openb/openb_pod_list_multigpu30.csv.gz"
EPISODES_S = (900, 1_800)  # how long the scenarios last

IDLE_NIC_RATIO = 0.001  # a mean below this share of the NIC is housekeeping, not work
_OPENB_COLUMNS: Columns = {
    "cpu_milli": Number(0),
    "memory_mib": Number(0),
    "num_gpu": Integer(0),
    "gpu_milli": Integer(0),
}


@cache
def known_figures() -> Figures:
    """What ``calibrate`` found in the public traces, and what others published; kept in figures.yaml."""
    content = yaml.safe_load(FIGURES_FILE.read_text(encoding="utf-8"))
    return {**content["measured"], **content["published"]}


def calibrate(traces: Path) -> Figures:
    """Figures of every trace found under the folder, named ``trace.figure`` with the unit at the end."""
    if not traces.is_dir():
        raise InputError(f"{traces}: no such folder; it should be laid out as docs/traces.md says")
    found = {name: measure for name, (files, measure) in _TRACES.items() if _all_there(traces, files)}
    if not found:
        raise InputError(f"{traces}: holds no trace; expected any of {', '.join(_TRACES)}")
    return {f"{name}.{key}": float(value) for name, measure in found.items() for key, value in measure(traces).items()}


def _day_peak(total: FloatArray, name: str, step_s: float) -> Figures:
    """Peak over mean of the average day; a trace shorter than a day has none."""
    steps = round(86_400 / step_s)
    days = total[: len(total) // steps * steps].reshape(-1, steps)
    if not len(days):
        return {}
    day = days.mean(axis=0)
    return {f"{name}.day_peak_to_mean": day.max() / day.mean()}


def _bitbrains(traces: Path) -> Figures:
    trace = bitbrains.read_bitbrains(traces / bitbrains.SERIES_FILE, traces / bitbrains.VMS_FILE)
    cpu_mean = trace.cpu_ratio.mean(axis=0)
    traffic_mbps = trace.rx_mbps + trace.tx_mbps
    traffic_mean_mbps = traffic_mbps.mean(axis=0)
    return {
        "cpu_use_ratio.mean": cpu_mean.mean(),
        **spread(cpu_mean, "cpu_use_ratio"),
        **log_normal(cpu_mean, "cpu_use_ratio", "ratio"),
        **over_time(trace.cpu_ratio, "cpu", trace.step_s),
        "memory_active_ratio.mean": (trace.memory_used_mib.mean(axis=0) / trace.memory_capacity_mib).mean(),
        "traffic.mean_mbps": traffic_mean_mbps.mean(),
        **log_normal(traffic_mean_mbps, "traffic", "mbps"),
        "traffic.top_10_pct_share": top_share(traffic_mean_mbps),
        "traffic.rx_share": trace.rx_mbps.sum() / traffic_mbps.sum(),
        **over_time(traffic_mbps, "traffic", trace.step_s),
        "traffic.cpu_correlation.p50": np.nanmedian(correlations(trace.cpu_ratio, traffic_mbps)),
        **_day_peak(trace.cpu_ratio @ trace.cpu_capacity_mhz, "cpu", trace.step_s),
        **_day_peak(traffic_mbps.sum(axis=1), "traffic", trace.step_s),
    }


def _nezha(file: str) -> Callable[[Path], Figures]:
    def measure(traces: Path) -> Figures:
        metrics = nezha.read_pod_metrics(traces / file)
        traffic_mbps = np.nan_to_num(metrics.rx_mbps + metrics.tx_mbps)
        load = np.nan_to_num(metrics.requests_per_s)
        busy = traffic_mbps.mean(axis=0)
        return {
            "cpu_limit_ratio.mean": np.nanmean(metrics.cpu_limit_ratio),
            **spread(np.nanmean(metrics.cpu_limit_ratio, axis=0), "cpu_limit_ratio"),
            "memory_limit_ratio.mean": np.nanmean(metrics.memory_limit_ratio),
            **log_normal(busy, "traffic", "mbps"),
            "traffic.top_10_pct_share": top_share(busy),
            "traffic.rx_share": np.nansum(metrics.rx_mbps) / traffic_mbps.sum(),
            **over_time(load, "requests", metrics.step_s),
            **over_time(traffic_mbps, "traffic", metrics.step_s),
        }

    return measure


def _server_traffic(traces: Path) -> Figures:
    files = traces / server_traffic.TRAFFIC_FILE, traces / server_traffic.SERVERS_FILE
    trace = server_traffic.read_server_traffic(*files)
    used = np.maximum(trace.rx_mbps, trace.tx_mbps) / trace.nic_mbps
    active = used.mean(axis=0) > IDLE_NIC_RATIO
    return {
        "idle_share": 1 - active.mean(),
        "nic_use_ratio.mean": used.mean(),
        "nic_use_ratio.active_mean": used[:, active].mean(),
        "nic_use_ratio.p99": np.quantile(used, 0.99),
        "nic_use_ratio.max": used.max(),
        "traffic.top_10_pct_share": top_share(used.mean(axis=0)),
        **log_normal(used[:, active].mean(axis=0), "nic_use_ratio.active", "ratio"),
        **over_time(used[:, active], "traffic", trace.step_s),
    }


def _rtt(traces: Path) -> Figures:
    regions = rtt.read_inter_zone(traces / rtt.INTER_ZONE_FILE)
    own = np.concatenate([np.diagonal(table.rtt_ms) for table in regions.values()])
    between = np.concatenate([table.rtt_ms[np.triu_indices(len(table.places), 1)] for table in regions.values()])
    far = rtt.read_inter_region(traces / rtt.INTER_REGION_FILE)
    far_ms = far.rtt_ms[np.triu_indices(len(far.places), 1)]
    return {
        f"{name}.{key}_ms": value
        for name, values in (("same_zone", own), ("between_zones", between), ("between_regions", far_ms))
        for key, value in (("min", values.min()), ("p50", np.median(values)), ("max", values.max()))
    }


def _dlrm(traces: Path) -> Figures:
    pods = dlrm.read_dlrm(traces / dlrm.INSTANCES_FILE)
    arrived_s = pods.arrival_s[~pods.initial]
    whole_life_s = pods.duration_s[~pods.initial & np.isfinite(pods.duration_s)]
    app_sizes = np.bincount(pods.app).astype(np.float64)
    together = _together(pods, window_s=60)
    nic_ratio = pods.network_request_mbps / dlrm.RDMA_NIC_MBPS
    return {
        "initial_share": pods.initial.mean(),
        "outlived_share": np.isinf(pods.duration_s).mean(),
        **log_normal(whole_life_s, "lifetime", "s"),
        **spread(whole_life_s, "lifetime_s"),
        "arrivals.mean_per_hour": len(arrived_s) / np.ptp(arrived_s) * 3_600,
        **{f"arrivals.dispersion_{w}_s": index_of_dispersion(arrived_s, w) for w in (60, 600, 3_600)},
        "arrivals.same_app_within_60_s.mean": together.mean(),
        "arrivals.same_app_within_60_s.p90": np.quantile(together, 0.9),
        **spread(pods.wait_s, "wait_s"),
        "app_pods.p50": np.median(app_sizes),
        **log_normal(app_sizes, "app_pods", "count"),
        "app_pods.top_10_pct_share": top_share(app_sizes),
        "cpu_request_millicores.p50": np.median(pods.cpu_request_millicores),
        "cpu_request_millicores.gpu_node_p50": np.median(pods.cpu_request_millicores[pods.on_gpu_node]),
        "memory_mib_per_cpu.p50": np.median(pods.memory_request_mib / pods.cpu_request_millicores * 1_000),
        "nic_request_ratio.mean": nic_ratio.mean(),
        **spread(nic_ratio, "nic_request_ratio"),
    }


def _together(pods: dlrm.PodList, window_s: float) -> FloatArray:
    """Sizes of the groups of pods of one app that arrive within one window."""
    late = ~pods.initial
    key = np.stack([pods.app[late], (pods.arrival_s[late] // window_s).astype(np.int64)])
    return np.unique(key, axis=1, return_counts=True)[1].astype(np.float64)


def _openb(traces: Path) -> Figures:
    times = {"creation_time": Number(0), "deletion_time": Number(0)}
    table = read_rows(traces / OPENB_FILE, {**_OPENB_COLUMNS, **times})
    life_s = table.floats("deletion_time") - table.floats("creation_time")
    return {
        **_gpu_pods(table),
        **log_normal(life_s, "lifetime", "s"),
        **{f"lifetime.within_{limit}_s.p50_s": np.median(life_s[life_s <= limit]) for limit in EPISODES_S},
    }


def _openb_multi_gpu(traces: Path) -> Figures:
    """The list with the most pods of several GPUs; it has no times."""
    return _gpu_pods(read_rows(traces / OPENB_MULTI_GPU_FILE, _OPENB_COLUMNS))


def _gpu_pods(table: Table) -> Figures:
    cpu, memory, gpus = table.floats("cpu_milli"), table.floats("memory_mib"), table.floats("num_gpu")
    shared = (gpus == 1) & (table.ints("gpu_milli") < 1_000)
    return {
        **spread(cpu, "cpu_request_millicores"),
        **log_normal(cpu, "cpu_request", "millicores"),
        **spread(memory, "memory_request_mib"),
        **log_normal(memory, "memory_request", "mib"),
        "memory_mib_per_cpu.p50": np.median(memory / cpu * 1_000),
        "no_gpu_share": (gpus == 0).mean(),
        "shared_gpu_share": shared.mean(),
        "several_gpus_share": (gpus > 1).mean(),
        "shared_gpu_milli.mean": table.floats("gpu_milli")[shared].mean(),
    }


def _all_there(traces: Path, files: tuple[str, ...]) -> bool:
    return all((traces / file).is_file() for file in files)


_TRACES: dict[str, tuple[tuple[str, ...], Callable[[Path], Figures]]] = {
    "bitbrains": ((bitbrains.SERIES_FILE, bitbrains.VMS_FILE), _bitbrains),
    "onlineboutique": (nezha.PODS_FILES[:1], _nezha(nezha.PODS_FILES[0])),
    "trainticket": (nezha.PODS_FILES[1:], _nezha(nezha.PODS_FILES[1])),
    "zhejiang": ((server_traffic.TRAFFIC_FILE, server_traffic.SERVERS_FILE), _server_traffic),
    "rtt": ((rtt.INTER_ZONE_FILE, rtt.INTER_REGION_FILE), _rtt),
    "dlrm": ((dlrm.INSTANCES_FILE,), _dlrm),
    "openb": ((OPENB_FILE,), _openb),
    "openb_multigpu30": ((OPENB_MULTI_GPU_FILE,), _openb_multi_gpu),
}

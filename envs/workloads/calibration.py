"""What real clusters look like, in numbers that a generator can be set to.

``calibrate`` measures the traces that are there; ``PUBLISHED`` holds figures from papers and reports for what
no trace shows. docs/traces.md lists both with their sources; a test keeps the two in step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from agent.cluster import FloatArray
from agent.errors import InputError
from envs.workloads import bitbrains, dlrm, nezha, rtt, server_traffic
from envs.workloads.csv_rows import Integer, Number, read_rows

OPENB_FILE = "openb/openb_pod_list_default.csv.gz"

Figures = dict[str, float]

_IDLE_NIC_RATIO = 0.001  # a mean below this share of the NIC is housekeeping, not work

# Figures that others measured on clusters whose traces hold no such column. Sources: docs/traces.md.
PUBLISHED: Figures = {
    "autopilot.use_of_limit_ratio.manual": 0.54,
    "autopilot.use_of_limit_ratio.autoscaled": 0.77,
    "datadog.containers_below_30_pct_of_cpu_request_share": 0.49,
    "datadog.containers_below_30_pct_of_memory_request_share": 0.45,
    "castai.cpu_use_of_provisioned_ratio": 0.13,
    "castai.memory_use_of_provisioned_ratio": 0.20,
    "sap.vms_below_70_pct_of_provisioned_share": 0.80,
    "borg2019.top_1_pct_jobs_share_of_resources": 0.99,
    "aws.between_zones.mean_ms": 0.82,
}


def calibrate(traces: Path) -> Figures:
    """Figures of every trace found under the folder, named ``trace.figure`` with the unit at the end."""
    if not traces.is_dir():
        raise InputError(f"{traces}: no such folder; it should be laid out as docs/traces.md says")
    found = {name: measure for name, (files, measure) in _TRACES.items() if _all_there(traces, files)}
    if not found:
        raise InputError(f"{traces}: holds no trace; expected any of {', '.join(_TRACES)}")
    return {f"{name}.{key}": float(value) for name, measure in found.items() for key, value in measure(traces).items()}


def log_normal(values: FloatArray, name: str, unit: str) -> Figures:
    """Median and log standard deviation of the positive values: how a heavy tail is drawn."""
    logs = np.log(values[values > 0])
    return {f"{name}.lognormal_median_{unit}": np.exp(logs.mean()), f"{name}.lognormal_sigma": logs.std()}


def top_share(values: FloatArray, share: float = 0.1) -> float:
    """Part of the sum that belongs to the largest ``share`` of the values."""
    ordered = np.sort(values)[::-1]
    return float(ordered[: max(round(share * len(ordered)), 1)].sum() / ordered.sum())


def correlation_time_s(series: FloatArray, step_s: float) -> FloatArray:
    """Per column: the first lag at which the autocorrelation is below 1/e, interpolated."""
    centred = series - series.mean(axis=0)
    size = 2 * len(series)  # zero padding, so that the end does not wrap round to the start
    power = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
    correlation = np.fft.irfft(power, size, axis=0)[: len(series)]
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = correlation / correlation[0]
    return np.array([_crossing(column) for column in correlation.T]) * step_s


def index_of_dispersion(arrival_s: FloatArray, window_s: float) -> float:
    """Variance over mean of the arrivals per window: 1 for a Poisson process, more for bursts."""
    first, last = arrival_s.min(), arrival_s.max()
    counts = np.bincount(((arrival_s - first) // window_s).astype(np.int64))[: max(int((last - first) // window_s), 1)]
    return float(counts.var() / counts.mean())


def _crossing(correlation: FloatArray) -> float:
    below = np.flatnonzero(correlation < 1 / np.e)
    if not len(below):
        return float("nan")  # a constant column has no correlation
    after = int(below[0])
    before = after - 1
    return float(before + (correlation[before] - 1 / np.e) / (correlation[before] - correlation[after]))


def _spread(values: FloatArray, name: str) -> Figures:
    known = values[np.isfinite(values)]
    return {f"{name}.p50": np.median(known), f"{name}.p90": np.quantile(known, 0.9)}


def _over_time(series: FloatArray, name: str, step_s: float) -> Figures:
    """How one column varies around its own mean; columns that are always zero say nothing."""
    moving = series[:, series.mean(axis=0) > 0]
    mean = moving.mean(axis=0)
    return {
        **_spread(moving.std(axis=0) / mean, f"{name}.cv"),
        **_spread(np.quantile(moving, 0.99, axis=0) / mean, f"{name}.p99_to_mean"),
        **_spread(correlation_time_s(moving, step_s), f"{name}.correlation_time_s"),
    }


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
        **_spread(cpu_mean, "cpu_use_ratio"),
        **log_normal(cpu_mean, "cpu_use_ratio", "ratio"),
        **_over_time(trace.cpu_ratio, "cpu", trace.step_s),
        "memory_active_ratio.mean": (trace.memory_used_mib.mean(axis=0) / trace.memory_capacity_mib).mean(),
        "traffic.mean_mbps": traffic_mean_mbps.mean(),
        **log_normal(traffic_mean_mbps, "traffic", "mbps"),
        "traffic.top_10_pct_share": top_share(traffic_mean_mbps),
        "traffic.rx_share": trace.rx_mbps.sum() / traffic_mbps.sum(),
        **_over_time(traffic_mbps, "traffic", trace.step_s),
        "traffic.cpu_correlation.p50": np.nanmedian(_correlations(trace.cpu_ratio, traffic_mbps)),
        **_day_peak(trace.cpu_ratio @ trace.cpu_capacity_mhz, "cpu", trace.step_s),
        **_day_peak(traffic_mbps.sum(axis=1), "traffic", trace.step_s),
    }


def _correlations(a: FloatArray, b: FloatArray) -> FloatArray:
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).mean(axis=0) / (a.std(axis=0) * b.std(axis=0)), dtype=np.float64)


def _nezha(file: str) -> Callable[[Path], Figures]:
    def measure(traces: Path) -> Figures:
        metrics = nezha.read_pod_metrics(traces / file)
        traffic_mbps = np.nan_to_num(metrics.rx_mbps + metrics.tx_mbps)
        load = np.nan_to_num(metrics.requests_per_s)
        busy = traffic_mbps.mean(axis=0)
        return {
            "cpu_limit_ratio.mean": np.nanmean(metrics.cpu_limit_ratio),
            **_spread(np.nanmean(metrics.cpu_limit_ratio, axis=0), "cpu_limit_ratio"),
            "memory_limit_ratio.mean": np.nanmean(metrics.memory_limit_ratio),
            **log_normal(busy, "traffic", "mbps"),
            "traffic.top_10_pct_share": top_share(busy),
            "traffic.rx_share": np.nansum(metrics.rx_mbps) / traffic_mbps.sum(),
            **_over_time(load, "requests", metrics.step_s),
            **_over_time(traffic_mbps, "traffic", metrics.step_s),
        }

    return measure


def _server_traffic(traces: Path) -> Figures:
    files = traces / server_traffic.TRAFFIC_FILE, traces / server_traffic.SERVERS_FILE
    trace = server_traffic.read_server_traffic(*files)
    used = np.maximum(trace.rx_mbps, trace.tx_mbps) / trace.nic_mbps
    active = used.mean(axis=0) > _IDLE_NIC_RATIO
    return {
        "idle_share": 1 - active.mean(),
        "nic_use_ratio.mean": used.mean(),
        "nic_use_ratio.active_mean": used[:, active].mean(),
        "nic_use_ratio.p99": np.quantile(used, 0.99),
        "nic_use_ratio.max": used.max(),
        "traffic.top_10_pct_share": top_share(used.mean(axis=0)),
        **log_normal(used[:, active].mean(axis=0), "nic_use_ratio.active", "ratio"),
        **_over_time(used[:, active], "traffic", trace.step_s),
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
        **_spread(whole_life_s, "lifetime_s"),
        "arrivals.mean_per_hour": len(arrived_s) / np.ptp(arrived_s) * 3_600,
        **{f"arrivals.dispersion_{w}_s": index_of_dispersion(arrived_s, w) for w in (60, 600, 3_600)},
        "arrivals.same_app_within_60_s.mean": together.mean(),
        "arrivals.same_app_within_60_s.p90": np.quantile(together, 0.9),
        **_spread(pods.wait_s, "wait_s"),
        "app_pods.p50": np.median(app_sizes),
        **log_normal(app_sizes, "app_pods", "count"),
        "app_pods.top_10_pct_share": top_share(app_sizes),
        "cpu_request_millicores.p50": np.median(pods.cpu_request_millicores),
        "cpu_request_millicores.gpu_node_p50": np.median(pods.cpu_request_millicores[pods.on_gpu_node]),
        "memory_mib_per_cpu.p50": np.median(pods.memory_request_mib / pods.cpu_request_millicores * 1_000),
        "nic_request_ratio.mean": nic_ratio.mean(),
        **_spread(nic_ratio, "nic_request_ratio"),
    }


def _together(pods: dlrm.PodList, window_s: float) -> FloatArray:
    """Sizes of the groups of pods of one app that arrive within one window."""
    late = ~pods.initial
    key = np.stack([pods.app[late], (pods.arrival_s[late] // window_s).astype(np.int64)])
    return np.unique(key, axis=1, return_counts=True)[1].astype(np.float64)


def _openb(traces: Path) -> Figures:
    columns = {"cpu_milli": Number(0), "memory_mib": Number(0), "creation_time": Number(0), "deletion_time": Number(0)}
    table = read_rows(traces / OPENB_FILE, {**columns, "num_gpu": Integer(0), "gpu_milli": Integer(0)})
    cpu, memory, gpus = table.floats("cpu_milli"), table.floats("memory_mib"), table.floats("num_gpu")
    return {
        **_spread(cpu, "cpu_request_millicores"),
        **log_normal(cpu, "cpu_request", "millicores"),
        **_spread(memory, "memory_request_mib"),
        **log_normal(memory, "memory_request", "mib"),
        "memory_mib_per_cpu.p50": np.median(memory / cpu * 1_000),
        "no_gpu_share": (gpus == 0).mean(),
        "shared_gpu_share": ((gpus == 1) & (table.ints("gpu_milli") < 1_000)).mean(),
        "several_gpus_share": (gpus > 1).mean(),
        **log_normal(table.floats("deletion_time") - table.floats("creation_time"), "lifetime", "s"),
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
}

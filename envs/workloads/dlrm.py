"""Alibaba cluster-trace-gpu-v2025: pods of recommendation models that request network bandwidth.

The only public list of pods with CPU, memory, GPU and bandwidth requests and life times. It holds requests,
not usage. Bandwidth is a percentage of one RDMA NIC whose speed the source does not state, so it is an
argument here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.cluster import BoolArray, FloatArray, IntArray
from envs.workloads.csv_rows import Columns, Integer, Number, Text, read_rows

INSTANCES_FILE = "dlrm2025/dlrm_instances.csv.gz"
RDMA_NIC_MBPS = 100_000.0  # not in the source: a common RDMA NIC of such clusters

_MILLICORES_PER_VCPU = 1_000.0
_MIB_PER_GIB = 1_024.0
_TIME = Number(minimum=0, empty=np.nan)  # empty: before the trace began, or after it ended
_COLUMNS: Columns = {
    "instance_sn": Text(),
    "role": Text(choices=("CN", "HN")),
    "app_name": Text(),
    "cpu_request": Number(minimum=0),
    "gpu_request": Number(minimum=0),
    "rdma_request": Number(minimum=0, maximum=100),
    "memory_request": Number(minimum=0),
    "max_instance_per_node": Integer(-1),
    "creation_time": _TIME,
    "scheduled_time": _TIME,
    "deletion_time": _TIME,
}


@dataclass(frozen=True, slots=True)
class PodList:
    """Pods in order of arrival, those that were there before the trace first; arrays are ``(pods,)``."""

    names: tuple[str, ...]
    app_names: tuple[str, ...]
    app: IntArray  # index into app_names
    initial: BoolArray  # existed before the trace began
    arrival_s: FloatArray  # 0 for initial ones
    wait_s: FloatArray  # from creation to scheduling; NaN for initial ones
    duration_s: FloatArray  # what is left after arrival; inf: outlived the trace
    cpu_request_millicores: FloatArray
    memory_request_mib: FloatArray
    gpus: FloatArray
    network_request_mbps: FloatArray
    max_per_node: FloatArray  # pods of the same app on one node; inf: no limit
    on_gpu_node: BoolArray  # role HN
    bad_rows: int = 0

    def __len__(self) -> int:
        return len(self.names)


def read_dlrm(path: Path, skip_bad: bool = False, nic_mbps: float = RDMA_NIC_MBPS) -> PodList:
    table = read_rows(path, _COLUMNS, skip_bad)
    ends_early = table.floats("deletion_time") < table.floats("creation_time")  # never true of an empty one
    table = table.without(ends_early, "deletion_time", "is before 'creation_time'")
    created_s, deleted_s = table.floats("creation_time"), table.floats("deletion_time")
    initial = np.isnan(created_s)
    arrival_s = np.where(initial, 0.0, created_s)
    duration_s = np.where(np.isnan(deleted_s), np.inf, deleted_s) - arrival_s
    order = np.lexsort((arrival_s, ~initial))
    app_names, app = np.unique(table.texts("app_name"), return_inverse=True)
    limit = table.floats("max_instance_per_node")
    return PodList(
        names=tuple(table.texts("instance_sn")[order].tolist()),
        app_names=tuple(app_names.tolist()),
        app=app[order],
        initial=initial[order],
        arrival_s=arrival_s[order],
        wait_s=(table.floats("scheduled_time") - created_s)[order],
        duration_s=duration_s[order],
        cpu_request_millicores=table.floats("cpu_request")[order] * _MILLICORES_PER_VCPU,
        memory_request_mib=table.floats("memory_request")[order] * _MIB_PER_GIB,
        gpus=table.floats("gpu_request")[order],
        network_request_mbps=table.floats("rdma_request")[order] / 100 * nic_mbps,
        max_per_node=np.where(limit < 0, np.inf, limit)[order],
        on_gpu_node=(table.texts("role") == "HN")[order],
        bad_rows=table.bad_rows,
    )

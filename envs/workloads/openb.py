"""Alibaba cluster-trace-gpu-v2023 ("openb"): the nodes and pods of a GPU cluster.

Requests only, no usage and no network. The lists are also the inputs of the published FGD experiments, which
envs/openb_packing.py repeats.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.cluster import GPU_MILLI, GPUS_PER_NODE, BoolArray, FloatArray
from agent.errors import InputError
from envs.workloads.csv_rows import Columns, Integer, Number, Table, Text, Texts, read_rows

_NODE_COLUMNS: Columns = {
    "sn": Text(),
    "cpu_milli": Integer(1),
    "memory_mib": Integer(0),
    "gpu": Integer(0, GPUS_PER_NODE),
    "model": Text(empty=True),  # a node without GPUs has none
}
_POD_COLUMNS: Columns = {
    "name": Text(),
    "cpu_milli": Integer(0),
    "memory_mib": Integer(0),
    "num_gpu": Integer(0, GPUS_PER_NODE),
    "gpu_milli": Integer(0, GPU_MILLI),
}
_TIME = Number(minimum=0, empty=np.nan)  # empty: has not happened within the trace
_OPTIONAL_POD_COLUMNS: Columns = {  # some lists have only the requests
    "gpu_spec": Text(empty=True, max_chars=1_024),
    "qos": Text(empty=True),
    "creation_time": _TIME,
    "deletion_time": _TIME,
    "scheduled_time": _TIME,
}


@dataclass(frozen=True, slots=True)
class OpenbNodes:
    """Arrays are ``(nodes,)``."""

    names: tuple[str, ...]
    cpu_millicores: FloatArray
    memory_mib: FloatArray
    gpus: FloatArray
    model: Texts
    bad_rows: int = 0

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class OpenbPods:
    """Pods in the order of the list; arrays are ``(pods,)``. Times are NaN where the list does not say."""

    names: tuple[str, ...]
    cpu_request_millicores: FloatArray
    memory_request_mib: FloatArray
    gpus: FloatArray
    gpu_milli: FloatArray  # of each GPU; 0 without GPUs
    gpu_models: Texts  # accepted ones, separated by |; empty: any
    qos: Texts
    creation_s: FloatArray
    deletion_s: FloatArray
    scheduled_s: FloatArray
    bad_rows: int = 0

    def __len__(self) -> int:
        return len(self.names)

    @property
    def gpu_request_milli(self) -> FloatArray:
        return self.gpus * self.gpu_milli


def read_openb_nodes(path: Path, skip_bad: bool = False) -> OpenbNodes:
    table = read_rows(path, _NODE_COLUMNS, skip_bad)
    if not table.rows:
        raise InputError(f"{path}: has no node")
    return OpenbNodes(
        names=tuple(table.texts("sn").tolist()),
        cpu_millicores=table.floats("cpu_milli"),
        memory_mib=table.floats("memory_mib"),
        gpus=table.floats("gpu"),
        model=table.texts("model"),
        bad_rows=table.bad_rows,
    )


def read_openb_pods(path: Path, skip_bad: bool = False) -> OpenbPods:
    table = _without_gpus_of_no_share(read_rows(path, _POD_COLUMNS, skip_bad, _OPTIONAL_POD_COLUMNS))
    if not table.rows:
        raise InputError(f"{path}: has no pod")
    needs_gpu = table.ints("num_gpu") > 0
    return OpenbPods(
        names=tuple(table.texts("name").tolist()),
        cpu_request_millicores=table.floats("cpu_milli"),
        memory_request_mib=table.floats("memory_mib"),
        gpus=table.floats("num_gpu"),
        gpu_milli=np.where(needs_gpu, table.floats("gpu_milli"), 0.0),
        gpu_models=np.where(needs_gpu, _texts(table, "gpu_spec"), ""),
        qos=_texts(table, "qos"),
        creation_s=_times(table, "creation_time"),
        deletion_s=_times(table, "deletion_time"),
        scheduled_s=_times(table, "scheduled_time"),
        bad_rows=table.bad_rows,
    )


def accepts(gpu_models: str, model: str) -> bool:
    """Whether a pod that lists these GPU models takes this one; an empty list takes any."""
    listed = [name for name in gpu_models.split("|") if name]
    return not listed or model in listed


def _without_gpus_of_no_share(table: Table) -> Table:
    """A pod that asks for GPUs but for nothing of each is malformed, which no single column shows."""
    bad: BoolArray = (table.ints("num_gpu") > 0) & (table.ints("gpu_milli") == 0)
    return table.without(bad, "gpu_milli", "is no share of a GPU, and 'num_gpu' asks for some")


def _texts(table: Table, column: str) -> Texts:
    return table.texts(column) if column in table else np.full(table.rows, "", dtype=np.str_)


def _times(table: Table, column: str) -> FloatArray:
    return table.floats(column) if column in table else np.full(table.rows, np.nan)

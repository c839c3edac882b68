"""Packing problems to train the GPU model on: pods of two openb lists mixed, on a share of the nodes.

Every generation gets new ones, so that no list can be learned by heart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agent.cluster import IntArray
from agent.errors import InputError
from envs.openb_packing import PackingProblem, packing_problem
from envs.workloads.openb import OpenbNodes, OpenbPods, read_openb_nodes, read_openb_pods

NODE_LIST = "openb_node_list_gpu_node.csv"


@dataclass(frozen=True, slots=True)
class OpenbLists:
    """The nodes, and the pods of each list by its name."""

    nodes: OpenbNodes
    pods: dict[str, OpenbPods]

    @classmethod
    def read(cls, folder: Path, names: tuple[str, ...]) -> OpenbLists:
        nodes = read_openb_nodes(_file(folder, NODE_LIST))
        return cls(nodes, {name: read_openb_pods(_file(folder, f"openb_pod_list_{name}.csv")) for name in names})

    def problem(self, name: str) -> PackingProblem:
        return packing_problem(self.nodes, self.pods[name])

    def mixed(self, pods: int, node_share: float, rng: np.random.Generator) -> PackingProblem:
        """Two lists in random proportion; pods are drawn with replacement, nodes without."""
        first, second = (self.pods[name] for name in rng.choice(list(self.pods), 2, replace=False))
        of_first = int(pods * rng.random())
        from_first = rng.integers(0, len(first), of_first)
        from_second = rng.integers(0, len(second), pods - of_first)
        nodes = rng.choice(len(self.nodes), max(int(node_share * len(self.nodes)), 2), replace=False)
        return packing_problem(_some_nodes(self.nodes, nodes), _joined(first, from_first, second, from_second))


def list_names(folder: Path) -> tuple[str, ...]:
    """Of all pod lists in the folder."""
    prefix = "openb_pod_list_"
    names = sorted(path.name.removeprefix(prefix).split(".")[0] for path in folder.glob(f"{prefix}*.csv*"))
    if not names:
        raise InputError(f"{folder}: no {prefix}*.csv; name the folder that holds the openb lists")
    return tuple(names)


def _some_nodes(nodes: OpenbNodes, some: IntArray) -> OpenbNodes:
    return replace(
        nodes,
        names=tuple(nodes.names[node] for node in some),
        cpu_millicores=nodes.cpu_millicores[some],
        memory_mib=nodes.memory_mib[some],
        gpus=nodes.gpus[some],
        model=nodes.model[some],
    )


def _joined(first: OpenbPods, from_first: IntArray, second: OpenbPods, from_second: IntArray) -> OpenbPods:
    arrays = ("cpu_request_millicores", "memory_request_mib", "gpus", "gpu_milli", "gpu_models", "qos")
    times = ("creation_s", "deletion_s", "scheduled_s")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(first, name)[from_first], getattr(second, name)[from_second]])
        for name in (*arrays, *times)
    }
    names = (*(first.names[pod] for pod in from_first), *(second.names[pod] for pod in from_second))
    return OpenbPods(names=names, **columns)


def _file(folder: Path, name: str) -> Path:
    """The file, plain or packed."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(f"{folder}: no {name} or {name}.gz; name the folder that holds the openb lists")

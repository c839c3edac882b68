"""What single pods use, as cAdvisor measures it: a part of the pods after the other, to stay small."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from envs.live.metrics import PodName, PodUse
from envs.live.prometheus_client import Series
from envs.live.prometheus_reading import LARGEST, MBPS, MIB, MILLICORES, Column

POD_COLUMNS = (
    Column("cpu_millicores", "pod_cpu", MILLICORES),
    Column("memory_mib", "pod_memory", 1 / MIB),
    Column("rx_mbps", "pod_rx", MBPS),
    Column("tx_mbps", "pod_tx", MBPS),
)


Ask = Callable[[str, str], list[Series]]  # name of a query and matcher of pods


def pod_uses(ask: Ask, parts: Iterable[str], known: Iterable[PodName] = ()) -> tuple[dict[PodName, PodUse], list[str]]:
    """By pod, and what is not known of any of them. Names that are ``known`` are not stored again."""
    names = {name: name for name in known}
    uses: dict[PodName, PodUse] = {}
    missing = {column.name for column in POD_COLUMNS}
    for pods in parts:
        found: dict[PodName, list[float]] = {}
        for place, column in enumerate(POD_COLUMNS):
            for name, value in _by_pod(ask(column.query, pods), column):
                found.setdefault(names.get(name, name), [math.nan] * len(POD_COLUMNS))[place] = value
                missing.discard(column.name)
        uses |= {name: PodUse(*values) for name, values in found.items()}
    unknown = ", ".join(column.name for column in POD_COLUMNS if column.name in missing)
    return uses, [f"pods: no series with a pod label for {unknown}"] if unknown else []


def _by_pod(series: Iterable[Series], column: Column) -> Iterator[tuple[PodName, float]]:
    for one in series:
        name, value = _pod_name(one.labels), one.value * column.factor
        if name and 0.0 <= value <= LARGEST:
            yield name, value


def _pod_name(labels: Mapping[str, str]) -> PodName | None:
    namespace, pod = labels.get("namespace", ""), labels.get("pod") or labels.get("pod_name", "")
    return (namespace, pod) if pod else None

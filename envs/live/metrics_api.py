"""Metrics of nodes and pods from ``metrics.k8s.io``: CPU and memory, no network; what every cluster with
``kubectl top`` has. While it does not answer the last readings stay and grow old.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from agent.demand import BYTES_PER_MIB
from agent.errors import InputError
from agent.quantities import Quantity, nanos
from envs.live import fields
from envs.live.fields import Json
from envs.live.kubernetes.api import ApiError, ApiServer
from envs.live.metrics import LiveMetrics, PodName, PodUse, Reading
from envs.live.rounds import RoundsSource

logger = logging.getLogger(__name__)

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
WITHIN_S = 10.0
MAX_BYTES = 64 * 2**20
PODS_EVERY_S = 60.0  # 30,000 pods are 15 MB of JSON, and a mean over siblings changes slowly


class MetricsApiSource(RoundsSource):
    def __init__(self, api: ApiServer, interval_s: float) -> None:
        super().__init__("metrics API", interval_s)
        self._api = api
        self._pods: dict[PodName, PodUse] = {}
        self._pods_due_s = 0.0

    def read(self) -> LiveMetrics:
        """One round of questions."""
        problem = ""
        columns = self._newest.columns
        try:
            columns = _columns(self._items(NODES))
            if time.monotonic() >= self._pods_due_s:
                self._pods = dict(_pod_uses(self._items(PODS)))
                self._pods_due_s = time.monotonic() + PODS_EVERY_S
        except (ApiError, InputError) as why:
            problem = f"the metrics API: {why}"
            logger.warning("%s; again in %g s", problem, self._interval_s)
        self._newest = LiveMetrics(columns, self._pods, (problem,) if problem else ())
        return self._newest

    def _items(self, path: str) -> Iterator[Json]:
        answer: Any = self._api.get(path, {}, WITHIN_S, MAX_BYTES)
        if not isinstance(answer, dict):
            raise ApiError(f"{path} did not answer with a JSON object")
        yield from fields.objects(answer, "items")


def _columns(items: Iterator[Json]) -> dict[str, dict[str, Reading]]:
    cpu: dict[str, Reading] = {}
    memory: dict[str, Reading] = {}
    for item in items:
        name, usage = fields.text(fields.an_object(item, "metadata"), "name"), fields.an_object(item, "usage")
        at_s = _seconds(fields.text(item, "timestamp"))
        cpu[name] = Reading(_amount(usage, "cpu") * 1000.0, at_s)
        memory[name] = Reading(_amount(usage, "memory") / BYTES_PER_MIB, at_s)
    return {"cpu_used_millicores": cpu, "memory_used_mib": memory}


def _pod_uses(items: Iterator[Json]) -> Iterator[tuple[PodName, PodUse]]:
    for item in items:
        metadata = fields.an_object(item, "metadata")
        usages = [fields.an_object(each, "usage") for each in fields.objects(item, "containers")]
        cpu_millicores = sum(_amount(usage, "cpu") for usage in usages) * 1000.0
        memory_mib = sum(_amount(usage, "memory") for usage in usages) / BYTES_PER_MIB
        name = (fields.text(metadata, "namespace"), fields.text(metadata, "name"))
        yield name, PodUse(cpu_millicores, memory_mib, math.nan, math.nan)


def _amount(usage: Json, resource: str) -> float:
    """In units; NaN where it is not said."""
    found: Quantity | None = usage.get(resource)
    return math.nan if found is None else nanos(found) / 1e9


def _seconds(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError as why:
        raise InputError(f"{stamp!r} is no time") from why

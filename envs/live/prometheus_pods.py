"""The lives of the pods as kube-state-metrics saw them: when they came, where they ran, what they asked for, when they
ended. Pods of DaemonSets and of the nodes themselves are nobody's decision and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envs.live.metrics import PodName
from envs.live.prometheus_client import Series
from envs.live.prometheus_history import GPU, Chunk, History
from envs.live.prometheus_pod_use import POD_COLUMNS
from envs.live.prometheus_reading import LARGEST, MIB, MILLICORES
from envs.workloads.recording_records import Bound, Decision, Ended, PodDemand, Record

SOURCE = "kube-scheduler"  # who decided; what it scored nobody recorded
NOT_DECIDED = "DaemonSet|Node"
_IDENTITY = "uid, namespace, pod, node, created_by_kind, created_by_name"
_SEEN = f'kube_pod_info{{node!="",created_by_kind!~"{NOT_DECIDED}"}}'
_HASH = {"ReplicaSet": re.compile(r"-[a-z0-9]{6,10}$"), "Job": re.compile(r"-[0-9]{8,}$")}


@dataclass(slots=True)
class _Life:
    node: str
    last_s: float


class PodHistory:
    """Records of the pods' lives, chunk by chunk."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._alive: dict[str, _Life] = {}
        self._over: set[str] = set()  # completed, but kube-state-metrics still shows them

    def records(self, chunk: Chunk) -> Iterator[Record]:
        seen = self._seen("max", chunk, "kube_pod_info: which pods ran where")
        first_s = {_uid(one.labels): one.value for one in self._seen("min", chunk)}
        if not seen:
            return  # kube-state-metrics was away: nothing is known to have ended
        completed = self._by_uid("kube_pod_completion_time", chunk)
        created = self._by_uid("kube_pod_created", chunk)
        demand = _Demands(self._history, chunk)
        for one in seen:
            uid = _uid(one.labels)
            if uid not in self._alive and uid not in self._over:
                began_s = self._began_s(chunk, first_s.get(uid, one.value), created.get(uid))
                yield from self._begin(uid, one, began_s, demand.of(one.labels))
            elif uid in self._alive:
                self._alive[uid].last_s = one.value
        yield from self._ended(chunk, {_uid(one.labels): one.value for one in seen}, completed)

    def _seen(self, edge: str, chunk: Chunk, what: str = "") -> list[Series]:
        window = f"[{chunk.length}:{round(chunk.step_s)}s]"
        query = f"{edge} by ({_IDENTITY}) ({edge}_over_time(timestamp({_SEEN}){window}))"
        return self._history.vector(query, chunk, what)

    def _by_uid(self, metric: str, chunk: Chunk) -> dict[str, float]:
        query = f"max by (uid, namespace, pod) (last_over_time({metric}[{chunk.length}]))"
        return {_uid(one.labels): one.value for one in self._history.vector(query, chunk)}

    def _began_s(self, chunk: Chunk, first_s: float, created_s: float | None) -> float:
        """When it was created, if that is in this chunk; else when it was first seen."""
        if created_s is not None and chunk.from_s - chunk.step_s <= created_s <= first_s:
            return max(created_s, chunk.from_s)
        return min(max(first_s, chunk.from_s), chunk.to_s)

    def _begin(self, uid: str, one: Series, began_s: float, demand: PodDemand) -> Iterator[Record]:
        self._alive[uid] = _Life(one.labels["node"], one.value)
        yield Decision(at_s=began_s, pod_uid=uid, demand=demand, candidates=(), scores=(), source=SOURCE, shadow=True)
        yield Bound(at_s=began_s, pod_uid=uid, node=one.labels["node"])

    def _ended(self, chunk: Chunk, seen: Mapping[str, float], completed: Mapping[str, float]) -> Iterator[Record]:
        newest_s = max(seen.values())
        for uid, life in list(self._alive.items()):
            at_s = completed.get(uid, life.last_s + chunk.step_s)
            gone = seen.get(uid, life.last_s) < newest_s - 1.5 * chunk.step_s
            if gone or (uid in completed and completed[uid] <= chunk.to_s):
                del self._alive[uid]
                self._over.add(uid)
                yield Ended(at_s=min(max(at_s, chunk.from_s), chunk.to_s), pod_uid=uid)
        self._over &= set(seen)  # a name that is gone need not be remembered


class _Demands:
    """What pods asked for, and what they used on the mean of the chunk."""

    def __init__(self, history: History, chunk: Chunk) -> None:
        requests = (
            "sum by (namespace, pod, resource) (max by (namespace, pod, container, resource) "
            f'(last_over_time(kube_pod_container_resource_requests{{resource=~"cpu|memory|{GPU}"}}[{chunk.length}])))'
        )
        self._requests: dict[tuple[PodName, str], float] = {}
        for one in history.vector(requests, chunk, "kube_pod_container_resource_requests: what pods ask for"):
            self._requests[_name(one.labels), one.labels.get("resource", "")] = one.value
        self._used = {column.query: self._use(history, chunk, column.query) for column in POD_COLUMNS}

    def of(self, labels: Mapping[str, str]) -> PodDemand:
        name, app = _name(labels), app_of(labels)
        used = {column.name: self._amount(column.query, name, column.factor) for column in POD_COLUMNS}
        return PodDemand(
            namespace=labels.get("namespace", ""),
            app=app,
            cpu_request_millicores=self._request(name, "cpu") * MILLICORES,
            memory_request_mib=self._request(name, "memory") / MIB,
            gpus=int(self._request(name, GPU)),
            expected_cpu_millicores=used["cpu_millicores"],
            expected_memory_mib=used["memory_mib"],
            expected_rx_mbps=used["rx_mbps"],
            expected_tx_mbps=used["tx_mbps"],
            demand_source="siblings" if app and used["rx_mbps"] is not None else "none",
        )

    def _use(self, history: History, chunk: Chunk, query: str) -> dict[PodName, float]:
        asked = history.client.settings.query(query, history.mapping.label)
        mean = f"avg_over_time(({asked})[{chunk.length}:{round(chunk.step_s)}s])"
        found = history.vector(mean, chunk, f"container metrics for {query}: what single pods use")
        return {_name(one.labels): one.value for one in found if one.labels.get("pod")}

    def _request(self, name: PodName, resource: str) -> float:
        value = self._requests.get((name, resource), 0.0)
        return value if 0.0 <= value <= LARGEST else 0.0

    def _amount(self, query: str, name: PodName, factor: float) -> float | None:
        value = self._used[query].get(name)
        return value * factor if value is not None and 0.0 <= value * factor <= LARGEST else None


def app_of(labels: Mapping[str, str]) -> str:
    """The owner that stays the same over a rollout or over the runs of a CronJob."""
    owner, kind = labels.get("created_by_name", ""), labels.get("created_by_kind", "")
    owner = "" if owner == "<none>" else owner
    return _HASH[kind].sub("", owner) if kind in _HASH else owner


def _name(labels: Mapping[str, str]) -> PodName:
    return labels.get("namespace", ""), labels.get("pod", "")


def _uid(labels: Mapping[str, str]) -> str:
    return labels.get("uid") or "/".join(_name(labels))

"""What a pod asks for, summed as kube-scheduler sums it (``resourcehelper.PodRequests``, Kubernetes 1.35).

A pod needs the larger of two moments: when it runs (containers and sidecars together) and when it starts (each
init container with the sidecars that started before it). Pod-level requests replace the sum where they are set,
and the overhead of the runtime class comes on top. The sum is exact and is rounded once, at the end.

A sidecar is an init container with ``restartPolicy: Always``. Limits play no part: the API server has already
copied them into the requests that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.errors import InputError
from agent.quantities import nanos, whole_millis, whole_units

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")

# What a container without a request counts for when nodes are scored (never when they are filtered).
NON_ZERO_CPU_MILLICORES = 100
NON_ZERO_MEMORY_BYTES = 200 * 1024 * 1024

_NON_ZERO: Mapping[str, int] = {"cpu": NON_ZERO_CPU_MILLICORES * 10**6, "memory": NON_ZERO_MEMORY_BYTES * 10**9}
_SCALAR_PREFIXES = ("hugepages-", "attachable-volumes-")

Amounts = dict[str, int]  # resource name -> nano-units


@dataclass(frozen=True, slots=True)
class PodRequests:
    """Requests of a whole pod; ``extended`` holds every other countable resource by its name."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    gpus: int = 0
    extended: Mapping[str, int] = field(default_factory=dict)


def pod_requests(pod: Mapping[str, Any]) -> PodRequests:
    """Requests of a pod in its API form; what is missing counts 0."""
    return _rounded(_pod_amounts(pod, non_missing={}))


def non_zero_requests(pod: Mapping[str, Any]) -> PodRequests:
    """Requests for scoring: a container without a CPU or memory request counts 100m or 200Mi.

    An explicit 0 stays 0. Without these defaults a crowd of pods without requests would look like an empty node.
    """
    return _rounded(_pod_amounts(pod, non_missing=_NON_ZERO))


def _pod_amounts(pod: Mapping[str, Any], non_missing: Mapping[str, int]) -> Amounts:
    spec = _mapping(pod, "spec")
    total = _container_amounts(pod, non_missing)
    for name, amount in _requests(spec, "spec.resources").items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):  # nothing else can be set for a pod
            total[name] = amount
    _add(total, _amounts(_mapping(spec, "overhead"), "spec.overhead"))
    return total


def _container_amounts(pod: Mapping[str, Any], non_missing: Mapping[str, int]) -> Amounts:
    spec = _mapping(pod, "spec")
    resizes = _Resizes.of(pod)
    running: Amounts = {}
    for container in _objects(spec, "containers"):
        _add(running, {**non_missing, **resizes.effective(container)})

    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in _objects(spec, "initContainers"):
        if container.get("restartPolicy") == "Always":
            amounts = {**non_missing, **resizes.effective(container)}
            _add(running, amounts)
            _add(sidecars, amounts)
        else:
            step = {**non_missing, **_requests(container, _where(container))}
            _add(step, sidecars)
            _raise(starting, step)
    _raise(running, starting)
    return running


@dataclass(frozen=True, slots=True)
class _Resizes:
    """A running container that is being resized holds the larger of what it has and what it will have."""

    statuses: Mapping[str, Mapping[str, Any]]  # by container name
    infeasible: bool  # the node refused the resize: what the spec asks for will not come

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> _Resizes:
        status = _mapping(pod, "status")
        conditions = (each for each in _objects(status, "conditions") if each.get("type") == "PodResizePending")
        pending = next(conditions, {})
        statuses = [*_objects(status, "containerStatuses"), *_objects(status, "initContainerStatuses")]
        return cls({str(each.get("name", "")): each for each in statuses}, pending.get("reason") == "Infeasible")

    def effective(self, container: Mapping[str, Any]) -> Amounts:
        wanted = _requests(container, _where(container))
        status = self.statuses.get(str(container.get("name", "")))
        if status is None or status.get("resources") is None:
            return wanted
        held = {} if self.infeasible else wanted
        _raise(held, _requests(status, f"status of {_where(container)}"))
        _raise(held, _amounts(_mapping(status, "allocatedResources"), f"allocatedResources of {_where(container)}"))
        return held


def _rounded(amounts: Amounts) -> PodRequests:
    extended = {name: whole_units(amount) for name, amount in amounts.items() if _is_scalar(name)}
    return PodRequests(
        cpu_millicores=whole_millis(amounts.get("cpu", 0)),
        memory_bytes=whole_units(amounts.get("memory", 0)),
        ephemeral_bytes=whole_units(amounts.get("ephemeral-storage", 0)),
        gpus=sum(whole_units(amounts.get(name, 0)) for name in GPU_RESOURCES),
        extended={name: amount for name, amount in extended.items() if name not in GPU_RESOURCES},
    )


def _is_scalar(name: str) -> bool:
    return "/" in name or name.startswith(_SCALAR_PREFIXES)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, amount), amount)


def _requests(holder: Mapping[str, Any], where: str) -> Amounts:
    return _amounts(_mapping(_mapping(holder, "resources"), "requests"), f"requests of {where}")


def _amounts(quantities: Mapping[str, Any], where: str) -> Amounts:
    try:
        return {name: 0 if quantity is None else nanos(quantity) for name, quantity in quantities.items()}
    except InputError as why:
        raise InputError(f"{where}: {why}") from why


def _where(container: Mapping[str, Any]) -> str:
    return f"container {container.get('name', '')!r}"


def _mapping(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    if found is None:  # Go writes null for an empty map
        return {}
    # A dict is what parsers make, and asking for its type takes a tenth of asking whether it is a Mapping.
    if type(found) is not dict and not isinstance(found, Mapping):
        raise InputError(f"{key!r} of the pod must be an object, not {type(found).__name__}")
    return found


def _objects(holder: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    found = holder.get(key)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(type(each) is dict or isinstance(each, Mapping) for each in found):
        raise InputError(f"{key!r} of the pod must be a list of objects")
    return found

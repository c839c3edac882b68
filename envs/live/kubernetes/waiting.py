"""Pods into the ledger, as ever; and those that wait for one scheduler kept whole, because it has to place them.

Behind that scheduler stands no kube-scheduler with filters of its own. So pods with rules that ``agent.feasibility``
does not know are left alone: a warning names the rule, and the pod waits for another ``schedulerName``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from agent.errors import InputError
from agent.requests import pod_requests
from envs.live import fields
from envs.live.fields import Json
from envs.live.kubernetes.sinks import TERMINAL, PodSink, name_of
from envs.live.ledger import Ledger
from envs.live.pods import pod_from_api
from envs.live.waiting import WaitingPods

logger = logging.getLogger(__name__)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CLAIMING_VOLUMES = ("persistentVolumeClaim", "ephemeral")
DISKS = ("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "iscsi", "rbd")  # named in the pod itself


class WaitingSink(PodSink):
    def __init__(self, ledger: Ledger, waiting: WaitingPods, namespace: str = "") -> None:
        super().__init__(ledger, namespace)
        self._waiting = waiting
        self._refused: set[str] = set()  # UIDs, warned about

    def finish(self) -> None:
        listed = self._listed
        super().finish()
        self._waiting.keep(lambda name: name in listed or self._namespace not in ("", name[0]))

    def changed(self, item: Json) -> None:
        super().changed(item)
        name, spec = name_of(item), fields.an_object(item, "spec")
        ours = fields.text(spec, "schedulerName") == self._waiting.scheduler_name
        if not ours or not _waits(item) or self._beyond_us(item, spec):
            self._waiting.forget(name)
            return
        try:
            self._waiting.show(name, pod_from_api(item)[0])
        except InputError:
            self._waiting.forget(name)
            raise

    def removed(self, item: Json) -> None:
        super().removed(item)
        self._waiting.forget(name_of(item))
        self._refused.discard(_uid(item))

    def _beyond_us(self, item: Json, spec: Json) -> bool:
        unknown, uid = list(unknown_rules(spec)), _uid(item)
        if unknown and uid not in self._refused:
            self._refused.add(uid)
            logger.warning("pod %s is left alone: it has %s", "/".join(name_of(item)), ", ".join(unknown))
        return bool(unknown)


def unknown_rules(spec: Json) -> Iterator[str]:
    """What the pod asks of its node that nobody here would check."""
    yield from _about_other_pods(spec)
    kinds = (*CLAIMING_VOLUMES, *DISKS)
    if any(volume.get(kind) for volume in fields.objects(spec, "volumes") for kind in kinds):
        yield "a persistent volume"
    if any(port.get("hostPort") for port in _ports(spec)):
        yield "a hostPort"
    if fields.objects(spec, "resourceClaims"):
        yield "resourceClaims"
    yield from _uncounted_requests(spec)


def _about_other_pods(spec: Json) -> Iterator[str]:
    affinity = fields.an_object(spec, "affinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if fields.objects(fields.an_object(affinity, kind), REQUIRED):
            yield f"a required {kind}"
    spreads = fields.objects(spec, "topologySpreadConstraints")
    if any(each.get("whenUnsatisfiable") != "ScheduleAnyway" for each in spreads):
        yield "topologySpreadConstraints"


def _ports(spec: Json) -> Iterator[Json]:
    """Of init containers, too: a sidecar is one."""
    for kind in ("containers", "initContainers"):
        for container in fields.objects(spec, kind):
            yield from fields.objects(container, "ports")


def _uncounted_requests(spec: Json) -> Iterator[str]:
    """The ledger counts CPU, memory and GPUs of a node, and nothing else."""
    requests = pod_requests({"spec": spec})
    if requests.ephemeral_bytes:
        yield "a request of ephemeral-storage"
    for name in sorted(requests.extended):
        if requests.extended[name]:
            yield f"a request of {name}"


def _uid(item: Json) -> str:
    return fields.text(fields.an_object(item, "metadata"), "uid")


def _waits(item: Json) -> bool:
    spec, status = fields.an_object(item, "spec"), fields.an_object(item, "status")
    held = fields.objects(spec, "schedulingGates")
    return not fields.text(spec, "nodeName") and not held and fields.text(status, "phase") not in TERMINAL

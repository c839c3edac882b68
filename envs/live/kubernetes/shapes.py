"""What is read of the API server's objects. The rest, most of every object, is skipped while parsing.

A pod of 4 KB costs 20 µs and a few small dictionaries this way; parsed whole it costs 160 µs, and the pages of a list
would take more memory than all the rows that are kept of them. What stands here as ``Any`` is checked where it is read.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from agent.errors import InputError
from envs.live.fields import Json


class Metadata(TypedDict, total=False):
    name: Any
    namespace: Any
    uid: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    resourceVersion: Any


class Container(TypedDict, total=False):
    name: Any
    resources: Any
    restartPolicy: Any
    allocatedResources: Any


class PodSpec(TypedDict, total=False):
    nodeName: Any
    containers: list[Container] | None
    initContainers: list[Container] | None
    resources: Any
    overhead: Any
    tolerations: Any
    affinity: Any
    nodeSelector: Any
    schedulerName: Any
    schedulingGates: Any
    priority: Any


class PlacedContainer(Container, total=False):
    ports: Any


class PlacedPodSpec(PodSpec, total=False):
    """What somebody must read who places the pod alone, without kube-scheduler's filters."""

    containers: list[PlacedContainer] | None  # type: ignore[misc]
    topologySpreadConstraints: Any
    volumes: Any
    resourceClaims: Any


class PodStatus(TypedDict, total=False):
    phase: Any
    conditions: Any
    containerStatuses: list[Container] | None
    initContainerStatuses: list[Container] | None


class Pod(TypedDict, total=False):
    metadata: Metadata | None
    spec: PodSpec | None
    status: PodStatus | None


class PlacedPod(TypedDict, total=False):
    metadata: Metadata | None
    spec: PlacedPodSpec | None
    status: PodStatus | None


class NodeSpec(TypedDict, total=False):
    taints: Any
    unschedulable: Any


class NodeStatus(TypedDict, total=False):
    allocatable: Any
    conditions: Any
    addresses: Any


class Node(TypedDict, total=False):
    metadata: Metadata | None
    spec: NodeSpec | None
    status: NodeStatus | None


class PageMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct):
    """One page of a list; its items are parsed one by one, so that one bad object hides no other."""

    metadata: PageMetadata
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Status(msgspec.Struct):
    """How the API server explains a failure."""

    code: int = 0
    message: str = ""


class _OnlyMetadata(TypedDict, total=False):
    metadata: Metadata | None


class Shape:
    """Parses one kind of object."""

    def __init__(self, shape: Any) -> None:
        self._decoder = msgspec.json.Decoder(shape)

    def read(self, raw: msgspec.Raw) -> Json:
        try:
            item: Json = self._decoder.decode(raw)
        except msgspec.DecodeError as why:
            raise InputError(str(why)) from why
        return item


POD, NODE, BOOKMARK = Shape(Pod), Shape(Node), Shape(_OnlyMetadata)
PLACED_POD = Shape(PlacedPod)
page_of = msgspec.json.Decoder(Page).decode
event_of = msgspec.json.Decoder(Event).decode
status_of = msgspec.json.Decoder(Status).decode

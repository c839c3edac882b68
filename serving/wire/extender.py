"""What kube-scheduler and an extender say to each other (``extender/v1``), in bytes.

Keys are Go's field names, unused ones arrive as null, and every number of a reply must be an integer: one ``7.0`` and
kube-scheduler drops all scores. With ``nodeCacheCapable`` nodes come as names; without it as whole objects, which are
given back as they came, because kube-scheduler goes on with what it gets here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from agent.errors import InputError

T = TypeVar("T")


class _Wire(Struct, rename="pascal", frozen=True):
    """Fields in Go's spelling; unknown ones pass, because the next release of kube-scheduler may have more."""


class NodeList(Struct, frozen=True):
    items: list[Raw] | None = None


class ExtenderArgs(_Wire, frozen=True):
    """The body of ``filter`` and ``prioritize``."""

    pod: dict[str, Any]
    nodes: NodeList | None = None
    node_names: list[str] | None = None

    @property
    def carries_nodes(self) -> bool:
        return self.node_names is None and self.nodes is not None


class BindingArgs(_Wire, frozen=True):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class MetaPod(Struct, frozen=True):
    uid: str = msgspec.field(name="UID")


class MetaVictims(_Wire, frozen=True):
    """Victims by UID: the form of every reply, and of requests with ``nodeCacheCapable``."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class Victims(_Wire, frozen=True):
    pods: list[dict[str, Any]] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptionArgs(_Wire, frozen=True):
    pod: dict[str, Any]
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class _Metadata(Struct, frozen=True):
    name: str


class _Named(Struct, frozen=True):
    metadata: _Metadata


class _HostPriority(_Wire, frozen=True, gc=False):
    host: str
    score: int


class _FilterResult(_Wire, frozen=True):
    nodes: NodeList | None
    node_names: Sequence[str] | None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str = ""


class _PreemptionResult(_Wire, frozen=True):
    node_name_to_meta_victims: Mapping[str, MetaVictims]


_ARGS = msgspec.json.Decoder(ExtenderArgs)
_BINDING = msgspec.json.Decoder(BindingArgs)
_PREEMPTION = msgspec.json.Decoder(PreemptionArgs)
_NAMED = msgspec.json.Decoder(_Named)
_ENCODER = msgspec.json.Encoder()


def to_args(body: bytes, max_nodes: int) -> tuple[ExtenderArgs, list[str]]:
    """The request, and the names of its nodes in their order."""
    args = _decoded(_ARGS, body)
    items = [] if args.nodes is None else args.nodes.items or []
    count = len(items if args.node_names is None else args.node_names)
    if count > max_nodes:
        raise InputError(f"the request lists {count} nodes, at most {max_nodes} are allowed")
    names = [_decoded(_NAMED, item).metadata.name for item in items] if args.node_names is None else args.node_names
    return args, names


def to_binding(body: bytes) -> BindingArgs:
    return _decoded(_BINDING, body)


def to_preemption(body: bytes) -> PreemptionArgs:
    return _decoded(_PREEMPTION, body)


def from_filter(
    args: ExtenderArgs, names: Sequence[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]
) -> bytes:
    """The nodes that pass, in the form and the order in which they were asked for; never null, never another name."""
    rejected = failed.keys() | unresolvable.keys()
    if not args.carries_nodes:
        passed = [name for name in names if name not in rejected] if rejected else names
        return _ENCODER.encode(_FilterResult(None, passed, failed, unresolvable))
    items = zip(names, (args.nodes and args.nodes.items) or [], strict=True)
    nodes = NodeList([item for name, item in items if name not in rejected])
    return _ENCODER.encode(_FilterResult(nodes, None, failed, unresolvable))


def from_levels(names: Iterable[str], levels: Iterable[int]) -> bytes:
    return _ENCODER.encode(list(map(_HostPriority, names, levels)))


def from_binding(error: str = "") -> bytes:
    return _ENCODER.encode({"Error": error})


def from_preemption(victims: Mapping[str, MetaVictims]) -> bytes:
    return _ENCODER.encode(_PreemptionResult(victims))


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes | Raw) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as why:
        raise InputError(f"the body is not what an extender is sent: {why}") from why

"""Nodes prepared for the questions that a pod asks of labels and taints.

A large cluster has few distinct label values and taint sets. The table is built once for each change of the nodes;
a pod's question is then answered once per distinct value and spread over the nodes by numpy, so 5,000 nodes cost
little more than 50. The rules are those of kube-scheduler 1.35 (``nodeaffinity`` and ``Toleration.ToleratesTaint``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import NamedTuple, TypeVar, overload

import numpy as np

from agent.cluster import BoolArray, IntArray, Node, NodeSelectorTerm, Requirement, Taint, Toleration

MAINTENANCE_LABEL = "scheduler.alpha.kubernetes.io/maintenance"
NAME_FIELD = "metadata.name"
UNKNOWN = -1  # the place of a node that the table does not have

_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")  # PreferNoSchedule only moves scores
_MAX_COLUMNS = 256  # label keys come from users: what is kept for them is bounded
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_MAX_INTEGER_LENGTH = 63  # of a label's value
_INTEGER = re.compile(r"[+-]?[0-9]+")

T = TypeVar("T")


class Column(NamedTuple):
    """One label over all nodes: the distinct values (None: no such label), and which one each node has."""

    values: tuple[str | None, ...]
    codes: IntArray  # (nodes,)

    def where(self, holds: Callable[[str | None], bool]) -> BoolArray:
        verdicts = np.fromiter((holds(value) for value in self.values), np.bool_, len(self.values))
        return verdicts[self.codes]


class NodeTable(Sequence[Node]):
    """The nodes in their order, with flags and taints as arrays, and a column for each label that was asked for."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = tuple(nodes)
        self.names = tuple(node.name for node in self._nodes)
        self.not_ready = self._flags(lambda node: not node.ready)
        self.unschedulable = self._flags(lambda node: node.unschedulable)
        self.maintenance = self._flags(lambda node: node.labels.get(MAINTENANCE_LABEL) == "true")
        self.all_usable = not (self.not_ready | self.unschedulable | self.maintenance).any()
        self.taint_sets, self.taint_codes = _distinct(tuple(map(_blocking, self._nodes)))
        self._columns: dict[str, Column] = {}

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def places(self, names: Sequence[str]) -> IntArray:
        """Where the nodes of these names stand; ``UNKNOWN`` for a name that is not here."""
        return np.fromiter(map(self.index_of.get, names, repeat(UNKNOWN)), np.int64, len(names))

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> NodeTable:
        return nodes if isinstance(nodes, NodeTable) else cls(nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> NodeTable: ...
    def __getitem__(self, index: int | slice) -> Node | NodeTable:
        return NodeTable(self._nodes[index]) if isinstance(index, slice) else self._nodes[index]

    def column(self, key: str) -> Column:
        """A label of every node, kept for the next pod that asks."""
        found = self._columns.get(key)
        if found is None:
            found = Column(*_distinct(tuple(node.labels.get(key) for node in self._nodes)))
            if len(self._columns) >= _MAX_COLUMNS:
                self._columns.clear()
            self._columns[key] = found
        return found

    def labelled(self, key: str, value: str) -> BoolArray:
        """Nodes with exactly this label (``nodeSelector``)."""
        return self.column(key).where(lambda found: found == value)

    def matching(self, requirement: Requirement) -> BoolArray:
        """Nodes whose label meets the requirement; an ill-formed requirement is met by none."""
        if not _well_formed(requirement):
            return np.zeros(len(self), dtype=np.bool_)
        return self.column(requirement.key).where(_verdict(requirement))

    def named(self, requirement: Requirement) -> BoolArray:
        """Nodes that meet a ``matchFields`` requirement: only the name, In or NotIn, one value."""
        known = requirement.key == NAME_FIELD and requirement.operator in ("In", "NotIn")
        if not known or len(requirement.values) != 1:
            return np.zeros(len(self), dtype=np.bool_)
        same = np.fromiter((name == requirement.values[0] for name in self.names), np.bool_, len(self))
        return same if requirement.operator == "In" else ~same

    def matching_any(self, terms: Sequence[NodeSelectorTerm]) -> BoolArray:
        """Nodes that meet every requirement of at least one term; an empty term selects nothing."""
        matched = np.zeros(len(self), dtype=np.bool_)
        for term in terms:
            if term.requirements or term.match_names:
                matched |= self._matching_term(term)
        return matched

    def _matching_term(self, term: NodeSelectorTerm) -> BoolArray:
        matched = np.ones(len(self), dtype=np.bool_)
        for requirement in term.requirements:
            matched &= self.matching(requirement)
        for requirement in term.match_names:
            matched &= self.named(requirement)
        return matched

    def _flags(self, flag: Callable[[Node], bool]) -> BoolArray:
        return np.fromiter(map(flag, self._nodes), np.bool_, len(self._nodes))


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (
            toleration.operator == "Exists"
            or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


def _blocking(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.effect in _BLOCKING_EFFECTS) if node.taints else ()


def _distinct(values: tuple[T, ...]) -> tuple[tuple[T, ...], IntArray]:
    """The distinct values in order of appearance, and for each value its place among them."""
    places: dict[T, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return tuple(places), np.array(codes, dtype=np.int64)


def _well_formed(requirement: Requirement) -> bool:
    """kube-scheduler ignores the whole term of a requirement that breaks these rules."""
    count = len(requirement.values)
    if not all(_LABEL_VALUE.fullmatch(value) for value in requirement.values):
        return False
    match requirement.operator:
        case "In" | "NotIn":
            return count > 0
        case "Exists" | "DoesNotExist":
            return count == 0
        case "Gt" | "Lt":
            return count == 1 and _integer(requirement.values[0]) is not None
        case _:
            return False


def _verdict(requirement: Requirement) -> Callable[[str | None], bool]:
    """What a well-formed requirement says of a label's value, or of None where there is no such label."""
    wanted = frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return lambda value: value in wanted
        case "NotIn":
            return lambda value: value not in wanted
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
    limit = int(requirement.values[0])
    above = requirement.operator == "Gt"
    return lambda value: (number := _integer(value)) is not None and (number > limit if above else number < limit)


def _integer(text: str | None) -> int | None:
    """A decimal int64, as Go reads it: no spaces, no underscores, no digits of other scripts."""
    if text is None or len(text) > _MAX_INTEGER_LENGTH or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None

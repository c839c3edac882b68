"""What the sidecar answers kube-scheduler: whom it rejects, how it ranks, which victims it spares.

Extenders serve every profile of a scheduler, so pods of other ``schedulerName``s pass untouched. And kube-scheduler
knows the cluster a moment better than our watch does: a node that we have not heard of passes and stands in the middle,
and what the in-tree filters judge is not judged again here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.breaker import Clock
from agent.cluster import IntArray, Pod
from agent.feasibility import Feasibility, own_feasibility
from agent.nodetable import UNKNOWN
from agent.quantise import neutral_level
from envs.live import fields
from envs.live.fields import Json
from envs.live.pods import pod_from_api
from envs.live.snapshot import ClusterSource, Snapshot
from serving.decide import Decider
from serving.decision import Decision
from serving.observability import Metrics
from serving.rollout import Rollout
from serving.settings import Settings
from serving.wire.extender import MetaPod, MetaVictims, PreemptionArgs, Victims

DEFAULT_SCHEDULER = "default-scheduler"
UNREADABLE = "UnreadableAnnotation"  # reason of an event
NEUTRAL_LEVEL = 0  # any level would do, as long as every node has the same

Warn = Callable[[Pod, str, str], None]  # reason and message


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nodes that cannot take the pod, each with its reasons; evicting pods would not help the unresolvable ones."""

    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)

    @property
    def none(self) -> bool:
        return not self.failed and not self.unresolvable


@dataclass(frozen=True, slots=True)
class Considered:
    """An answer to ``prioritize`` before it is given, and what it rests on."""

    decision: Decision
    places: IntArray  # of the nodes that were asked about
    snapshot: Snapshot
    assumed_version: int


class Extender:
    def __init__(self, settings: Settings, source: ClusterSource, decider: Decider, metrics: Metrics) -> None:
        self.rollout = Rollout(settings.rollout)  # replaced as a whole: requests go on
        self._scheduler_names = {name.strip() for name in settings.extender.scheduler_names.split(",")}
        self._protect_annotation = settings.extender.protect_annotation
        self._source = source
        self._decider = decider
        self._metrics = metrics
        self._warn: Warn = lambda pod, reason, message: None
        self._read: tuple[Json | None, Pod | None] = (None, None)  # the last pod: it is asked about more than once

    def on_warning(self, warn: Warn) -> None:
        """Who is told what was ignored of a pod; must not wait."""
        self._warn = warn

    def apply(self, settings: Settings) -> None:
        """Another mode while requests go on."""
        self.rollout = Rollout(settings.rollout)

    def rejected(self, content: Json, names: Sequence[str]) -> Rejected:
        """Which of these nodes fail a rule of ours."""
        pod, snapshot = self._own(content), self._source.snapshot()
        if pod is None or snapshot is None or not self.rollout.verdict(pod).applied:
            return Rejected()
        return _of_these(names, own_feasibility(snapshot.nodes, snapshot.state, pod))

    @property
    def clock(self) -> Clock:
        return self._decider.clock

    def deadline_s(self) -> float:
        """How long an answer may take; the settings can change while requests go on."""
        return self._decider.deadline_s

    def levels(self, content: Json, names: Sequence[str], deadline_at_s: float | None = None) -> list[int]:
        """0 to 10 for each of these nodes, in their order."""
        considered = self.considered(content, names, deadline_at_s)
        return [NEUTRAL_LEVEL] * len(names) if considered is None else self.settled(considered)

    def considered(self, content: Json, names: Sequence[str], deadline_at_s: float | None = None) -> Considered | None:
        """What ``levels`` would answer, without any consequence; None where all nodes are equal to us."""
        pod, snapshot = self._own(content), self._source.snapshot()
        if pod is None or snapshot is None or not names:
            return None
        verdict, version = self.rollout.verdict(pod), self._decider.assumed.version
        places = self._places(snapshot, names)
        if not verdict.decided or places.max() == UNKNOWN:
            return None
        asked = np.zeros(len(snapshot.nodes), dtype=np.bool_)
        asked[places[places != UNKNOWN]] = True
        decision = self._decider.consider(snapshot, pod, asked, verdict, deadline_at_s)
        return Considered(decision, places, snapshot, version)

    def holds(self, considered: Considered) -> bool:
        """Whether it would come out the same now."""
        same = considered.snapshot is self._source.snapshot()
        return same and considered.assumed_version == self._decider.assumed.version

    def settled(self, considered: Considered) -> list[int]:
        """What was considered becomes our answer; all nodes are equal if it must not count."""
        decision = considered.decision
        self._decider.settle(decision)
        if not decision.applied:
            return [NEUTRAL_LEVEL] * len(considered.places)
        return _levels_at(considered.places, decision)

    def spared(self, args: PreemptionArgs) -> dict[str, MetaVictims]:
        """The nodes on which no victim is protected. kube-scheduler reads victims by UID, however it wrote them."""
        by_uid = _by_uid(args)
        if self._own(args.pod) is None:
            return by_uid
        protected = self._protected_uids(args)
        return {
            node: victims
            for node, victims in by_uid.items()
            if not any(victim.uid in protected for victim in victims.pods or ())
        }

    def _own(self, content: Json) -> Pod | None:
        """The pod, if it is one of those that we were told to schedule."""
        read, pod = self._read
        if read is not content:
            pod = self._pod_of(content)
            self._read = content, pod
        return pod

    def _pod_of(self, content: Json) -> Pod | None:
        scheduler = fields.text(fields.an_object(content, "spec"), "schedulerName") or DEFAULT_SCHEDULER
        if scheduler not in self._scheduler_names:
            return None
        pod, warnings = pod_from_api(content)
        for warning in warnings:
            self._warn(pod, UNREADABLE, warning)
        return pod

    def _places(self, snapshot: Snapshot, names: Sequence[str]) -> IntArray:
        places = snapshot.nodes.places(names)
        unknown = int(np.count_nonzero(places == UNKNOWN))
        if unknown:
            self._metrics.unknown_nodes.inc(unknown)
        return places

    def _protected_uids(self, args: PreemptionArgs) -> frozenset[str]:
        snapshot = self._source.snapshot()
        watched = frozenset() if snapshot is None else snapshot.protected_uids
        sent = [pod for victims in _sent(args).values() for pod in victims.pods or ()]
        return watched | {_uid(pod) for pod in sent if self._is_protected(pod)}

    def _is_protected(self, pod: Json) -> bool:
        annotations = fields.an_object(fields.an_object(pod, "metadata"), "annotations")
        return annotations.get(self._protect_annotation) == "true"


def _of_these(names: Sequence[str], judged: Feasibility) -> Rejected:
    if not judged.checks:
        return Rejected()
    reasons, unresolvable = judged.reasons, judged.unresolvable
    why = {name: "; ".join(reasons[name]) for name in names if name in reasons}
    return Rejected(
        {name: reason for name, reason in why.items() if name not in unresolvable},
        {name: reason for name, reason in why.items() if name in unresolvable},
    )


def _levels_at(places: IntArray, decision: Decision) -> list[int]:
    levels = decision.ranking.levels
    answered = levels[places]
    unknown = places == UNKNOWN
    if unknown.any():
        answered[unknown] = neutral_level(levels, decision.candidates)
    found: list[int] = answered.tolist()
    return found


def _sent(args: PreemptionArgs) -> dict[str, Victims]:
    """Victims sent as whole pods, without the nodes for which Go wrote null."""
    return {node: victims for node, victims in (args.node_name_to_victims or {}).items() if victims is not None}


def _by_uid(args: PreemptionArgs) -> dict[str, MetaVictims]:
    given = {node: victims for node, victims in (args.node_name_to_meta_victims or {}).items() if victims is not None}
    whole = {
        node: MetaVictims([MetaPod(_uid(pod)) for pod in victims.pods or ()], victims.num_pdb_violations)
        for node, victims in _sent(args).items()
    }
    return given or whole


def _uid(pod: Json) -> str:
    return fields.text(fields.an_object(pod, "metadata"), "uid")

"""Pods under arrival while a fault happens, and what became of each of them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass

from tests.cluster.api import Object, eventually
from tests.cluster.arriving import Arrivals
from tests.cluster.faults import Fault, Recovered
from tests.cluster.history import History, PodStory
from tests.cluster.proving_ground import NAMESPACE, POLICY, ProvingGround
from tests.cluster.tape_objects import pod_of

BEFORE_AND_AFTER_S = 8.0  # pods come so long beside the fault itself
RECOVERED_WITHIN_S = 60.0
BOUND_WITHIN_S = 60.0


@dataclass(frozen=True)
class Outcome:
    fault: str
    lasted_s: float
    pods: int
    unbound: int
    bound_twice: int
    misplaced: tuple[str, ...]
    recovery_s: float  # from the end of the fault to a pod bound after a decision of the policy
    longest_pending_s: float
    decided_by: dict[str, int]  # of the decisions that the sidecar still remembers

    @property
    def wrong(self) -> tuple[str, ...]:
        counted = {"unbound": self.unbound, "bound twice": self.bound_twice}
        return (*(f"{count} {what}" for what, count in counted.items() if count), *self.misplaced)

    def as_json(self) -> Object:
        rounded = {"recovery_s": round(self.recovery_s, 2), "longest_pending_s": round(self.longest_pending_s, 2)}
        return asdict(self) | rounded | {"wrong": len(self.wrong)}

    def __str__(self) -> str:
        return (
            f"{self.fault}: recovered in {self.recovery_s:.1f} s, longest pending {self.longest_pending_s:.1f} s, "
            f"{self.pods} pods by {self.decided_by}"
        )


def endure(ground: ProvingGround, fault: Fault, lasts_s: float, pods: int) -> Outcome:
    history = History(ground.admin, NAMESPACE)
    every_s = (lasts_s + BEFORE_AND_AFTER_S) / pods
    arrivals = Arrivals(ground.admin, NAMESPACE, lambda number: pod_of(ground.tape, number), pods, every_s)
    history.start()
    arrivals.start()
    try:
        _recovery_s(ground, history, lambda: True, time.time())  # it works before it is broken
        with fault.happen(ground, lasts_s) as recovered:
            recovery_s = _recovery_s(ground, history, recovered, time.time())
            names = arrivals.enough()
            _wait_until_bound(history, names)
    finally:
        arrivals.enough()
        history.stop()
    return _outcome(ground, fault.name, lasts_s, recovery_s, arrivals, history)


def _recovery_s(ground: ProvingGround, history: History, recovered: Recovered, since_s: float) -> float:
    """Until a pod that the policy decided about since then is bound; ``since_s`` in unix seconds."""

    def look() -> bool:
        fresh = [each for each in ground.decisions(20) if each["at_s"] > since_s and each["source"] == POLICY]
        return any(each["name"] in history.bound() for each in fresh) and recovered()

    eventually(look, "a pod bound by the policy's decision", RECOVERED_WITHIN_S, every_s=0.05)
    return time.time() - since_s


def _wait_until_bound(history: History, names: list[str]) -> None:
    until_s = time.monotonic() + BOUND_WITHIN_S
    while set(names) - history.bound().keys() and time.monotonic() < until_s:
        time.sleep(0.1)


def _outcome(
    ground: ProvingGround, fault: str, lasts_s: float, recovery_s: float, arrivals: Arrivals, history: History
) -> Outcome:
    bound, created_at_s = history.bound(), arrivals.created_at_s
    pending_s = [pod.bound_at_s - created_at_s[name] for name, pod in bound.items()]
    decided = Counter(each["source"] for each in ground.decisions(1000) if each["uid"] in history.pods)
    return Outcome(
        fault,
        lasts_s,
        len(created_at_s),
        len(created_at_s.keys() - bound.keys()),
        _bound_twice(ground, history.pods),
        tuple(pod.misplaced for pod in bound.values() if pod.misplaced),
        recovery_s,
        max(pending_s, default=float("nan")),
        dict(decided.most_common()),
    )


def _bound_twice(ground: ProvingGround, pods: dict[str, PodStory]) -> int:
    """By what the watch showed, and by what kube-scheduler said it did."""
    events = ground.admin.get(f"/api/v1/namespaces/{NAMESPACE}/events", fieldSelector="reason=Scheduled")["items"]
    said = Counter(event["involvedObject"]["uid"] for event in events)
    return sum(len(pod.nodes) > 1 or said[uid] > 1 for uid, pod in pods.items())

"""``pilotfish shadow-report``: what Pilotfish would have chosen against what the scheduler chose, from a recording."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import typer

from agent.errors import InputError
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import Bound, Decision, Header, Nodes, NodeSpec, Record
from training.shadow_costs import Row, fullest, usd_per_hour

INTERVALS = 24  # of time, over the whole recording
Z95 = 1.96

COLUMNS = {"pods": 7, "agree": 7, "ours $/h": 10, "theirs $/h": 10, "ours-theirs (95 %)": 28, "fullest": 13}

CAVEAT = (
    "Predicted from what was known at each decision, by one fixed formula for both sides (docs/decisions.md); "
    "nothing of it was measured."
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One pod: our choice and the node it got. The figures are None where features are missing."""

    at_s: float
    source: str
    mode: str
    agreed: bool
    ours_usd: float | None = None
    theirs_usd: float | None = None
    ours_fullest: float | None = None
    theirs_fullest: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Means over some pods; costs in dollars per hour of a pod, over the pods that have features."""

    pods: int
    agreement: float
    compared: int
    ours_usd: float | None
    theirs_usd: float | None
    difference_usd: float | None  # ours minus theirs: below 0 ours is cheaper
    ci95_usd: tuple[float, float] | None
    ours_fullest: float | None
    theirs_fullest: float | None

    @classmethod
    def of(cls, pods: list[Compared]) -> Comparison:
        agreement = float(np.mean([pod.agreed for pod in pods])) if pods else 0.0
        figures = [(pod.ours_usd, pod.theirs_usd, pod.ours_fullest, pod.theirs_fullest) for pod in pods]
        known = np.array([row for row in figures if None not in row], dtype=np.float64).reshape(-1, 4)
        if not len(known):
            return cls(len(pods), agreement, 0, None, None, None, None, None, None)
        ours, theirs, our_ratio, their_ratio = known.mean(axis=0).tolist()
        differences = known[:, 0] - known[:, 1]
        half = Z95 * float(differences.std(ddof=1)) / np.sqrt(len(known)) if len(known) > 1 else float("nan")
        middle = float(differences.mean())
        ci95 = (middle - half, middle + half) if np.isfinite(half) else None
        return cls(len(pods), agreement, len(known), ours, theirs, middle, ci95, our_ratio, their_ratio)


@dataclass(frozen=True, slots=True)
class ShadowReport:
    recording: str
    decided: int  # pods
    never_bound: int
    all: Comparison
    by_source: dict[str, Comparison]
    by_mode: dict[str, Comparison]
    over_time: list[tuple[float, Comparison]]  # unix seconds of the beginning of each interval
    caveat: str = CAVEAT


@dataclass(slots=True)
class _Reader:
    names: tuple[str, ...] = ()
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    open: dict[str, Decision] = field(default_factory=dict)  # decided, not yet bound
    decided: int = 0

    def compared(self, records: Iterable[Record]) -> Iterator[Compared]:
        for record in records:
            match record:
                case Header() | Nodes():
                    self.nodes |= {node.name: node for node in record.nodes}
                    self.names = record.node_features if isinstance(record, Header) else self.names
                case Decision() if record.chosen is not None:
                    self.decided += record.pod_uid not in self.open  # asked again: it had not been bound
                    self.open[record.pod_uid] = record
                case Bound() if record.pod_uid in self.open:
                    yield self._compare(self.open.pop(record.pod_uid), record)

    def _compare(self, decision: Decision, bound: Bound) -> Compared:
        chosen = decision.chosen or ""
        ours, theirs = self._row(decision, chosen), self._row(decision, bound.node, bound.features)
        figures: dict[str, float] = {}
        if ours is not None and theirs is not None:
            figures = {
                "ours_usd": usd_per_hour(ours, self.nodes.get(chosen), decision.demand),
                "theirs_usd": usd_per_hour(theirs, self.nodes.get(bound.node), decision.demand),
                "ours_fullest": fullest(ours),
                "theirs_fullest": fullest(theirs),
            }
        return Compared(decision.at_s, decision.source, decision.mode, chosen == bound.node, **figures)

    def _row(self, decision: Decision, node: str, features: tuple[float, ...] = ()) -> Row | None:
        if node in decision.feature_nodes:
            features = decision.node_features[decision.feature_nodes.index(node)]
        return dict(zip(self.names, features, strict=True)) if len(features) == len(self.names) > 0 else None


def report_of(recording: Path, skip_bad: bool = False) -> ShadowReport:
    reader = _Reader()
    pods = list(reader.compared(read_recording(recording, skip_bad)))
    if not pods:
        why = f"{reader.decided} pods were decided and none was bound" if reader.decided else "no pod was decided"
        raise InputError(f"{recording}: nothing to compare: {why}")
    return ShadowReport(
        recording=recording.name,
        decided=reader.decided,
        never_bound=len(reader.open),
        all=Comparison.of(pods),
        by_source=_by(pods, "source"),
        by_mode=_by(pods, "mode"),
        over_time=_over_time(pods),
    )


def _by(pods: list[Compared], name: str) -> dict[str, Comparison]:
    values = sorted({getattr(pod, name) for pod in pods})
    return {value: Comparison.of([pod for pod in pods if getattr(pod, name) == value]) for value in values}


def _over_time(pods: list[Compared]) -> list[tuple[float, Comparison]]:
    first, last = min(pod.at_s for pod in pods), max(pod.at_s for pod in pods)
    width_s = max((last - first) / INTERVALS, 1e-9)
    groups: dict[int, list[Compared]] = {}
    for pod in pods:
        groups.setdefault(min(int((pod.at_s - first) / width_s), INTERVALS - 1), []).append(pod)
    return [(first + index * width_s, Comparison.of(groups[index])) for index in sorted(groups)]


def as_text(report: ShadowReport) -> str:
    rows = [("all", report.all)]
    rows += [(f"source {name}", each) for name, each in report.by_source.items()]
    rows += [(f"mode {name}", each) for name, each in report.by_mode.items()]
    header = " ".join([" " * 28, *(f"{name:>{width}}" for name, width in COLUMNS.items())])
    head = f"{report.recording}: {report.decided} pods decided, {report.never_bound} not bound"
    return "\n".join([head, header, *(_line(name, each) for name, each in rows), report.caveat])


def _line(name: str, each: Comparison) -> str:
    line = f"{name:28} {each.pods:7d} {each.agreement:7.1%}"
    if each.difference_usd is None:
        return f"{line} {'no features recorded':>30}"
    low, high = each.ci95_usd or (float("nan"), float("nan"))
    difference = f"{each.difference_usd:+.5f} ({low:+.5f} {high:+.5f})"
    return (
        f"{line} {each.ours_usd:10.5f} {each.theirs_usd:10.5f} {difference:>28}"
        f" {each.ours_fullest:6.3f} {each.theirs_fullest:6.3f}"
    )


def run(recording: Path, as_json: bool = False, plot: Path | None = None, skip_bad: bool = False) -> None:
    report = report_of(recording, skip_bad)
    if plot is not None:
        from training.shadow_plot import draw

        draw(report, plot)
    typer.echo(json.dumps(asdict(report)) if as_json else as_text(report))

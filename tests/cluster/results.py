"""What a long run measured, kept in docs/benchmarks/: dated lines of JSON with the commit, and a page made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import DOCS, Origin
from tests.cluster.api import Object


@dataclass(frozen=True)
class Page:
    name: str  # of the make target and of the files
    title: str
    words: str
    columns: Mapping[str, str]  # a field of a row, and its heading


FAULTS = Page(
    "faults",
    "Faults, and how soon all was well again",
    "Each with 200 pods and more under arrival on the real control plane, 20 nodes. Recovery: from the end of the "
    "fault (for a kill, from the kill) until a pod is bound that the policy decided about. Wrong: pods unbound, bound "
    "twice, or on a node that was no place for them.",
    {
        "fault": "fault",
        "lasted_s": "lasted, s",
        "pods": "pods",
        "wrong": "wrong",
        "recovery_s": "recovery, s",
        "longest_pending_s": "longest pending, s",
        "decided_by": "decided by",
    },
)

MATRIX = Page(
    "test-matrix",
    "Versions of kube-scheduler",
    "The tests of tests/cluster/test_sidecar.py with each; the rest of the control plane is the same.",
    {"version": "kube-scheduler", "tests": "tests", "passed": "passed"},
)
SOAK = Page(
    "soak",
    "Pods created and deleted for a long time",
    "Of the sidecar's process: what it had in the second quarter of the time, when it was warm, and in the last one.",
    {
        "minutes": "minutes",
        "nodes": "nodes",
        "pods": "pods",
        "policy_share": "by the policy",
        "memory_mb": "memory, MB",
        "memory_growth_mb": "growth, MB",
        "descriptors": "file descriptors",
        "threads": "threads",
        "most_assumed": "most assumed",
        "assumed_left": "assumed in the end",
    },
)


def keep(page: Page, rows: Sequence[Object], began: Origin, docs: Path = DOCS) -> None:
    """``began``: the origin as it was when the run began; half an hour later the tree may be another."""
    folder = docs / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    lines = folder / f"{began.date}-{page.name}.jsonl"
    lines.write_text("".join(json.dumps(asdict(began) | row) + "\n" for row in rows), encoding="utf-8")
    (folder / f"{page.name}.md").write_text(_text(page, began, rows, lines), encoding="utf-8")


def _text(page: Page, began: Origin, rows: Sequence[Object], lines: Path) -> str:
    head = [
        f"# {page.title}",
        "",
        f"Written by `make {page.name}`: {began}; [{lines.name}]({lines.name}) has every number.",
        page.words,
        "",
        f"| {' | '.join(page.columns.values())} |",
        "|---" * len(page.columns) + "|",
    ]
    table = [f"| {' | '.join(_cell(row[column]) for column in page.columns)} |" for row in rows]
    return "\n".join([*head, *table, ""])


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)

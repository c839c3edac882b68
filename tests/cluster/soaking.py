"""The sidecar's process over a long time: what it holds at each look, and what that says in the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from tests.cluster.api import Object
from tests.cluster.churning import Churn
from tests.cluster.sidecar import Sidecar

LOOKS = 60


@dataclass(frozen=True)
class Look:
    at_s: float
    memory_mb: float
    descriptors: int
    threads: int
    assumed: int
    pods: int  # that the sidecar knows on the nodes


def look_at(sidecar: Sidecar, at_s: float) -> Look:
    state = sidecar.state()
    process = Path(f"/proc/{sidecar.daemon.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return Look(
        at_s,
        int(status["VmRSS"].split()[0]) / 1024,
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        int(state["assumed"]),
        int(sum(node["pods"] for node in state["nodes"])),
    )


def watch_over(sidecar: Sidecar, churn: Churn, lasts_s: float) -> list[Look]:
    began_s, looks = time.monotonic(), []
    while not churn.is_over():
        time.sleep(lasts_s / LOOKS)
        looks.append(look_at(sidecar, round(time.monotonic() - began_s, 1)))
    return looks


def summary_of(looks: Sequence[Look]) -> Object:
    """Held after the warm-up, and what was added to it by the end."""
    quarter = len(looks) // 4
    early, late = looks[quarter : 2 * quarter], looks[-quarter:]
    before_mb, after_mb = (mean(look.memory_mb for look in part) for part in (early, late))
    return {
        "memory_mb": round(after_mb, 1),
        "memory_growth_mb": round(after_mb - before_mb, 1),
        "descriptors": f"{max(look.descriptors for look in early)} to {max(look.descriptors for look in late)}",
        "threads": f"{max(look.threads for look in early)} to {max(look.threads for look in late)}",
        "descriptors_added": max(look.descriptors for look in late) - max(look.descriptors for look in early),
        "threads_added": max(look.threads for look in late) - max(look.threads for look in early),
        "most_assumed": max(look.assumed for look in looks),
        "most_assumed_beyond_pods": max(look.assumed - look.pods for look in looks),
    }

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

CREATED_SHARE = 0.99  # of the pods that were to be created
POLICY_SHARE = 0.9  # of the answers; the others: a busy machine, and a model that was given up in time
GROWTH_MB = 5.0


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


def faults_of(found: Object, planned_pods: int) -> list[str]:
    """Why a run proves nothing, or what it found wrong."""
    right = {
        f"{found['pods']} of {planned_pods} pods created": found["pods"] >= CREATED_SHARE * planned_pods > 0,
        f"{found['decisions']:.0f} decisions about {found['pods']} pods": found["decisions"] >= found["pods"],
        f"{found['policy_share']:.3f} of them by the policy": found["policy_share"] >= POLICY_SHARE,
        f"{found['memory_growth_mb']} MB of memory added": found["memory_growth_mb"] <= GROWTH_MB,
        # a scrape or a question that happens to be under way
        f"{found['descriptors_added']} file descriptors added": found["descriptors_added"] <= 2,
        # a pool that grows to its size; a leak would show with every pod
        f"{found['threads_added']} threads added": found["threads_added"] <= 2,
        # decided about, and not yet seen bound
        f"{found['most_assumed_beyond_pods']} pods assumed beyond": found["most_assumed_beyond_pods"] <= 100,
    }
    return [what for what, is_right in right.items() if not is_right]

"""``pilotfish benchmark scheduler``: pods a second of the real kube-scheduler, alone and with extenders beside it.

A whole control plane with KWOK nodes on this machine. Forms take turns, so that all meet the same noise, and medians
over the rounds count. The page with all numbers is docs/benchmarks/scheduler.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bars import Bar, measured
from benchmarks.control_plane import control_plane
from benchmarks.report import origin
from benchmarks.throughput.forms import CONSTANT, FORMS, FULL_NODES, NONE, POLICY
from benchmarks.throughput.measuring import NodePages, measured_nodes, wait_until_measured
from benchmarks.throughput.page import write_page
from benchmarks.throughput.rounds import Round, a_round, add_nodes, median_others_ms
from tests.cluster.apiserver import ApiServer

NAMESPACE = "throughput"
AGAINST_NONE_AT = 500


@dataclass(frozen=True)
class Size:
    nodes: int
    pods: int
    pods_with_full_nodes: int  # which take so much longer that fewer must do
    rounds: int = 3

    def pods_of(self, form: str) -> int:
        return self.pods_with_full_nodes if form == FULL_NODES else self.pods


SIZES = (Size(100, 1000, 150), Size(500, 1000, 60), Size(1000, 1000, 40), Size(5000, 600, 20))
QUICK = (Size(100, 200, 30, rounds=1),)


def run(quick: bool, traces: Path | None = None) -> Iterator[Bar]:
    began = origin()
    rounds: list[Round] = []
    for size, found in measure(QUICK, scrape_every_s=1.0) if quick else measure(SIZES):
        rounds += found
        yield from bars(size.nodes, found)
    if not quick:
        write_page(rounds, began)


def measure(sizes: Sequence[Size], scrape_every_s: float = 5.0) -> Iterator[tuple[Size, list[Round]]]:
    """The rounds of each size, on a cluster that grows from one to the next."""
    names: list[str] = []
    pages = NodePages(names)
    with (
        control_plane(heartbeats=False) as cluster,
        measured_nodes(cluster.processes, pages, scrape_every_s) as prometheus,
    ):
        cluster.create_namespace(NAMESPACE)
        for size in sizes:
            new = [f"node-{index:05}" for index in range(len(names), size.nodes)]
            add_nodes(cluster, new)
            names += new
            wait_until_measured(prometheus, pages)
            yield size, _rounds(cluster, size, prometheus.url)


def _rounds(cluster: ApiServer, size: Size, prometheus: str) -> list[Round]:
    return [
        a_round(cluster, NAMESPACE, size.nodes, form, size.pods_of(form), prometheus)
        for _ in range(size.rounds)
        for form in FORMS
    ]


def bars(nodes: int, rounds: Sequence[Round]) -> Iterator[Bar]:
    by_form = {form: [each for each in rounds if each.form == form] for form in FORMS}
    speed = {form: median(each.pods_per_s for each in same) for form, same in by_form.items()}
    running = {form: median(each.running_per_s for each in same) for form, same in by_form.items()}
    beside = _beside(rounds) | {_key(form): round(speed[form], 1) for form in FORMS}
    beside |= {f"{_key(form)}_until_running": round(running[form], 1) for form in FORMS}
    beside["forms"] = {_key(form): _in_full(same) for form, same in by_form.items()}
    yield measured(f"policy_over_constant_{nodes}_nodes", speed[POLICY] / speed[CONSTANT], **beside)
    if nodes == AGAINST_NONE_AT:
        yield measured(f"policy_over_no_extender_{nodes}_nodes", speed[POLICY] / speed[NONE], **beside)


def _beside(rounds: Sequence[Round]) -> dict[str, Any]:
    ours = [each for each in rounds if each.form == POLICY]
    return {
        "candidates": median(each.candidates or 0 for each in ours),
        "policy_share": round(min(each.policy_share or 0.0 for each in ours), 3),
        "pods": ours[0].pods,
        "rounds": len(ours),
    }


def _in_full(same: Sequence[Round]) -> dict[str, Any]:
    """All that was measured of one form: medians of what a pod takes, and every round by itself."""
    spent = {
        "algorithm_ms": median(each.algorithm_ms for each in same),
        "scheduler_cpu_ms": median(each.scheduler_cpu_ms for each in same),
        "extender_cpu_ms": median(each.beside_cpu_ms for each in same),
        "left_share": median(each.left_share for each in same),
    }
    return {
        **_rounded(spent),
        "others_cpu_ms": _rounded(median_others_ms(same)),
        "rounds": [asdict(each) for each in same],
    }


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 3) for name, number in numbers.items()}


def _key(form: str) -> str:
    return form.replace(", ", "_").replace(" ", "_")

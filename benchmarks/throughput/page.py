"""docs/benchmarks/scheduler.md: every number of the newest full run, and a plot of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.report import Origin
from benchmarks.throughput.forms import FORMS
from benchmarks.throughput.rounds import Round, median_others_ms

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
PLOT = "scheduler.png"
LEAST_SHOWN_MS = 0.05
HEAD = (
    *("nodes", "form", "pods/s (each round)", "pods/s until the last runs", "left for later"),
    "ms a pod until its node is chosen",
    *("CPU ms a pod: kube-scheduler", "extender", "the others", "of them", "candidates"),
)
ABOUT = """# kube-scheduler's throughput

Written by `pilotfish benchmark scheduler`: {origin}; see [extender.md](../extender.md) for what was found on the way.

Pods a second from the first binding to the last, as a watch of the API server shows them; and from the first binding
until the last pod runs, because the faster a form binds, the more of what follows a binding it leaves for later (*left
for later*: the share of the pods that did not run yet when the last one was bound). The pods wait before kube-scheduler
starts. All parts share the cores of one machine: etcd, kube-apiserver, kube-controller-manager,
kube-scheduler 1.35.4 (client QPS raised to 1,000, `percentageOfNodesToScore` at its default), KWOK (heartbeats every
five minutes, as a kubelet's), Prometheus and the sidecar, which watches the cluster and reads Prometheus meanwhile. The
constant extender parses and emits the same names for the same verbs and knows no cluster; the late one waits before it
ranks, and computes nothing meanwhile. *Rank only*: by `pilotfish scheduler-config --rank-only`, one call a pod instead
of two. Medians over the rounds, which take turns.

CPU columns are of the time until the last binding. What a pod costs there is no constant of the parts: where
kube-scheduler waits longer, every other part takes more CPU for the same requests. The late extender shows it.

![pods a second by the number of nodes](scheduler.png)

"""


def write_page(rounds: Sequence[Round], began: Origin, folder: Path = FOLDER) -> Path:
    page = folder / "scheduler.md"
    page.write_text(ABOUT.format(origin=began) + "\n".join(_table(rounds)) + "\n", encoding="utf-8")
    _plot(rounds, folder / PLOT)
    return page


def _table(rounds: Sequence[Round]) -> list[str]:
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    sizes = dict.fromkeys(each.nodes for each in rounds)
    pairs = [(nodes, form) for nodes in sizes for form in FORMS]
    return lines + [_row([each for each in rounds if (each.nodes, each.form) == pair]) for pair in pairs]


def _row(same: Sequence[Round]) -> str:
    def middle(name: str) -> str:
        known = [value for value in (getattr(each, name) for each in same) if value is not None]
        return f"{median(known):.3g}" if known else ""

    each_round = ", ".join(f"{each.pods_per_s:.0f}" for each in same)
    speed = f"**{median(each.pods_per_s for each in same):.0f}** ({each_round})"
    left = f"{median(each.left_share for each in same):.0%}"
    figures = [middle("running_per_s"), left]
    figures += [middle(name) for name in ("algorithm_ms", "scheduler_cpu_ms", "beside_cpu_ms")]
    figures += [*_of_others(same), middle("candidates")]
    return f"| {same[0].nodes:,} | {same[0].form} | {speed} | {' | '.join(figures)} |"


def _of_others(same: Sequence[Round]) -> tuple[str, str]:
    """What the rest of the cluster spent on a pod, in all and by name."""
    total = median(sum(each.others_cpu_ms.values()) for each in same)
    most_first = sorted(median_others_ms(same).items(), key=lambda item: -item[1])
    return f"{total:.3g}", ", ".join(f"{name} {ms:.2f}" for name, ms in most_first if ms >= LEAST_SHOWN_MS)


def _plot(rounds: Sequence[Round], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.0, 4.0))
    sizes = list(dict.fromkeys(each.nodes for each in rounds))
    for form in FORMS:
        speeds = [median(e.pods_per_s for e in rounds if (e.nodes, e.form) == (nodes, form)) for nodes in sizes]
        axes.plot(sizes, speeds, marker="o", label=form)
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="pods a second")
    axes.set_xticks(sizes, [f"{nodes:,}" for nodes in sizes])
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110, metadata={"Software": None})
    pyplot.close(figure)

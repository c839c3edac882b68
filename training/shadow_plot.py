"""A shadow report as a picture: agreement, predicted cost and the fullest resource over time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from agent.errors import InputError
from training.shadow_report import Comparison, ShadowReport

OURS, THEIRS = "tab:blue", "tab:orange"


def draw(report: ShadowReport, path: Path) -> None:
    figure, (agreement, cost, ratio) = plt.subplots(3, 1, figsize=(9, 8), sharex=True, layout="constrained")
    when: Any = [datetime.fromtimestamp(at_s, UTC) for at_s, _ in report.over_time]
    each = [comparison for _, comparison in report.over_time]
    agreement.plot(when, [100.0 * one.agreement for one in each], color="black", marker=".")
    agreement.set_ylim(0, 105)
    agreement.set_ylabel("agreement, %")
    agreed = f"{report.all.agreement:.1%} on the node we ranked first"
    agreement.set_title(f"{report.recording}: {report.all.pods} pods, {agreed}")
    _pair(cost, when, each, "usd", "predicted $/hour of a pod")
    _pair(ratio, when, each, "fullest", "fullest expected ratio")
    cost.legend()
    figure.supxlabel(report.caveat, fontsize=7)
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as why:
        raise InputError(f"{path}: the plot cannot be written: {why}") from why
    finally:
        plt.close(figure)


def _pair(axes: Axes, when: Any, each: list[Comparison], name: str, label: str) -> None:
    for side, colour, who in (("ours", OURS, "Pilotfish"), ("theirs", THEIRS, "the scheduler")):
        found = [getattr(one, f"{side}_{name}") for one in each]
        values = [float("nan") if value is None else value for value in found]
        axes.plot(when, values, color=colour, marker=".", label=who)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)

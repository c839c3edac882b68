"""The plots of the report, as SVG that can stand inside a page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from envs.dynamics.costs import TERMS
from training.comparison import Comparison, term_dollars
from training.sampling import BIN_WIDTH, BINS
from training.sweeps import Sweep

# Colours that people with colour blindness can tell apart (Okabe and Ito); the model has the strongest one.
MODEL_COLOUR = "#0072b2"
COLOURS = ("#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("s", "^", "D", "v", "P", "X")
TERM_COLOURS = dict(
    zip(
        TERMS,
        (
            *("#d62728", "#ff7f0e", "#8c564b", "#e377c2", "#7f0000"),
            *("#bcbd22", "#c7c7c7", "#9467bd", "#000000", "#2ca02c", "#1f77b4"),
        ),
        strict=True,
    )
)
MOST_BARS = 9
AT_CAPACITY = round(1.0 / BIN_WIDTH) - 1  # the bin that ends at the NIC's speed


def cost_by_term(comparison: Comparison) -> str:
    """Stacked bars of the cheapest policies; terms that nobody can see in them have no colour in the legend."""
    names = bars_of(comparison)
    values = np.array([term_dollars(comparison.outcomes[name]) for name in names])  # (policies, terms)
    figure, axes = _canvas(8.5, 0.9 + 0.32 * len(names))
    left = np.zeros(len(names))
    for index, term in enumerate(TERMS):
        seen = values[:, index].max() > 0.004 * values.sum(axis=1).max()
        label = term.replace("_", " ") if seen else None
        axes.barh(names, values[:, index], left=left, color=TERM_COLOURS[term], label=label, height=0.7)
        left += values[:, index]
    for place, total in enumerate(left):
        axes.text(total, place, f" {total:.2f}", va="center", fontsize=9)
    axes.set_xlim(0, left.max() * 1.12)
    axes.invert_yaxis()
    axes.set_xlabel("US dollars an hour")
    axes.set_title(f"{comparison.scenario}: cost by term")
    for text in axes.get_yticklabels():
        text.set_fontweight("bold" if text.get_text() == comparison.model else "normal")
    return _svg(figure, axes)


def bars_of(comparison: Comparison) -> list[str]:
    """The model, the cheapest others, and LeastAllocated, which everybody has."""
    ranked = comparison.ranked()
    chosen = {comparison.model, "least_allocated", *ranked[: MOST_BARS - 2]}
    return [name for name in ranked if name in chosen]


def nic_distribution(comparison: Comparison, names: Sequence[str]) -> str:
    """How much of their time nodes spend up to each load; right of 1 traffic is lost."""
    figure, axes = _canvas(8.5, 3.6)
    edges = (np.arange(BINS) + 1) * BIN_WIDTH
    style = styles(comparison.model, names)
    for name in names:
        sampled = comparison.outcomes[name].sampled
        if sampled is not None:
            share = 100.0 * sampled.nic_share_below()
            label = f"{name}: {100.0 - share[AT_CAPACITY]:.2f} % above 1"
            axes.plot(edges, share, label=label, **{**style[name], "marker": None})
    axes.axvline(1.0, color="#888888", linestyle=":", linewidth=1)
    axes.set_xlim(0, 1.5)
    axes.set_ylim(0, 101)
    axes.set_xlabel("offered load of the busier direction over NIC speed (above 1 traffic is lost)")
    axes.set_ylabel("% of node-time at or below")
    axes.set_title(f"{comparison.scenario}: NIC utilisation, cumulative")
    return _svg(figure, axes)


def along(sweep: Sweep, model: str) -> str:
    figure, axes = _canvas(8.5, 3.6)
    style = styles(model, [line.policy for line in sweep.lines])
    for line in sweep.lines:
        axes.errorbar(
            sweep.steps, line.mean, yerr=line.half_width_95, capsize=2, label=line.policy, **style[line.policy]
        )
    if max(sweep.steps) > 20 * max(min(sweep.steps), 1e-9) > 0.0 and min(sweep.steps) > 0:
        axes.set_xscale("log")
    axes.set_xticks(sweep.steps, [f"{step:g}" for step in sweep.steps])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(sweep.step_label)
    axes.set_ylabel(sweep.cost_label)
    axes.set_title(sweep.title)
    return _svg(figure, axes)


def styles(model: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    others = [name for name in names if name != model]
    found: dict[str, dict[str, Any]] = {
        name: {"color": COLOURS[place % 6], "marker": MARKERS[place % 6], "linewidth": 1.3, "markersize": 4}
        for place, name in enumerate(others)
    }
    return {model: {"color": MODEL_COLOUR, "marker": "o", "linewidth": 2.4, "markersize": 5, "zorder": 5}, **found}


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Figure, axes: Axes) -> str:
    """The legend stands beside the data, never on it."""
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": axes.get_title()}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]

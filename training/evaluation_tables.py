"""Comparisons on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from envs.dynamics.costs import TERMS
from training.comparison import Comparison, Difference, term_dollars
from training.statistics import half_width_95

WIDE = 132
SHORT = {
    "network_loss": "net",
    "cross_zone": "x-zone",
    "latency_violation": "latency",
    "cpu_throttling": "cpu",
    "memory_kills": "kills",
    "imbalance": "imbal.",
    "fragmentation": "fragm.",
    "pending_time": "pending",
    "failures": "failed",
    "energy": "energy",
    "money": "money",
}


def wide_console() -> Console:
    """Eleven terms need room: in a narrow terminal a line goes on below, but no number is cut."""
    found = Console()
    return found if found.width >= WIDE else Console(width=WIDE)


def show_comparison(comparison: Comparison, console: Console) -> None:
    console.print(_costs(comparison))
    console.print()
    console.print(_terms(comparison))
    console.print()
    console.print(verdict(comparison))
    console.print()


def _costs(comparison: Comparison) -> Table:
    episodes = len(comparison.outcomes[comparison.model].cost)
    table = _table(f"{comparison.scenario}: US dollars an hour, {episodes} episodes, 95 % intervals")
    for name in ("cost", f"{comparison.model} - this", "%"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in comparison.ranked():
        cost = comparison.outcomes[name].cost
        spread = half_width_95(cost)
        paired = ("", "") if name == comparison.model else difference_cells(comparison.to(name))
        cells = (f"{cost.mean():.2f}" + ("" if math.isnan(spread) else f" ± {spread:.2f}"), *paired)
        table.add_row(label(comparison, name), *cells, style="bold" if name == comparison.model else None)
    return table


def _terms(comparison: Comparison) -> Table:
    table = _table(f"{comparison.scenario}: the same by term")
    for term in TERMS:
        table.add_column(SHORT[term], justify="right", no_wrap=True)
    for name in comparison.ranked():
        cells = (f"{value:.3f}" if value < 100 else f"{value:.1f}" for value in term_dollars(comparison.outcomes[name]))
        table.add_row(label(comparison, name), *cells, style="bold" if name == comparison.model else None)
    return table


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("policy", no_wrap=True)
    return table


def label(comparison: Comparison, name: str) -> str:
    """The name, marked if nothing has to be proved against it."""
    beside = name != comparison.model and name not in comparison.baselines
    return f"{name} (beside)" if beside else name


def difference_cells(paired: Difference) -> tuple[str, str]:
    if math.isnan(paired.half_width_95):
        return f"{paired.mean:+.2f}", f"{paired.percent:+.1f}"
    return (
        f"{paired.mean:+.2f} ± {paired.half_width_95:.2f}",
        f"{paired.percent:+.1f} ± {paired.half_width_95_percent:.1f}",
    )


def verdict(comparison: Comparison) -> str:
    """One sentence, and no kinder than the numbers."""
    if not comparison.baselines:
        return f"{comparison.model}: nobody to compare with."
    best = comparison.best_baseline
    paired = comparison.to(best)
    _, percent = difference_cells(paired)
    if comparison.below_every_baseline:
        said = f"{comparison.model} is below every baseline; the best of them is {best} ({percent} %)."
    elif paired.model_is_cheaper:
        level = [name for name in comparison.baselines if not comparison.to(name).model_is_cheaper]
        said = f"{comparison.model} is below the best baseline {best} ({percent} %), but not surely below "
        said += f"{', '.join(level)}."
    elif paired.mean < 0:
        said = f"{comparison.model} is not surely below the best baseline {best} ({percent} %)."
    else:
        said = f"{comparison.model} does not beat {best} ({percent} %)."
    share = comparison.outcomes[comparison.model].answered_share
    return said if share is None else f"{said} The policy itself answered {share:.1%} of the decisions."


def show_summary(comparisons: Sequence[Comparison], console: Console) -> None:
    if len(comparisons) < 2:
        return
    table = Table("scenario", "model USD/h", "best baseline", "its USD/h", "difference %", "below all", title="Summary")
    for each in comparisons:
        if not each.baselines:
            continue
        best = each.best_baseline
        table.add_row(
            each.scenario,
            f"{each.outcomes[each.model].cost.mean():.2f}",
            best,
            f"{each.outcomes[best].cost.mean():.2f}",
            difference_cells(each.to(best))[1],
            "yes" if each.below_every_baseline else "no",
        )
    console.print(table)

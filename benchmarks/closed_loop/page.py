"""docs/benchmarks/cluster.md and its picture, from the results; the words around the tables stand in ``words.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from benchmarks.closed_loop.outcome import HARMS, OTHERS, Outcome, means, suffered, summed
from benchmarks.report import DOCS, Origin
from envs.workloads.tape import Tape
from tests.cluster.metering import Meter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = Path(__file__).with_name("words.md")
PAGE, PICTURE = "cluster.md", "cluster.png"
SMALL = 0.0025  # a share below this is not compared by its ratio: a quarter of a percent is as good as none


@dataclass(frozen=True, slots=True)
class Results:
    """Of every arm by its name, episode by episode; some arms play fewer episodes than others."""

    origin: Origin  # as it was when the run began
    arms: Mapping[str, str]
    real: Mapping[str, Sequence[Outcome]]
    simulated: Mapping[str, Sequence[Sequence[Outcome]]]  # each episode several times
    planned: Sequence[Meter]  # by the clairvoyant planner
    load_average: float

    @property
    def episodes(self) -> int:
        return len(self.planned)

    @property
    def planned_lost_share(self) -> float:
        return sum(each.lost_mbit for each in self.planned) / sum(each.offered_mbit for each in self.planned)

    def gaps(self, arm: str) -> dict[str, float]:
        """How far the simulator is off, as a share of the real loop's value (of SMALL where that is less)."""
        real, simulated = summed(self.real[arm]).harms, self.said(arm).harms
        return {name: abs(simulated[name] - real[name]) / max(real[name], SMALL) for name in HARMS}

    def said(self, arm: str) -> Outcome:
        """What the simulator says, over all times that it played."""
        return summed(outcome for often in self.simulated[arm] for outcome in often)

    def predicted(self, arm: str) -> dict[str, float]:
        """The same for a plot: no pod waits in the simulator, so there is nothing else to say."""
        return suffered(outcome for often in self.simulated[arm] for outcome in often)

    def chance(self, arm: str) -> dict[str, tuple[float, float]]:
        """Lowest and highest of what it says if it plays once: the real loop, too, is played once."""
        once = [summed(episodes).harms for episodes in zip(*self.simulated[arm], strict=True)]
        return {name: (min(each[name] for each in once), max(each[name] for each in once)) for name in HARMS}


def write_page(results: Results, tapes: Sequence[Tape], speed: float, scenario: str = "", docs: Path = DOCS) -> Path:
    """``scenario``: another one than the benchmark's own, in the name of the page."""
    folder = docs / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    page, picture = (folder / _named(name, scenario) for name in (PAGE, PICTURE))
    _draw(results, picture)
    words = Template(WORDS.read_text(encoding="utf-8"))
    annotated = sum(int((tape.pod_annotated_mbps == tape.pod_annotated_mbps).sum()) for tape in tapes)
    page.write_text(
        words.substitute(
            origin=results.origin,
            scenario=scenario or "bursts",
            nodes=tapes[0].node_slots,
            episodes=len(tapes),
            tape_s=f"{float(tapes[0].horizon_s):.0f}",
            speed=f"{speed:g}",
            pods=f"{summed(next(iter(results.real.values()))).arrived:,}",
            annotated=f"{annotated / sum(tape.pod_slots for tape in tapes):.0%}",
            planned=_percent(results.planned_lost_share),
            load=f"{results.load_average:.1f}",
            picture=picture.name,
            arms="\n".join(f"| `{name}` | {says} |" for name, says in results.arms.items()),
            harms="\n".join(_harm_rows(results)),
            by_episode="\n".join(_episode_rows(results)),
            scheduling="\n".join(_scheduling_rows(results)),
        ),
        encoding="utf-8",
    )
    return page


def _harm_rows(results: Results) -> Iterator[str]:
    """Real, what the simulator says, and the gap, for every harm."""
    for name, outcomes in results.real.items():
        real, said, gaps, chance = summed(outcomes), results.said(name).harms, results.gaps(name), results.chance(name)
        cells = [
            f"{_percent(real.harms[harm])} ({_percent(said[harm])}, {_between(chance[harm])}; {gaps[harm]:.0%})"
            for harm in HARMS
        ]
        yield f"| `{name}` | {len(outcomes)} | {real.meter.overload_s:,.0f} | {' | '.join(cells)} |"


def _episode_rows(results: Results) -> Iterator[str]:
    """Traffic lost in each episode: real, and what the simulator says."""
    head = [f"| arm | {' | '.join(f'episode {number + 1}' for number in range(results.episodes))} |"]
    yield from [*head, f"|---|{'---|' * results.episodes}"]
    for name, outcomes in results.real.items():
        pairs = zip(outcomes, results.simulated[name], strict=True)
        cells = [
            f"{_percent(real.meter.lost_share)} ({_percent(summed(said).meter.lost_share)})" for real, said in pairs
        ]
        cells += ["-"] * (results.episodes - len(cells))
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield f"| clairvoyant planner | {' | '.join(f'({_percent(each.lost_share)})' for each in results.planned)} |"


def _scheduling_rows(results: Results) -> Iterator[str]:
    for name, outcomes in results.real.items():
        real = summed(outcomes)
        pending = [f"{1000 * real.pending_percentile_s(percent):.0f}" for percent in (50, 99)]
        first = f"{real.first_choice_share:.1%}" if real.first_choices else "-"
        sources = ", ".join(f"{source} {count}" for source, count in real.sources.items()) or "-"
        yield f"| `{name}` | {' | '.join(pending)} | {real.pods_per_s:.1f} | {real.unbound} | {first} | {sources} |"


def _named(file: str, scenario: str) -> str:
    stem, _, kind = file.partition(".")
    return f"{stem}_{scenario}.{kind}" if scenario else file


def _between(bounds: tuple[float, float]) -> str:
    return " to ".join(f"{100 * bound:.2f}" for bound in bounds)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _draw(results: Results, path: Path) -> None:
    """A panel for all that is measured: a bar for each arm, and a mark where the simulator says it ends."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, rows = plt.subplots(2, len(HARMS), figsize=(15, 8), sharey=True, layout="constrained")
    titles = {harm: f"{says}, %" for harm, says in HARMS.items()} | OTHERS
    for panel, (name, title) in zip(rows.flat, titles.items(), strict=True):
        _fill(panel, results, name, 100.0 if name in HARMS else 1.0)
        panel.set_title(title)
    rows[0, 0].invert_yaxis()  # of all: they share it
    rows[0, -1].legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _fill(panel: Axes, results: Results, name: str, scale: float) -> None:
    real = {arm: scale * means(outcomes)[name] for arm, outcomes in results.real.items()}
    said = {arm: scale * results.predicted(arm).get(name, nan) for arm in real}
    panel.barh(list(real), list(real.values()), color="#4477aa", label="real loop")
    panel.plot(list(said.values()), list(said), "D", color="#cc3311", label="simulator")
    panel.grid(axis="x", alpha=0.3)
    panel.set_axisbelow(True)

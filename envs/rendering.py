"""One moment of a simulated cluster for the eye: a table in the terminal, or a picture.

Both show for every node the truth (bar) and what the sidecar believes (mark): the gap between them is what makes
scheduling hard. They read the truth, so they are for people, never for an agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agent.cluster import FloatArray
from envs.dynamics.world import World

BAR_CELLS = 12
BUSY_SHARE, FULL_SHARE = 0.8, 1.0
CALM, BUSY, OVERLOADED = "#4c9f70", "#e0a030", "#c8373b"
PICTURE_DPI = 80
MOST_SHOWN = 1.2  # of a capacity; more is drawn as this
MOST_LABELS = 40  # node names beyond this many would overlap


@dataclass(frozen=True, slots=True)
class Meter:
    """Use over capacity of one resource, (nodes,): offered, so above 1 where a node is overloaded; NaN: not known."""

    name: str
    true: FloatArray
    known: FloatArray


def meters(world: World) -> list[Meter]:
    tape, state, nodes = world.tape, world.state(), world.nodes
    loads = world.last_loads or world._loads()
    nic = tape.node_nic_mbps
    columns = [
        (
            "CPU",
            loads.cpu_millicores,
            state.cpu_used_millicores,
            tape.node_cpu_millicores,
            state.cpu_allocatable_millicores,
        ),
        ("memory", loads.memory_mib, state.memory_used_mib, tape.node_memory_mib, state.memory_allocatable_mib),
        (
            "NIC",
            np.maximum(loads.rx_mbps, loads.tx_mbps),
            np.maximum(state.rx_mbps, state.tx_mbps),
            nic,
            state.nic_mbps,
        ),
    ]
    return [
        Meter(name, true[:nodes] / capacity[:nodes], known[:nodes] / believed[:nodes])
        for name, true, known, capacity, believed in columns
    ]


def headline(world: World) -> str:
    waiting = len(world.waiting)
    return f"{world.clock_s:.0f} s   {len(world.running)} pods run   {waiting} wait   {world.decisions} decisions"


class Screen:
    """Shows worlds one after the other in the same place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: Live | None = None
        self._picture: Picture | None = None

    def show(self, world: World) -> None:
        """In the terminal; where output is no terminal, only the last moment is printed, on ``close``."""
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(node_table(world), refresh=True)

    def picture(self, world: World) -> NDArray[np.uint8]:
        if self._picture is None or self._picture.tape is not world.tape:
            self._picture = Picture(world)
        return self._picture.draw(world)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


# --- the table


def node_table(world: World) -> Table:
    table = Table(title=headline(world), caption="bar: true   ┃: known to the sidecar   »: candidate", box=None)
    table.add_column("", width=1)
    for name in ("node", "zone", "pods"):
        table.add_column(name, justify="right")
    shown = meters(world)
    for meter in shown:
        table.add_column(meter.name)
    table.add_column("age", justify="right")
    age_s = world.state().network_age_s
    for node in np.argsort(world.tape.node_zone[: world.nodes], kind="stable"):
        table.add_row(
            "»" if world.mask[node] else "",
            str(node),
            str(world.tape.node_zone[node]),
            _count(world, int(node)),
            *(bar(float(meter.true[node]), float(meter.known[node])) for meter in shown),
            f"{age_s[node]:.0f} s" if np.isfinite(age_s[node]) else "none",
        )
    return table


def _count(world: World, node: int) -> Text:
    pods = Text(f"{world.pods[node]:.0f}")
    return pods if world.schedulable[node] else Text("drained", style="dim")


def bar(true: float, known: float, cells: int = BAR_CELLS) -> Text:
    """A bar for the truth, a mark where the sidecar believes it to be, and the true share in numbers."""
    filled = min(round(true * cells), cells)
    text = Text("█" * filled + "·" * (cells - filled), style=colour(true))
    if np.isfinite(known):
        at = min(int(known * cells), cells - 1)
        text = text[:at] + Text("┃", style="bold") + text[at + 1 :]
    return text + Text(f" {true:4.0%}", style=colour(true) if true > BUSY_SHARE else "")


def colour(share: float) -> str:
    return OVERLOADED if share > FULL_SHARE else BUSY if share > BUSY_SHARE else CALM


# --- the picture


class Picture:
    """A panel for each resource, a row for each node, zone by zone. What stays is drawn once, what moves each time."""

    def __init__(self, world: World) -> None:
        self.tape = world.tape
        self._order = np.argsort(world.tape.node_zone[: world.nodes], kind="stable")
        height = 1.6 + 0.24 * min(world.nodes, MOST_LABELS)
        self._figure = Figure(figsize=(11, height), dpi=PICTURE_DPI, layout="constrained")
        self._canvas = _canvas_of(self._figure)
        self._headline = self._figure.suptitle(headline(world), fontsize=11, animated=True)
        self._figure.supxlabel("bar: true    mark: known to the sidecar", fontsize=9)
        self._panels = self._figure.subplots(1, 3, sharey=True)
        rows = np.arange(world.nodes)
        shown = zip(self._panels, meters(world), strict=True)
        self._moving = [_prepare(panel, meter.name, rows) for panel, meter in shown]
        _label_nodes(self._panels[0], world.tape.node_zone, self._order)
        self._canvas.draw()
        self._still = self._canvas.copy_from_bbox(self._figure.bbox)

    def draw(self, world: World) -> NDArray[np.uint8]:
        """(height, width, 3)"""
        self._canvas.restore_region(self._still)
        for panel, (bars, marks), meter in zip(self._panels, self._moving, meters(world), strict=True):
            for patch, share in zip(bars, meter.true[self._order], strict=True):
                patch.set_width(min(share, MOST_SHOWN))
                patch.set_facecolor(colour(share))
                panel.draw_artist(patch)
            marks.set_xdata(np.minimum(meter.known[self._order], MOST_SHOWN))
            panel.draw_artist(marks)
        self._headline.set_text(headline(world))
        self._figure.draw_artist(self._headline)
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()


def _canvas_of(figure: Figure) -> Any:  # matplotlib's canvas has no types
    return FigureCanvasAgg(figure)


def _prepare(panel: Any, name: str, rows: NDArray[np.int64]) -> tuple[Any, Any]:
    """The still parts of a panel, and the bars and marks that will move."""
    nothing = np.zeros(len(rows))
    bars = panel.barh(rows, nothing, height=0.8, animated=True)
    (marks,) = panel.plot(nothing, rows, "|", markersize=9, markeredgewidth=2, color="black", animated=True)
    panel.axvline(FULL_SHARE, color="0.3", linewidth=0.8, linestyle="--")
    panel.set_xlim(0, 1.05 * MOST_SHOWN)
    panel.set_xticks([0, 0.5, 1.0], ["0", "50 %", "100 %"])
    panel.set_title(name, fontsize=10)
    panel.spines[["top", "right"]].set_visible(False)
    return bars, marks


def _label_nodes(panel: Any, zone: NDArray[np.int64], order: NDArray[np.int64]) -> None:
    panel.set_ylim(len(order) - 0.5, -0.5)
    every = -(-len(order) // MOST_LABELS)
    labels = [f"{node} z{zone[node]}" for node in order[::every]]
    panel.set_yticks(np.arange(len(order))[::every], labels, fontsize=8)
    panel.set_ylabel("node, zone")

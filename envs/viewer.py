"""An episode as one picture: every node over time, where pods went, what was overloaded, and what it cost.

``record_episode`` plays a tape with a scorer and keeps what is needed; ``draw_episode`` draws it. Two policies on one
tape saw the same arrivals, so their pictures can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from agent.cluster import BoolArray, FloatArray, IntArray
from agent.errors import InputError
from agent.features import STALE_AFTER_S
from agent.scorer import Scorer, held_scores
from envs.dynamics.costs import TERMS
from envs.dynamics.world import Loads, World
from envs.rewards import dollars
from envs.watched_world import WatchedWorld
from envs.workloads.tape import Tape

RESOURCES = ("CPU", "memory", "NIC")
FORMATS = (".pdf", ".png", ".svg")
OVERLOAD_COLOUR = "#d7263d"
AWAY_COLOUR = "#b8b8b8"
MOST_MARKS = 1500  # placements beyond this many would cover what is below them
SMALL_SHARE = 0.01  # of the whole cost: terms below it share one colour
OVER = 2.0  # beyond the scale of the colours: drawn as overloaded
MOST_COLUMNS = 600  # of the heat maps


@dataclass(frozen=True, slots=True)
class EpisodeFrames:
    """One episode: use over capacity at every tick, and the placements and costs at every decision."""

    title: str
    zone: IntArray  # (nodes,)
    time_s: FloatArray  # (ticks,)
    share: FloatArray  # (RESOURCES, ticks, nodes): offered, so above 1 where overloaded
    schedulable: BoolArray  # (ticks, nodes)
    decided_at_s: FloatArray  # (decisions,)
    bound_node: IntArray  # (decisions,)
    cost_at_s: FloatArray  # (decisions,): the end of the time that the decision's costs cover
    cost_usd: FloatArray  # (decisions, terms)

    @property
    def total_usd(self) -> float:
        return float(self.cost_usd.sum())

    def overloaded_node_s(self) -> FloatArray:
        """Node-seconds above capacity, for each resource."""
        tick_s = float(np.diff(self.time_s).mean()) if len(self.time_s) > 1 else 0.0
        return np.asarray((self.share > 1.0).sum(axis=(1, 2)) * tick_s)


class RecordedWorld(WatchedWorld):
    """A World that keeps the loads of every tick, and every placement."""

    def __init__(self, tape: Tape, assume: bool = True) -> None:
        self.time_s: list[float] = []
        self.shares: list[FloatArray] = []
        self.open: list[BoolArray] = []
        self.placed: list[tuple[float, int]] = []
        super().__init__(tape, assume)

    def _account(self, loads: Loads) -> None:
        super()._account(loads)
        tape, nodes = self.tape, slice(self.nodes)
        busiest_mbps = np.maximum(loads.rx_mbps, loads.tx_mbps)
        used = np.stack([loads.cpu_millicores[nodes], loads.memory_mib[nodes], busiest_mbps[nodes]])
        capacity = np.stack([tape.node_cpu_millicores[nodes], tape.node_memory_mib[nodes], tape.node_nic_mbps[nodes]])
        self.time_s.append(self.clock_s)
        self.shares.append(used / capacity)
        self.open.append(self.schedulable[nodes].copy())

    def _decide(self, node: int) -> None:
        super()._decide(node)
        self.placed.append((self.clock_s, self.bound_node))


# --- recording


def best_node(scorer: Scorer, world: World, rng: np.random.Generator) -> int:
    """The candidate with the highest score, one at random among equals; nodes without metrics are held neutral."""
    candidates = world.candidates()
    values = held_scores(scorer, world.state(), world.demand(), candidates, STALE_AFTER_S)
    allowed = np.where(candidates, values, -np.inf)
    return int(rng.choice(np.flatnonzero(candidates & (allowed >= allowed.max()))))


def record_episode(
    tape: Tape,
    scorer: Scorer,
    title: str = "",
    seed: int = 0,
    assume: bool = True,
    progress: Callable[[float], None] | None = None,
) -> EpisodeFrames:
    """Play the tape to its end; the seed tells equal scores apart, ``progress`` is told the share that is done."""
    world, rng = RecordedWorld(tape, assume), np.random.default_rng(seed)
    cost_at_s, terms = [], []
    while not world.done:
        terms.append(world.step(best_node(scorer, world, rng)))
        cost_at_s.append(world.clock_s)
        if progress is not None:
            progress(world.clock_s / float(tape.horizon_s))
    if not terms:
        raise InputError("no pod of this tape waits for a decision before its horizon: there is nothing to record")
    placed = np.array(world.placed)
    return EpisodeFrames(
        title=title or scorer.name,
        zone=np.asarray(tape.node_zone[: world.nodes], dtype=np.int64),
        time_s=np.array(world.time_s),
        share=np.stack(world.shares, axis=1),
        schedulable=np.stack(world.open),
        decided_at_s=placed[:, 0],
        bound_node=placed[:, 1].astype(np.int64),
        cost_at_s=np.array(cost_at_s),
        cost_usd=dollars(np.array(terms)),
    )


# --- drawing


def draw_episode(frames: EpisodeFrames, path: Path) -> None:
    """Write the picture; the file's ending says in which format."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"cannot draw to {path.name!r}: the name must end with one of {', '.join(FORMATS)}")
    figure_of(frames).savefig(path, dpi=110)


def figure_of(frames: EpisodeFrames) -> Figure:
    nodes = len(frames.zone)
    rows = float(np.clip(0.11 * nodes, 1.3, 3.2))
    figure = Figure(figsize=(13, 3 * rows + 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_headline(frames), fontsize=12)
    heights = [rows, rows, rows, 2.4]
    panels = figure.subplots(4, 1, sharex=True, gridspec_kw={"height_ratios": heights})
    order = np.argsort(frames.zone, kind="stable")
    for index, panel in enumerate(panels[:3]):
        heat = _draw_shares(panel, frames, index, order)
    scale = figure.colorbar(heat, ax=list(panels[:3]), extend="max", aspect=40, pad=0.01)
    scale.set_label("use over capacity, red: overloaded, grey: under maintenance")
    _draw_costs(panels[3], frames)
    return figure


def _headline(frames: EpisodeFrames) -> str:
    overloaded = (f"{name} {seconds:.0f}" for name, seconds in zip(RESOURCES, frames.overloaded_node_s(), strict=True))
    placed, total_usd = len(frames.bound_node), frames.total_usd
    return f"{frames.title}: {placed} placements, {total_usd:.3g} $; overloaded node-seconds: {', '.join(overloaded)}"


def _draw_shares(panel: Any, frames: EpisodeFrames, index: int, order: IntArray) -> Any:
    colours = colormaps["YlGnBu"].with_extremes(over=OVERLOAD_COLOUR, bad=AWAY_COLOUR)
    cells = _columns(frames.share[index], frames.schedulable)[:, order].T
    extent = (frames.time_s[0], frames.cost_at_s[-1], len(order) - 0.5, -0.5)
    scale = {"vmin": 0.0, "vmax": 1.0, "cmap": colours}
    heat = panel.imshow(cells, extent=extent, aspect="auto", interpolation="nearest", **scale)
    _draw_placements(panel, frames, order)
    _label_zones(panel, frames.zone[order])
    panel.set_title(f"{RESOURCES[index]}: a row for each node, a dot for each placement", fontsize=10, loc="left")
    return heat


def _columns(share: FloatArray, schedulable: BoolArray) -> FloatArray:
    """Mean use in each column of pixels; a single overloaded tick colours its whole column, so that none is lost."""
    first = np.linspace(0, len(share), min(len(share), MOST_COLUMNS), endpoint=False).astype(np.int64)
    ticks = np.diff(first, append=len(share))[:, None]
    mean = np.add.reduceat(share, first) / ticks
    cells = np.where(np.maximum.reduceat(share, first) > 1.0, OVER, np.minimum(mean, 1.0))
    return np.where(np.logical_and.reduceat(schedulable, first), cells, np.nan)


def _draw_placements(panel: Any, frames: EpisodeFrames, order: IntArray) -> None:
    row = np.empty(len(order), dtype=np.int64)
    row[order] = np.arange(len(order))
    every = max(len(frames.bound_node) // MOST_MARKS, 1)
    at_s, rows = frames.decided_at_s[::every], row[frames.bound_node[::every]]
    panel.plot(at_s, rows, linestyle="none", marker="o", markersize=2.2, markeredgewidth=0, color="black", alpha=0.8)


def _label_zones(panel: Any, zone: IntArray) -> None:
    borders = np.flatnonzero(np.diff(zone)) + 1
    starts = np.concatenate([[0], borders, [len(zone)]])
    for border in borders:
        panel.axhline(border - 0.5, color="black", linewidth=1.0)
    panel.set_yticks((starts[:-1] + starts[1:] - 1) / 2.0, [f"zone {zone[start]}" for start in starts[:-1]])
    panel.tick_params(axis="y", length=0)


def _draw_costs(panel: Any, frames: EpisodeFrames) -> None:
    """Dollars so far, the dearest term at the bottom, small ones in one layer; a term keeps its colour everywhere."""
    names = list(TERMS)
    at_s = np.concatenate([frames.decided_at_s[:1], frames.cost_at_s])
    so_far = np.concatenate([np.zeros((1, len(TERMS))), frames.cost_usd.cumsum(axis=0)])
    total_usd = so_far[-1]
    large = [index for index in np.argsort(-total_usd) if total_usd[index] > SMALL_SHARE * frames.total_usd]
    small = [index for index in range(len(TERMS)) if index not in large and total_usd[index] > 0]
    layers = [so_far[:, index] for index in large] + [so_far[:, small].sum(axis=1)]
    labels = [f"{names[index]}: {total_usd[index]:.3g} $" for index in large]
    labels.append(f"{len(small)} others: {total_usd[small].sum():.3g} $")
    colours = [colormaps["tab20"](index) for index in large] + ["black"]
    panel.stackplot(at_s, *layers, labels=labels, colors=colours)
    panel.set_xlim(frames.time_s[0], frames.cost_at_s[-1])
    panel.set_ylabel("cost so far, $")
    panel.set_xlabel("seconds")
    panel.spines[["top", "right"]].set_visible(False)
    handles, texts = panel.get_legend_handles_labels()
    panel.legend(handles[::-1], texts[::-1], loc="upper left", fontsize=9, frameon=False)

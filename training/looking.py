"""What the notebooks show: a policy by its name, explanations as a picture, costs side by side."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.explain import Explanation
from agent.features import encode
from agent.heuristics.expected_utilisation import ExpectedUtilisation
from agent.heuristics.registry import scorer_by_name
from agent.scorer import Scorer
from models.onnx_scorer import OnnxScorer
from training.contestants import DEFAULT_FOLDER, RELEASED_NAME
from training.statistics import half_width_95, paired_difference

UP_COLOUR, DOWN_COLOUR, REST_COLOUR = "#1b7837", "#b2182b", "#999999"
TOGETHER = "acting together"
MOST_BARS = 8


@dataclass(frozen=True, slots=True)
class Released:
    """A model as the sidecar uses it: where it was never trained for such a cluster, the fallback answers."""

    model: OnnxScorer
    fallback: Scorer = field(default_factory=ExpectedUtilisation)
    name: ClassVar[str] = RELEASED_NAME
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        encoding = encode(state, demand, candidates)
        refused = self.model.out_of_range(encoding, candidates)[..., None]
        return np.where(refused, self.fallback.score(state, demand, candidates), self.model.rate(encoding, candidates))


def policy_named(name: str) -> Scorer:
    """A model by its folder, a heuristic by its name, or ``policy``: the released model, else the fallback."""
    if name == RELEASED_NAME:
        return Released(OnnxScorer.load(DEFAULT_FOLDER)) if DEFAULT_FOLDER.is_dir() else ExpectedUtilisation()
    return OnnxScorer.load(Path(name)) if Path(name).is_dir() else scorer_by_name(name)


def cost_table(costs: Mapping[str, FloatArray]) -> Table:
    """Dollars an hour of policies that played the same episodes, and what the first one saves against each other."""
    first = next(iter(costs))
    table = Table(title="US dollars an hour, 95 % intervals")
    table.add_column("policy")
    table.add_column("cost", justify="right")
    table.add_column(f"{first} - this", justify="right")
    for name, cost in costs.items():
        mean, half_width = paired_difference(costs[first], cost)
        paired = "" if name == first else f"{mean:+.3f} ± {half_width:.3f}"
        table.add_row(name, f"{cost.mean():.3f} ± {half_width_95(cost):.3f}", paired)
    return table


def png(figure: Figure) -> bytes:
    """The picture itself, for ``IPython.display.Image``: without pyplot a notebook does not draw a figure by itself."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=90)
    return picture.getvalue()


def figure_of_explanations(explanations: Sequence[Explanation], names: Sequence[str]) -> Figure:
    """A panel for each node, in one scale: its features from the one that moved the score most."""
    figure = Figure(figsize=(4.2 * len(explanations), 3.4), layout="constrained")
    panels = figure.subplots(1, len(explanations), sharex=True, squeeze=False)[0]
    for panel, explanation, name in zip(panels, explanations, names, strict=True):
        bars = [(part.feature, part.change) for part in explanation.contributions[:MOST_BARS]]
        bars.append((TOGETHER, explanation.remainder))
        labels, changes = zip(*bars, strict=True)
        colours = [_colour(label, change) for label, change in bars]
        panel.barh(range(len(bars)), changes, color=colours)
        panel.set_yticks(range(len(bars)), labels)
        panel.invert_yaxis()
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set_title(f"{name}: {explanation.score:.3g}, average {explanation.score_at_mean:.3g}", fontsize=10)
        panel.set_xlabel("change of the score")
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _colour(label: str, change: float) -> str:
    if label == TOGETHER:
        return REST_COLOUR
    return UP_COLOUR if change >= 0 else DOWN_COLOUR

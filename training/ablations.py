"""What a model loses when something is taken from it: the features it claims to use, or the metrics it relies on.

Every ablation is played on the same tapes as its reference, so the differences are paired. For the delays the reference
is no delay at all, in a world where all pods come late enough for the slowest metrics: arrivals are then the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.workloads.scenario import Scenario
from training.comparison import Difference, difference
from training.contestants import Contestant, reads_features
from training.episodes import NONE, Handicap
from training.evaluate import Exam, outcomes_of
from training.shuffling import SIBLINGS, TRAFFIC

SLOWEST_S = 60.0
SCRAPE_INTERVAL_S = 15.0  # more often, and the window plus the slowest delay hold more scrapes than are kept


@dataclass(frozen=True, slots=True)
class Ablation:
    name: str
    words: str
    handicap: Handicap
    reference: Handicap = NONE
    late: bool = False  # played in the world for slow metrics


ABLATIONS = (
    Ablation("traffic shuffled", f"{', '.join(TRAFFIC)} exchanged between the candidates", Handicap(shuffle=TRAFFIC)),
    Ablation(
        "siblings shuffled", f"{', '.join(SIBLINGS)} exchanged between the candidates", Handicap(shuffle=SIBLINGS)
    ),
    Ablation("assumed off", "placements that the metrics do not show yet are not counted", Handicap(assume=False)),
    Ablation("10 % missing", "one scrape in ten gets lost on top of the scenario's own gaps", Handicap(missing=0.1)),
    Ablation("15 s late", "metrics 15 s late instead of at once", Handicap(delay_s=15.0), Handicap(delay_s=0.0), True),
    Ablation("60 s late", "metrics 60 s late instead of at once", Handicap(delay_s=60.0), Handicap(delay_s=0.0), True),
)


@dataclass(frozen=True, slots=True)
class Ablated:
    """What one ablation costs in one scenario: above zero the model is dearer without."""

    scenario: str
    ablation: Ablation
    change: Difference

    @property
    def hurts(self) -> bool:
        return self.change.mean - self.change.half_width_95 > 0.0


def ablate(model: Contestant, scenario: Scenario, exam: Exam) -> list[Ablated]:
    """Every ablation of a model; one that reads no features has none of them shuffled."""
    wanted = [each for each in ABLATIONS if reads_features(model) or not each.handicap.shuffle]
    costs = {}
    for handicap, late in dict.fromkeys(
        (part, each.late) for each in wanted for part in (each.reference, each.handicap)
    ):
        world = world_for_slow_metrics(scenario) if late else scenario
        costs[handicap, late] = outcomes_of([model], world, exam, handicap)[model.name].cost
    return [
        Ablated(scenario.name, each, difference(costs[each.handicap, each.late], costs[each.reference, each.late]))
        for each in wanted
    ]


def world_for_slow_metrics(scenario: Scenario) -> Scenario:
    """The first pods come when the slowest metrics are there; a handicap then says how slow they are."""
    scraping = {"interval_s": [SCRAPE_INTERVAL_S], "delay_s": [SLOWEST_S]}
    return scenario.model_copy(update={"scraping": scenario.scraping.model_copy(update=scraping)})


def uses_traffic(found: Sequence[Ablated]) -> str:
    """Whether the model uses traffic, in words."""
    parts = []
    for name, what in (("traffic shuffled", "NIC traffic"), ("siblings shuffled", "sibling traffic and places")):
        rows = [each for each in found if each.ablation.name == name]
        if not rows:
            return "The model reads no features: whether it uses traffic cannot be told by shuffling them."
        hurt = [f"{each.scenario} ({each.change.percent:+.1f} %)" for each in rows if each.hurts]
        level = [each.scenario for each in rows if not each.hurts]
        if hurt:
            said = f"The model uses {what}: with it shuffled the cost rises in {', '.join(hurt)}"
            parts.append(said + (f"; no sure rise in {', '.join(level)}." if level else "."))
        else:
            parts.append(f"The model does not use {what}, as far as this shows: no sure rise in {', '.join(level)}.")
    return " ".join(parts)

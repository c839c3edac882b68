"""``pilotfish benchmark policy``: whether the released policy is worth deploying, played as it is served.

Held-out seeds, the same arrivals for all. The policy goes through ONNX, its guard, eleven levels, candidate subsets,
late and missing metrics (training.as_served); docs/evaluate.md says what each bar counts.

All contestants play the same first episodes. Most are surely behind after them. The others, and the model, then play
many more, of a seed of their own: where costs vary much beside how they differ, a close call needs thousands, and who
was lucky in the first ones must be so again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, Encoding
from benchmarks.bars import Bar, measured
from envs.workloads.replay import TraceFolder
from envs.workloads.scenario import Scenario, load_scenario, scenario_names
from models.manifest import MODEL_FILE
from models.onnx_scorer import OnnxScorer
from training.bound_study import has_headroom, headroom_closed, of_this_world, read_headroom
from training.comparison import Comparison, harms
from training.config import FIRST_HELD_OUT_SEED
from training.contestants import DEFAULT_FOLDER, GPU_FOLDER, Contestant
from training.evaluate import Exam, compare, line_up, outcomes_of
from training.evaluation_jobs import LOCAL, connected
from training.gpu_lists import gpu_list_results
from training.sweeps import LARGE_NODES, sized
from training.worlds import limited, open_traces

EPISODES = 200
# Fixed before they were played, by the intervals of 2026-11-18: enough to tell a difference like that of then from
# nothing, or as many as can be waited for.
CLOSE_EPISODES = {
    "autoscaled": 300,
    "bursts": 3000,
    "deployments": 6000,
    "edge": 300,
    "gpu": 1000,
    "microservices": 600,
    "mixed": 1000,
    "overload": 2000,
}
CLOSE_SEED = 3_000_000
SURELY_BEHIND = 3.0  # half widths of the 95 % interval
LARGE_EPISODES = 8
TRACED_EPISODES = 100
CLOSE_TRACED_EPISODES = {  # fixed on 2026-11-18, before the model that learned where loads differ was there
    "autoscaled": 1000,
    "bursts": 600,
    "deployments": 1000,
    "edge": 400,
    "microservices": 400,
    "mixed": 200,
    "overload": 600,
}
CLEARLY_BELOW_PERCENT = 10.0
QUICK_SCENARIOS = ("deployments", "microservices")
QUICK_EPISODES = 4
QUICK_HORIZON_S = 300.0
QUICK_RIVALS = ("linear", "expected_utilisation", "least_allocated")
FORWARDS = 300
GPU_SEEDS = 10
HARM_REFERENCE = "least_allocated"
NOT_MEASURED = math.nan


def run(quick: bool, traces: Path | None) -> Iterator[Bar]:
    """Each bar as soon as it is known; quick: few episodes of two small scenarios."""
    if not DEFAULT_FOLDER.is_dir():
        raise InputError(f"there is no released model to measure in {DEFAULT_FOLDER}")
    with nullcontext() if quick else connected(LOCAL):  # on all cores
        yield from _bars(quick, traces)


def _exam(quick: bool, episodes: int, traces: Path | None = None, seed: int = FIRST_HELD_OUT_SEED) -> Exam:
    address = None if quick else LOCAL
    return Exam(episodes=QUICK_EPISODES if quick else episodes, seed=seed, traces=traces, ray_address=address)


def contest(
    contestants: Sequence[Contestant],
    world: Scenario,
    first: Exam,
    more: Exam | None,
    folder: TraceFolder | None = None,
) -> Comparison:
    """All play the first exam; the model and those who may be level with it play the other one, which then counts."""
    found = compare(contestants, world, first, folder, sample=True)
    if more is None:
        return found
    staying = {found.model, found.best_baseline, HARM_REFERENCE, *_may_be_level(found)}
    return compare([each for each in contestants if each.name in staying], world, more, folder, sample=True)


def _may_be_level(found: Comparison) -> list[str]:
    differences = {name: found.to(name) for name in found.baselines}
    return [name for name, each in differences.items() if not each.mean + SURELY_BEHIND * each.half_width_95 < 0.0]


def _bars(quick: bool, traces: Path | None) -> Iterator[Bar]:
    contestants = line_up([])
    worlds = [load_scenario(name) for name in (QUICK_SCENARIOS if quick else scenario_names())]
    found = [contest(contestants, world, _exam(quick, EPISODES), _more(world, quick)) for world in worlds]
    yield _below_every(found)
    yield _clearly_below(found)
    yield _headroom(contestants[0], found)
    yield _harm(found)
    yield _answers(found)
    yield _large(contestants, quick)
    yield _traced(contestants, worlds, traces, quick)
    yield from _gpu_lists(traces, quick)
    yield _size()
    yield _forward()


def _more(world: Scenario, quick: bool) -> Exam | None:
    return None if quick else _exam(quick, CLOSE_EPISODES[world.name], seed=CLOSE_SEED)


# --- costs


def _percents(found: Sequence[Comparison]) -> dict[str, str]:
    """How far below the best baseline, in words that fit beside a bar."""
    said = {}
    for each in found:
        paired, episodes = each.to(each.best_baseline), len(each.outcomes[each.model].cost)
        percents = f"{-paired.percent:.1f} ± {paired.half_width_95_percent:.1f} %"
        said[each.scenario] = f"{percents} below {each.best_baseline} in {episodes} episodes"
    return said


def _below_every(found: Sequence[Comparison]) -> Bar:
    share = float(np.mean([each.below_every_baseline for each in found]))
    level = {
        f"not_below_{each.scenario}": ", ".join(name for name in each.baselines if not each.to(name).model_is_cheaper)
        for each in found
        if not each.below_every_baseline
    }
    return measured("scenarios_below_every_baseline_share", share, **_percents(found), **level)


def _clearly_below(found: Sequence[Comparison]) -> Bar:
    below = [each.scenario for each in found if -each.to(each.best_baseline).percent >= CLEARLY_BELOW_PERCENT]
    return measured("scenarios_10_percent_below_best", len(below), scenarios=", ".join(below) or "none")


def _headroom(model: Contestant, found: Sequence[Comparison]) -> Bar:
    """The smallest share closed, over the scenarios that surely have any."""
    rows = read_headroom()
    shares = {
        each.scenario: _closed(rows[each.scenario], each, model)
        for each in found
        if each.scenario in rows and has_headroom(rows[each.scenario])
    }
    smallest = min(shares.values(), default=NOT_MEASURED)
    beside = {name: round(share, 3) for name, share in shares.items()}
    missing = [each.scenario for each in found if each.scenario not in rows]
    return measured(
        "headroom_closed_smallest_share", smallest, **beside, headroom_not_measured=", ".join(missing) or "none"
    )


def _closed(row: Mapping[str, Any], comparison: Comparison, model: Contestant) -> float:
    """On the row's own episodes if they are held out and of this very world; else by percentages."""
    scenario = limited(load_scenario(comparison.scenario), int(row["most_nodes"]))
    if of_this_world(row, scenario) and row["seed"] >= FIRST_HELD_OUT_SEED:
        exam = Exam(episodes=int(row["episodes"]), seed=int(row["seed"]))
        return headroom_closed(row, outcomes_of([model], scenario, exam)[model.name].cost)[0]
    attainable = 100.0 * float(row["best_cost"] - row["attainable_cost"]) / float(row["best_cost"])
    return -comparison.to(comparison.best_baseline).percent / attainable


def _harm(found: Sequence[Comparison]) -> Bar:
    worse = [
        f"{each.term} in {comparison.scenario} ({each.model:.3g} against {each.other:.3g}, {each.points:+.2f} points)"
        for comparison in found
        for each in harms(comparison.outcomes[comparison.model], comparison.outcomes[HARM_REFERENCE])
        if each.worse
    ]
    return measured("harm_terms_worse_than_least_allocated", len(worse), terms="; ".join(worse) or "none")


def _answers(found: Sequence[Comparison]) -> Bar:
    shares = {each.scenario: each.outcomes[each.model].answered_share or 0.0 for each in found}
    beside = {name: round(share, 4) for name, share in shares.items()}
    return measured("policy_answers_smallest_share", min(shares.values()), **beside)


# --- worlds it was not trained in


def _large(contestants: Sequence[Contestant], quick: bool) -> Bar:
    world = sized(load_scenario("mixed"), LARGE_NODES)
    if quick:
        world = world.model_copy(update={"horizon_s": QUICK_HORIZON_S})
        contestants = [each for each in contestants if each is contestants[0] or each.name in QUICK_RIVALS]
    exam = Exam(episodes=1) if quick else _exam(quick, LARGE_EPISODES)
    found = compare(contestants, world, exam)
    return _ahead("below_best_at_500_nodes_percent", [found])


def _traced(contestants: Sequence[Contestant], worlds: Sequence[Scenario], traces: Path | None, quick: bool) -> Bar:
    """The worst of all scenarios but gpu, which has real lists of its own."""
    if traces is None:
        return measured("below_best_on_real_load_percent", NOT_MEASURED, needs="--traces DIR")
    folder, first = open_traces(traces), _exam(quick, TRACED_EPISODES, traces)
    found = [
        contest(contestants, world, first, _more_traced(world, quick, traces), folder)
        for world in worlds
        if not world.gpus.share
    ]
    return _ahead("below_best_on_real_load_percent", found)


def _more_traced(world: Scenario, quick: bool, traces: Path) -> Exam | None:
    return None if quick else _exam(quick, CLOSE_TRACED_EPISODES[world.name], traces, CLOSE_SEED)


def _ahead(bar: str, found: Sequence[Comparison]) -> Bar:
    smallest = min(-each.to(each.best_baseline).percent for each in found)
    shares = [each.outcomes[each.model].answered_share or 0.0 for each in found]
    return measured(bar, smallest, **_percents(found), answered=round(min(shares), 4))


def _gpu_lists(traces: Path | None, quick: bool) -> Iterator[Bar]:
    """Unallocated GPU of the model for GPUs on the openb lists, beside BestFit and FGD on the same runs."""
    bars = ("gpu_lists_below_best_fit_share", "gpu_lists_at_or_below_fgd_share")
    if traces is None or not GPU_FOLDER.is_dir():
        needs = "--traces DIR" if traces is None else "models/released/gpu"
        yield from (measured(bar, NOT_MEASURED, needs=needs) for bar in bars)
        return
    folder = traces / "openb" if (traces / "openb").is_dir() else traces
    lists = gpu_list_results(folder, GPU_FOLDER, seeds=1 if quick else GPU_SEEDS)
    beside = {
        name: f"{row['model']:.2f}, BestFit {row['best_fit']:.2f}, FGD {row['fgd']:.2f}" for name, row in lists.items()
    }
    rows = list(lists.values())
    yield measured(bars[0], float(np.mean([row["model"] < row["best_fit"] for row in rows])), **beside)
    yield measured(bars[1], float(np.mean([row["model"] <= row["fgd"] for row in rows])), lists=len(rows))


# --- the model itself


def _size() -> Bar:
    sizes = {folder.name: (folder / MODEL_FILE).stat().st_size / 1e6 for folder in _released()}
    return measured("model_mb", max(sizes.values()), **{name: round(size, 3) for name, size in sizes.items()})


def _forward() -> Bar:
    """Clipping included, as a request meets it."""
    medians = {folder.name: _median_ms(OnnxScorer.load(folder), LARGE_NODES) for folder in _released()}
    beside = {name: round(median, 3) for name, median in medians.items()}
    return measured("forward_500_nodes_ms", max(medians.values()), threads=1, **beside)


def _released() -> list[Path]:
    return [folder for folder in (DEFAULT_FOLDER, GPU_FOLDER) if folder.is_dir()]


def _median_ms(scorer: OnnxScorer, nodes: int) -> float:
    rng = np.random.default_rng(0)
    features = rng.random((nodes, len(NODE_FEATURES)), dtype=np.float32)
    encoding = Encoding(features, rng.random(len(POD_FEATURES), dtype=np.float32))
    candidates, taken_ms = np.ones(nodes, dtype=np.bool_), []
    for _ in range(FORWARDS):
        began = time.perf_counter()
        scorer.rate(encoding, candidates)
        taken_ms.append(1000.0 * (time.perf_counter() - began))
    return float(np.median(taken_ms[FORWARDS // 10 :]))

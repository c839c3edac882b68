"""The HTML report: it stands alone and says what was measured."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml

from envs.dynamics.costs import TERM, TERMS
from models.manifest import WORLD
from training.ablations import ABLATIONS, Ablated
from training.bound_study import Study, study
from training.comparison import Comparison, Difference
from training.contestants import Contestant
from training.episodes import Outcome
from training.evaluate import Exam, run
from training.play import Played
from training.report_evidence import Evidence, gather, main_rivals, measured_elsewhere
from training.report_page import page
from training.report_plots import MODEL_COLOUR, bars_of, styles
from training.sampling import BINS, Sampled
from training.sweeps import Line, Sweep, by_delay, by_load, by_nodes, loaded, sized
from training.worlds import limited, provenance

HEADROOM = {"best_baseline": "linear", "best_cost": 1.5, "attainable_cost": 1.1, "attainable_ci95": 0.1}
HEADROOM |= {"clairvoyant_cost": 0.8, "episodes": 20, "generator_version": 2, "most_nodes": 4, "seed": 1_000_000}
PLOTS = ("cost by term", "NIC utilisation, cumulative")
PLOTS += ("cost against load", "cost against number of nodes", "cost against age of the metrics")
MARK = "(another world: generator 2)"
NAMES = ("policy", "least_allocated", "linear", "linear_own", "random")


def outcome(cost: float) -> Outcome:
    terms = np.zeros((3, len(TERMS)))
    terms[:, TERM["money"]] = cost + np.array([-0.1, 0.0, 0.1])
    terms[:, TERM["network_loss"]] = 2.0
    sampled = Sampled(np.ones(BINS), 100.0, 100.0, 100.0)
    return Outcome(Played(terms, np.ones(3), np.full(3, 50)), 150, 147, sampled)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    costs = dict(zip(NAMES, (1.0, 3.0, 1.5, 0.9, 4.0), strict=True))
    contestants = tuple(
        Contestant(name, "heuristic", name, baseline=name not in ("policy", "linear_own")) for name in NAMES
    )
    facts = {"scenario": "bursts", "seed": 1_000_000, "weights_digest": "w", "generator_version": 2}
    return Comparison(facts, contestants, {name: outcome(cost) for name, cost in costs.items()})


@pytest.fixture(scope="module")
def shown(comparison) -> str:
    return shown_with(comparison)


def shown_with(comparison: Comparison, elsewhere: frozenset[str] = frozenset()) -> str:
    lines = (Line("policy", (1.0, 2.0), (0.1, 0.1)), Line("linear", (1.5, 2.5), (0.1, 0.1)))
    sweep = Sweep("bursts: cost against load", (0.3, 0.6), "requests over capacity", "USD/h", lines)
    ablated = [Ablated("bursts", each, Difference(0.4, 0.1, 40.0, 10.0)) for each in ABLATIONS]
    bound = Study(5, 1, 21.0, 0.8, 5, {"policy": (1.0, 0.2, 0.05)})
    return page(Evidence([comparison], Exam(episodes=3), ablated, [sweep], bound, {"bursts": HEADROOM}, elsewhere))


def test_the_page_needs_no_other_file_and_no_network(shown):
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']([^"'#][^"']*)""", shown)
    assert addresses == []
    assert "@import" not in shown
    assert "<script" not in shown


def test_every_tag_that_opens_is_closed(shown):
    class Stack(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag, attrs):
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    parser = Stack()
    parser.feed(shown)
    assert parser.open == []


def test_tables_plots_ablations_and_bounds_are_there(shown):
    assert shown.count("<svg") == 3
    for text in ("Summary", "Ablations", "Bounds", "below every baseline", "linear_own (beside)", "98.0%"):
        assert text in shown
    assert "The model uses NIC traffic: with it shuffled the cost rises in bursts (+40.0 %)" in shown
    assert all(each.name in shown for each in ABLATIONS)
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", shown, flags=re.DOTALL).lower()


def test_headroom_is_of_this_world_if_scenario_generator_and_weights_are(small):
    """Rows of a scenario cut to fewer nodes are of the scenario as it was cut."""
    for most_nodes in (2, 4):
        row = provenance(limited(small, most_nodes), 1_000_000) | {"most_nodes": most_nodes}
        assert measured_elsewhere({"small": row, "bursts": row}, [small]) == frozenset()
        for key in WORLD:
            assert measured_elsewhere({"small": row | {key: "other"}}, [small]) == {"small"}


def test_headroom_of_another_world_is_marked_wherever_it_is_shown(comparison, shown):
    marked = shown_with(comparison, frozenset({"bursts"}))
    assert MARK not in shown
    assert f"<td>1.10 of 1.50 {MARK}</td>" in marked
    assert f"<td>bursts {MARK}</td>" in marked


def test_names_are_escaped(comparison):
    odd = Contestant("<b>&", "heuristic", "x", baseline=False)
    outcomes = {"<b>&": outcome(1.0), "random": outcome(2.0)}
    text = page(Evidence([Comparison(comparison.facts, (odd, comparison.contestants[-1]), outcomes)], Exam(episodes=3)))
    assert "<b>&<" not in text
    assert "&lt;b&gt;&amp;" in text


def test_plots_show_the_model_first_and_the_baselines_that_matter(comparison):
    assert [each.name for each in main_rivals(comparison)] == ["policy", "linear", "least_allocated"]
    assert set(bars_of(comparison)) == set(NAMES)
    style = styles("policy", ["linear", "policy"])
    assert style["policy"]["color"] == MODEL_COLOUR != style["linear"]["color"]


# --- sweeps


def test_sweeps_change_one_thing_only(small):
    assert sized(small, 7).nodes.count.high == 7
    assert sized(small, 7).arrivals == small.arrivals
    assert loaded(small, 0.5).arrivals.load.low == loaded(small, 0.5).arrivals.load.high == 0.5
    assert loaded(small, 0.5).nodes == small.nodes


@pytest.mark.timeout(400)
def test_a_sweep_has_a_mean_and_an_interval_for_each_step_and_policy(small):
    fair = Contestant("least_allocated", "heuristic", "least_allocated", baseline=True)
    by = by_load([fair], small, Exam(episodes=2), (0.2, 0.3))
    assert (by.steps, by.lines[0].policy) == ((0.2, 0.3), "least_allocated")
    assert 0 < by.lines[0].mean[0] < by.lines[0].mean[1]
    per_node = by_nodes([fair], small, Exam(episodes=2), (4, 8)).lines[0].mean
    assert 0.3 < per_node[1] / per_node[0] < 3.0


@pytest.mark.timeout(400)
def test_the_sweep_of_delays_makes_metrics_late(small):
    """Who reads metrics decides otherwise then; who reads requests does not notice."""
    names = ("expected_utilisation", "least_allocated")
    contestants = [Contestant(name, "heuristic", name, baseline=True) for name in names]
    by = by_delay(contestants, small, Exam(episodes=3, seed=3), (0.0, 60.0))
    assert by.steps == (0.0, 60.0)
    fresh, late = by.lines[0].mean
    assert fresh != late
    assert by.lines[1].mean[0] == by.lines[1].mean[1] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_writes_a_report_with_all_plots_and_ablations(small, model_folder, tmp_path, monkeypatch):
    scenario, report = tmp_path / "small.yaml", tmp_path / "report.html"
    scenario.write_text(yaml.safe_dump(small.model_dump(mode="json")))
    monkeypatch.setattr("training.report_evidence.by_nodes", lambda *given: by_nodes(*given, (4, 8)))
    monkeypatch.setattr("training.report_evidence.study", lambda *given: study(*given, worlds=2))
    monkeypatch.setattr("training.bound_study.SECONDS_FOR_EACH", 1.0)
    monkeypatch.setattr("training.report_evidence.read_headroom", lambda: {"small": HEADROOM})
    run([str(model_folder)], scenarios=[str(scenario)], exam=Exam(episodes=2), as_json=True, report=report)
    text = report.read_text(encoding="utf-8")
    assert [title for title in PLOTS if f"<!-- small: {title} -->" not in text] == []
    assert text.count("<svg") == len(PLOTS)
    assert re.findall(r"<th>([^<]+)</th>", section(text, "Ablations"))[1:] == [each.name for each in ABLATIONS]
    assert len(re.findall(r"<td>[-+][\d.]+ ± [\d.]+</td>", section(text, "Ablations"))) == len(ABLATIONS)
    assert "<td>bound</td>" in section(text, "Bounds")
    assert f"<td>small {MARK}</td>" in section(text, "Bounds")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "small.yaml"]


def section(text: str, heading: str) -> str:
    return text.partition(f"<h2>{heading}</h2>")[2].partition("<h2>")[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_report_is_gathered_from_real_episodes(small, monkeypatch):
    from training.evaluate import compare

    monkeypatch.setattr("training.report_evidence.by_nodes", lambda *given: by_nodes(*given, (4, 8)))
    monkeypatch.setattr("training.report_evidence.study", lambda *given: None)
    contestants = [Contestant(name, "heuristic", name, name != "neutral") for name in ("neutral", "least_allocated")]
    found = compare(contestants, small, Exam(episodes=2), sample=True)
    evidence = gather([found], [small], Exam(episodes=2))
    assert len(evidence.sweeps) == 3
    assert {row.ablation.name for row in evidence.ablated} == {each.name for each in ABLATIONS[2:]}
    assert "<svg" in page(evidence)

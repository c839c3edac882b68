"""The report as one page of HTML: no file beside it, no network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from envs.dynamics.costs import TERMS
from training import report_plots
from training.ablations import ABLATIONS, uses_traffic
from training.bound_study import has_headroom
from training.bounds import BOUNDED_TERMS
from training.comparison import Comparison, Difference, harms, term_dollars
from training.evaluation_tables import SHORT, difference_cells, label, verdict
from training.report_evidence import Evidence, main_rivals
from training.statistics import half_width_95

OTHER_WORLD = "another world"
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; max-width: 1180px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.7em; } h2 { margin-top: 2.2em; border-bottom: 1px solid #d0d7de; padding-bottom: .2em; }
table { border-collapse: collapse; margin: .8em 0; font-size: 13px; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
td, th { padding: .22em .6em; white-space: nowrap; border-bottom: 1px solid #e5e8eb; text-align: right; }
td:first-child, th:first-child { text-align: left; } thead th { border-bottom: 2px solid #8c959f; }
tr.model td { font-weight: 600; background: #eef6fc; } .good { color: #11632b; } .bad { color: #a40e26; }
.note { color: #57606a; } svg { max-width: 100%; height: auto; display: block; margin: .6em 0; }
code { background: #f2f4f6; padding: 0 .25em; }
"""


def page(evidence: Evidence) -> str:
    first = evidence.comparisons[0]
    parts = [
        f"<h1>{escape(first.model)} against every baseline</h1>",
        _conditions(evidence),
        "<h2>Summary</h2>",
        _summary(evidence),
        *(_scenario(each) for each in evidence.comparisons),
        *_ablations(evidence),
        *_sweeps(evidence),
        *_bounds(evidence),
    ]
    title = f"Pilotfish: {escape(first.model)}"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], marked: str = "") -> str:
    """Cells are text; the row whose first cell is ``marked`` stands out."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = ""
    for row in rows:
        kind = ' class="model"' if marked and row[0] == marked else ""
        body += f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _conditions(evidence: Evidence) -> str:
    exam, facts = evidence.exam, evidence.comparisons[0].as_json()
    models = ", ".join(f"{name} {digest[:12]}" for name, digest in facts["models"].items()) or "none of a file"
    traces = "with the public traces" if exam.traces else "synthetic"
    return note(
        f"{exam.episodes} episodes of each scenario from seed {exam.seed} (training stays below a million), {traces};"
        " every policy meets the same arrivals, loads and gaps in the metrics. Models are played as served: ONNX, guard"
        " against unknown ranges, eleven levels, candidate subsets, late and missing metrics. US dollars an hour"
        f" (weights {facts['weights_digest']}, generator {facts['generator_version']}); models: {models}."
        " Differences are model minus other with the 95 % interval over pairs: below zero the model is cheaper."
    )


def _summary(evidence: Evidence) -> str:
    header = ["scenario", "model USD/h", "best baseline", "its USD/h", "difference %", "below all", "attainable USD/h"]
    rows = []
    for each in evidence.comparisons:
        if not each.baselines:
            continue
        best = each.best_baseline
        cost, of_best = (f"{each.outcomes[name].cost.mean():.2f}" for name in (each.model, best))
        sure = "yes" if each.below_every_baseline else "no"
        percent = difference_cells(each.to(best))[1]
        rows.append([each.scenario, cost, best, of_best, percent, sure, _attainable(evidence, each.scenario)])
    words = "".join(f"<p><b>{escape(each.scenario)}</b>: {escape(verdict(each))}</p>" for each in evidence.comparisons)
    return table(header, rows) + words


def _attainable(evidence: Evidence, scenario: str) -> str:
    """On its own episodes, which may not be these."""
    row = evidence.headroom.get(scenario)
    if row is None:
        return "not measured"
    said = f"{row['attainable_cost']:.2f} of {row['best_cost']:.2f}" + ("" if has_headroom(row) else " (not sure)")
    return said + _elsewhere(evidence, scenario)


def _elsewhere(evidence: Evidence, scenario: str) -> str:
    if scenario not in evidence.elsewhere:
        return ""
    return f" ({OTHER_WORLD}: generator {evidence.headroom[scenario]['generator_version']})"


def _scenario(comparison: Comparison) -> str:
    names = [each.name for each in main_rivals(comparison)]
    header = ["policy", "cost", "model - this", "%", *(SHORT[term] for term in TERMS)]
    rows = [_policy_row(comparison, name) for name in comparison.ranked()]
    return "".join(
        [
            f"<h2>{escape(comparison.scenario)}</h2>",
            f"<p>{escape(verdict(comparison))}</p>",
            report_plots.cost_by_term(comparison),
            table(header, rows, marked=comparison.model),
            _harm(comparison),
            report_plots.nic_distribution(comparison, names),
        ]
    )


def _policy_row(comparison: Comparison, name: str) -> list[str]:
    outcome = comparison.outcomes[name]
    spread = half_width_95(outcome.cost)
    cost = f"{outcome.cost.mean():.2f}" + ("" if math.isnan(spread) else f" ± {spread:.2f}")
    paired = ("", "") if name == comparison.model else difference_cells(comparison.to(name))
    return [label(comparison, name), cost, *paired, *(f"{value:.3f}" for value in term_dollars(outcome))]


def _harm(comparison: Comparison) -> str:
    other = comparison.outcomes.get("least_allocated")
    model = comparison.outcomes[comparison.model]
    if other is None or other.sampled is None or other is model:
        return ""
    rows = [
        [each.term, f"{each.model:.3f}", f"{each.other:.3f}", f"{each.points:+.3f}", "yes" if each.worse else "no"]
        for each in harms(model, other)
    ]
    words = (
        "Harm beside LeastAllocated, in the unit of each term an hour; points: difference in percent of what there was"
    )
    words += " to lose (traffic offered, CPU wanted, pods, pod-seconds). Worse: by more than 10 % and 0.5 points."
    return note(words) + table(["harm term", "model", "least_allocated", "points", "worse"], rows)


def _ablations(evidence: Evidence) -> Iterable[str]:
    if not evidence.ablated:
        return
    yield "<h2>Ablations</h2>"
    yield f"<p>{escape(uses_traffic(evidence.ablated))}</p>"
    yield note("Change of the cost in percent when something is taken from the model, paired; above zero it is dearer.")
    names = [each.name for each in ABLATIONS if any(row.ablation is each for row in evidence.ablated)]
    scenarios = dict.fromkeys(row.scenario for row in evidence.ablated)
    cells = {(row.scenario, row.ablation.name): _change(row.change) for row in evidence.ablated}
    yield table(["scenario", *names], [[each, *(cells[each, name] for name in names)] for each in scenarios])
    yield "<ul>" + "".join(f"<li><b>{each.name}</b>: {escape(each.words)}</li>" for each in ABLATIONS) + "</ul>"


def _change(change: Difference) -> str:
    return difference_cells(change)[1]


def _sweeps(evidence: Evidence) -> Iterable[str]:
    if evidence.sweeps:
        yield "<h2>Load, size, age of the metrics</h2>"
        yield note("Synthetic worlds, one thing changed at a time; bars are 95 % intervals of the means, not of pairs.")
    for sweep in evidence.sweeps:
        yield report_plots.along(sweep, evidence.comparisons[0].model)


def _bounds(evidence: Evidence) -> Iterable[str]:
    found = evidence.study
    yield "<h2>Bounds</h2>"
    if found is not None and found.worlds:
        yield note(
            f"{found.worlds} small worlds (4 nodes, about {found.decided_pods:.0f} pods to place;"
            f" {found.left_out} more are left out because some policy let a pod wait)"
            " solved as mixed-integer programs with the whole future known"
            f" (HiGHS; {found.solved} of them to the optimum, of the others the proven bound counts). In it:"
            f" {', '.join(BOUNDED_TERMS)}; the other terms are left out, so it is a lower bound, and one that only a"
            " clairvoyant could reach. The costs beside it are of the same terms."
        )
        ranked = sorted(found.costs.items(), key=lambda item: item[1][0])
        rows = [["bound", f"{found.bound:.2f}", ""]]
        rows += [[name, f"{mean:.2f}", f"+{above:.2f} ± {half:.2f}"] for name, (mean, above, half) in ranked]
        yield table(["policy", "USD/h of these terms", "above the bound"], rows, marked=evidence.comparisons[0].model)
    shown = [each.scenario for each in evidence.comparisons if each.scenario in evidence.headroom]
    if shown:
        yield note(
            "Rollouts (docs/headroom.md), on episodes of their own: attainable knows what a sidecar knows,"
            f" clairvoyant the true future. A row of {OTHER_WORLD} was measured before scenario, generator or weights"
            " changed: its dollars do not compare with those above."
        )
        header = ["scenario", "best baseline", "its USD/h", "attainable", "clairvoyant", "episodes"]
        rows = []
        for name in shown:
            row = evidence.headroom[name]
            costs = [f"{row[key]:.2f}" for key in ("best_cost", "attainable_cost", "clairvoyant_cost")]
            rows.append([name + _elsewhere(evidence, name), row["best_baseline"], *costs, str(row["episodes"])])
        yield table(header, rows)

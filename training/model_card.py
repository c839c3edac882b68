"""MODEL_CARD.md: what a person must know before trusting a model, made from its manifest.

Only one line looks at this version of Pilotfish too: whether the results are of the worlds that it simulates now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads.scenario import load_scenario, scenario_names
from envs.workloads.synthetic import GENERATOR_VERSION
from models.manifest import (
    CARD_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    EvaluationRow,
    FeatureRange,
    Manifest,
    same_world,
    write_beside,
    write_manifest,
)

PURPOSE = {
    "default": "Scores the nodes of a Kubernetes cluster for one pending pod; the pod goes to the highest one.",
    "gpu": "Scores the nodes of a Kubernetes cluster for one pending pod that asks for GPUs.",
}


def model_card(manifest: Manifest) -> str:
    parts = [_title(manifest), _purpose(manifest), _training(manifest), _evaluation(manifest), _limits(manifest)]
    return "\n\n".join([*parts, _reproduction(manifest)]) + "\n"


def write_words(manifest: Manifest, folder: Path) -> None:
    """The manifest, and the card that it makes."""
    write_manifest(manifest, folder)
    write_beside(folder / CARD_FILE, model_card(manifest).encode())


def _title(manifest: Manifest) -> str:
    return (
        f"# Model card: {manifest.kind}\n\n"
        f"Made from `{MANIFEST_FILE}`; do not edit. `{MODEL_FILE}` has the SHA-256 `{manifest.sha256}`, was exported on"
        f" {manifest.created.isoformat()} and reads feature schema {manifest.schema_version}."
    )


def _purpose(manifest: Manifest) -> str:
    return (
        "## What it is for\n\n"
        f"{PURPOSE[manifest.kind]} It is the first step of the sidecar's ladder: where it cannot answer, a heuristic"
        " does. It ranks nodes that were found feasible before; it never decides what is feasible."
    )


def _training(manifest: Manifest) -> str:
    facts = manifest.training
    rows = [
        ("scenarios", ", ".join(f"`{name}` ({digest})" for name, digest in facts.scenarios.items())),
        ("seeds", ", ".join(map(str, facts.seeds))),
        ("decisions", f"{facts.decisions:,}"),
        ("minutes", f"{facts.minutes:,.0f}"),
        ("configuration", facts.config_digest),
        ("cost weights", facts.weights_digest),
        ("generator", f"version {facts.generator_version}"),
    ]
    return "## Trained on\n\nSimulated clusters only.\n\n" + _table(("fact", "value"), rows)


def _evaluation(manifest: Manifest) -> str:
    heading = "## Evaluation\n\n"
    if not manifest.evaluation:
        return heading + "Not evaluated yet: do not deploy it."
    header = ("scenario", "episodes", "USD/h", "best other", "USD/h of it", "difference", "95 % interval", "answered")
    return (
        heading
        + "On seeds that training never saw, against the best of all baselines, on the same arrivals; below zero the"
        + " model is cheaper. Answered: the share of decisions that the model itself took, not the ladder below it.\n\n"
        + _table(header, [_evaluation_row(row) for row in manifest.evaluation])
        + _other_worlds(manifest.evaluation)
    )


def _other_worlds(rows: Sequence[EvaluationRow]) -> str:
    """One line where there is something to say."""
    others = [f"`{row.scenario}` ({_world(row)})" for row in rows if not of_present_world(row)]
    if not others:
        return ""
    return (
        "\n\n**Not of the worlds of this version** (generator"
        f" {GENERATOR_VERSION}, weights {WEIGHTS_DIGEST}, its own scenarios): {', '.join(others)}."
        " What is measured now does not compare with these costs: evaluate again."
    )


def _world(row: EvaluationRow) -> str:
    if row.generator_version is None:
        return "not recorded"
    return f"generator {row.generator_version}, weights {row.weights_digest}, scenario {row.scenario_digest}"


def of_present_world(row: EvaluationRow) -> bool:
    """Whether this version would play the same; of somebody's own scenario only generator and weights can be told."""
    shipped = row.scenario in scenario_names()
    facts = {
        "scenario_digest": load_scenario(row.scenario).digest() if shipped else row.scenario_digest,
        "generator_version": GENERATOR_VERSION,
        "weights_digest": WEIGHTS_DIGEST,
    }
    return same_world(row.model_dump(), facts)


def _evaluation_row(row: EvaluationRow) -> tuple[str, ...]:
    low, high = row.ci95_percent
    return (
        row.scenario,
        str(row.episodes),
        f"{row.cost_usd_per_hour:.2f}",
        row.best_other,
        f"{row.best_other_usd_per_hour:.2f}",
        f"{row.difference_percent:+.1f} %",
        f"{low:+.1f} to {high:+.1f} %",
        "" if row.answered_share is None else f"{row.answered_share:.1%}",
    )


def _limits(manifest: Manifest) -> str:
    constant = [*_constant(manifest.node_features), *_constant(manifest.pod_features)]
    lines = [
        "- It has only seen simulated clusters: run it in shadow first.",
        "- Values off the range of training are clipped; if more than 5 % of them lie off its 0.1 to 99.9 percentiles"
        " the model does not answer.",
        "- It needs fresh CPU, memory and network metrics of at least half of the candidates.",
    ]
    if constant:
        names = ", ".join(f"`{name}`" for name in constant)
        lines.append(f"- These features never varied in training, so it knows nothing of them: {names}.")
    return "## Limits\n\n" + "\n".join(lines)


def _constant(ranges: Mapping[str, FeatureRange]) -> list[str]:
    return [name for name, seen in ranges.items() if seen.min == seen.max]


def _reproduction(manifest: Manifest) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in manifest.versions.items())
    return (
        "## How to make it again\n\n"
        "`docs/models.md` has the commands. Training, then `pilotfish export`, writes this folder"
        f" (`{MODEL_FILE}`, `{MANIFEST_FILE}`, `{CARD_FILE}`); the same seeds, steps and thread count give the same"
        f" weights on the same machine.\n\nMade with {versions}."
    )


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

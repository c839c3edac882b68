"""``pilotfish card``: what an evaluation found goes into a model's manifest, and its card is made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import InputError
from models.manifest import WORLD, EvaluationRow, Manifest, read_manifest, read_model
from training.model_card import write_words


def run(folder: Path, results: Path | None = None) -> Manifest:
    """Make the card again; ``results`` is what ``pilotfish evaluate FOLDER --json`` wrote."""
    manifest = read_manifest(folder)
    if results is not None:
        manifest = manifest.model_copy(update={"evaluation": evaluation_of(manifest, results)})
    write_words(manifest, folder)
    return manifest


def put_in_place(model: str, released: str) -> None:
    """For ``make train-default``: a model with results takes the place of the released one, all of it or nothing."""
    from training.export import refuse_foreign, replace_by  # loads torch, which cards do without

    manifest, _ = read_model(Path(model))
    if not manifest.evaluation:
        raise InputError(f"{model}: not evaluated yet; give `pilotfish card` the results first")
    refuse_foreign(Path(released))
    replace_by(Path(model), Path(released))


def evaluation_of(manifest: Manifest, results: Path) -> tuple[EvaluationRow, ...]:
    """The rows of a file of results, one JSON object a line; those of another model are refused."""
    rows = []
    for number, line in enumerate(_lines(results), 1):
        try:
            result = json.loads(line)
            if manifest.sha256 not in result["models"].values():
                raise InputError(f"{results}, line {number}: of another model than {manifest.label}; evaluate this one")
            rows.append(_row(result))
        except (ValueError, KeyError, TypeError, AttributeError) as why:
            problem = f"{results}, line {number}: no result of `pilotfish evaluate --json` with a baseline ({why})"
            raise InputError(problem) from why
    return tuple(rows)


def _lines(results: Path) -> list[str]:
    try:
        return results.read_text(encoding="utf-8").splitlines()
    except OSError as why:
        raise InputError(f"{results}: {why.strerror}; name a file that `pilotfish evaluate --json` wrote") from why


def _row(result: Mapping[str, Any]) -> EvaluationRow:
    policies, best = result["policies"], result["best_baseline"]
    difference = policies[best]["model_minus_this"]
    percent, half = difference["percent"], difference["ci95_percent"]
    return EvaluationRow(
        scenario=result["scenario"],
        episodes=result["episodes"],
        seed=result["seed"],
        cost_usd_per_hour=policies[result["model"]]["cost"]["mean"],
        best_other=best,
        best_other_usd_per_hour=policies[best]["cost"]["mean"],
        difference_percent=percent,
        ci95_percent=(percent - half, percent + half),
        answered_share=result["answered_share"],
        **{key: result[key] for key in WORLD},
    )

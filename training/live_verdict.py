"""Whether a candidate from a live run may be released: it must win against the released model, on the same episodes.

It wins when its cost, in percent of the released model's and as the mean over all worlds, is surely lower (the whole
95 % interval of the paired difference is below 0), and in no world surely higher.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from agent.cluster import FloatArray
from agent.errors import InputError
from envs.rewards import DIGEST as WEIGHTS_DIGEST
from envs.workloads.scenario import load_scenario
from models.manifest import WORLD, EvaluationRow, Facts, Sha256, read_manifest
from models.onnx_scorer import OnnxScorer
from training.comparison import difference
from training.contestants import Contestant
from training.evaluate import Exam, compare
from training.live_config import Examination
from training.play import play
from training.recorded_worlds import recorded_scenario, recorded_stack
from training.worlds import provenance

VERDICT_FILE = "verdict.json"
RECORDING = "recording "  # before the name of one, where others name a scenario
CANDIDATE, RELEASED = "candidate", "released"


class Verdict(Facts):
    candidate_sha256: Sha256
    released_sha256: Sha256 = Field(description="what it was compared with")
    weights_digest: str = Field(WEIGHTS_DIGEST, description="of the cost weights")
    pods: int = Field(ge=0, description="placed on the real cluster")
    falls: int = Field(ge=0, description="how often the safety rule took over there")
    rows: tuple[EvaluationRow, ...] = Field(min_length=1)

    @property
    def episodes(self) -> dict[str, int]:
        """By world."""
        return {row.scenario: row.episodes for row in self.rows}

    @property
    def mean_percent(self) -> float:
        return sum(row.difference_percent for row in self.rows) / len(self.rows)

    @property
    def half_width_percent(self) -> float:
        """Of the mean's 95 % interval; worlds are independent."""
        return sqrt(sum((row.ci95_percent[1] - row.difference_percent) ** 2 for row in self.rows)) / len(self.rows)

    @property
    def dearer(self) -> tuple[EvaluationRow, ...]:
        """Worlds in which it surely costs more."""
        return tuple(row for row in self.rows if row.ci95_percent[0] > 0)

    @property
    def wins(self) -> bool:
        return self.mean_percent + self.half_width_percent < 0 and not self.dearer

    def words(self) -> str:
        """With the numbers that decide."""
        cost = f"{self.mean_percent:+.3f} % (95 %: ±{self.half_width_percent:.3f}) of the released model's cost"
        worse = ", ".join(f"{row.scenario} {row.difference_percent:+.3f} %" for row in self.dearer)
        return f"{'wins' if self.wins else 'does not win'}: {cost}{f'; surely dearer in {worse}' if worse else ''}"


def examined(
    candidate: Path, released: Path, exam: Examination, recording: Path | None, pods: int, falls: int
) -> Verdict:
    """Both models, as they are served, in every world; and by their own first choice on a recording."""
    rows = [_in_scenario(candidate, released, name, exam) for name in exam.scenarios]
    if recording is not None:
        rows.append(_on_recording(candidate, released, recording, exam))
    shas = {"candidate_sha256": read_manifest(candidate).sha256, "released_sha256": read_manifest(released).sha256}
    return Verdict(**shas, pods=pods, falls=falls, rows=tuple(rows))


def write_verdict(verdict: Verdict, folder: Path) -> None:
    content = {"wins": verdict.wins, "said": verdict.words(), **verdict.model_dump(mode="json")}
    (folder / VERDICT_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_verdict(folder: Path) -> Verdict:
    path = folder / VERDICT_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Verdict.model_validate({name: content[name] for name in Verdict.model_fields})
    except OSError as why:
        raise InputError(f"{path}: {why.strerror}; `pilotfish train --live --out {folder}` writes it") from why
    except (ValueError, KeyError, TypeError, ValidationError) as why:
        raise InputError(f"{path}: not a verdict; run `pilotfish train --live` again") from why


def _in_scenario(candidate: Path, released: Path, name: str, exam: Examination) -> EvaluationRow:
    contestants = [
        Contestant(CANDIDATE, "model", str(candidate), baseline=False),
        Contestant(RELEASED, "model", str(released), baseline=True),
    ]
    found = compare(contestants, load_scenario(name), Exam(exam.episodes, exam.seed))
    one, other = found.outcomes[CANDIDATE], found.outcomes[RELEASED]
    return _row(found.scenario, found.facts, exam, one.cost, other.cost, one.answered_share)


def _on_recording(candidate: Path, released: Path, recording: Path, exam: Examination) -> EvaluationRow:
    scenario, make = recorded_scenario(recording)
    tape = recorded_stack(scenario, make, exam.seed, exam.episodes)
    one, other = (play(OnnxScorer.load(folder), tape).cost_per_hour for folder in (candidate, released))
    return _row(f"{RECORDING}{scenario.name}", provenance(scenario, exam.seed), exam, one, other)


def _row(
    name: str,
    facts: Mapping[str, Any],
    exam: Examination,
    cost: FloatArray,
    other: FloatArray,
    answered: float | None = None,
) -> EvaluationRow:
    found = difference(cost, other)
    half = found.half_width_95_percent
    return EvaluationRow(
        scenario=name,
        episodes=exam.episodes,
        seed=exam.seed,
        cost_usd_per_hour=float(cost.mean()),
        best_other=RELEASED,
        best_other_usd_per_hour=float(other.mean()),
        difference_percent=found.percent,
        ci95_percent=(found.percent - half, found.percent + half),
        answered_share=answered,
        **{key: facts[key] for key in WORLD},
    )

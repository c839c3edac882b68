"""What was measured already: one line of JSON for every episode of an arm, under the commit that was measured."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.closed_loop.outcome import Outcome
from tests.cluster.metering import Meter

FOLDER = Path(__file__).parents[2] / "runs" / "closed_loop"


class Kept:
    """In memory, and in a file while the tree is that of a commit: another tree would be another measurement."""

    def __init__(self, commit: str, scenario: str, speed: float | None) -> None:
        """No speed: in memory alone."""
        lasting = speed is not None and not commit.endswith("-dirty")
        self._file = FOLDER / f"{commit}-{scenario}-{speed:g}.jsonl" if lasting else None
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}
        if self._file is not None and self._file.exists():
            rows = (json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines())
            self._rows = {(row["arm"], row["episode"]): row for row in rows}

    def has(self, arm: str, episode: int) -> bool:
        return (arm, episode) in self._rows

    def get(self, arm: str, episode: int) -> Outcome:
        outcome = self._rows[arm, episode]["outcome"]
        return Outcome(**{**outcome, "meter": Meter(**outcome["meter"])})

    def keep(self, arm: str, episode: int, outcome: Outcome) -> None:
        row = {"arm": arm, "episode": episode, "load_average": os.getloadavg()[0], "outcome": asdict(outcome)}
        self._rows[arm, episode] = row
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def load_average(self) -> float:
        """Of the machine, over a minute, at the end of each episode; their mean."""
        return float(np.mean([row["load_average"] for row in self._rows.values()]))

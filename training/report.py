"""The HTML report of an evaluation: one file that stands alone, with tables, plots, ablations and bounds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent.errors import InputError
from envs.workloads.scenario import Scenario
from training.comparison import Comparison
from training.evaluate import Exam
from training.report_evidence import gather
from training.report_page import page


def write_report(path: Path, comparisons: Sequence[Comparison], worlds: Sequence[Scenario], exam: Exam) -> None:
    """Plays what the tables do not have yet, and writes the file in one go."""
    evidence = gather(comparisons, worlds, exam)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(page(evidence), encoding="utf-8")
        beside.replace(path)
    except OSError as why:
        raise InputError(f"--report {path}: {why.strerror or why}") from why
    finally:
        beside.unlink(missing_ok=True)

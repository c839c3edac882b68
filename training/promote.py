"""``pilotfish promote``: a candidate that has won its examination becomes the released model; any other is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import typer

from agent.errors import InputError
from models.manifest import CARD_FILE, MANIFEST_FILE, MODEL_FILE, read_manifest, read_model
from training.export import beside, refuse_foreign
from training.live_verdict import Verdict, read_verdict

MODEL = "model"


def run(folder: Path, released: Path) -> None:
    verdict = read_verdict(folder)
    refuse_unless_won(verdict, folder, released)
    with beside(released) as draft:
        for name in (MODEL_FILE, MANIFEST_FILE, CARD_FILE):
            shutil.copyfile(folder / MODEL / name, draft / name)
    typer.echo(f"{released} is now {read_manifest(released).label}; it {verdict.words()}")


def refuse_unless_won(verdict: Verdict, folder: Path, released: Path) -> None:
    """The verdict must be about these two models, and for the candidate."""
    manifest, _ = read_model(folder / MODEL)
    refuse_foreign(released)
    if manifest.sha256 != verdict.candidate_sha256:
        raise InputError(
            f"{folder}: the verdict is about {verdict.candidate_sha256[:12]}, the model is {manifest.label}"
        )
    now = read_manifest(released)
    if now.sha256 != verdict.released_sha256:
        raise InputError(
            f"{folder}: it was compared with {verdict.released_sha256[:12]}, but {released} is {now.label}: train again"
        )
    if not verdict.wins:
        raise InputError(f"{folder}: not released, because it {verdict.words()}")

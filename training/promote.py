"""``pilotfish promote``: a candidate that has won its examination becomes the released model; any other is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from agent.errors import InputError
from envs.rewards import DIGEST as WEIGHTS_DIGEST
from models.manifest import Manifest, read_manifest, read_model
from training.export import refuse_foreign, replace_by
from training.live_config import LEAST_EPISODES
from training.live_verdict import RECORDING, Verdict, read_verdict
from training.model_card import of_present_world

MODEL = "model"


def run(folder: Path, released: Path) -> None:
    verdict = read_verdict(folder)
    refuse_unless_won(verdict, folder, released)
    replace_by(folder / MODEL, released)
    typer.echo(f"{released} is now {read_manifest(released).label}; it {verdict.words()}")


def refuse_unless_won(verdict: Verdict, folder: Path, released: Path) -> None:
    """The verdict must be about these two models, by today's costs, in enough worlds, and for the candidate."""
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
    _refuse_other_worlds(verdict, folder)
    too_little = lacking(verdict.episodes, now)
    if too_little:
        raise InputError(f"{folder}: not released, because {too_little}; train again")
    if not verdict.wins:
        raise InputError(f"{folder}: not released, because it {verdict.words()}")


def _refuse_other_worlds(verdict: Verdict, folder: Path) -> None:
    """A victory by other prices, or in a world of the same name, says nothing of this one."""
    if verdict.weights_digest != WEIGHTS_DIGEST:
        weights = f"cost weights {verdict.weights_digest}, today's are {WEIGHTS_DIGEST}"
        raise InputError(f"{folder}: it was examined by {weights}: train again")
    others = [row.scenario for row in verdict.rows if not of_present_world(row)]
    if others:
        raise InputError(f"{folder}: it was examined in other worlds than today's {', '.join(others)}: train again")


def lacking(episodes: Mapping[str, int], released: Manifest) -> str:
    """What an examination of so many episodes of each world leaves open; nothing, if that is enough to replace it.

    Whatever the released model was measured in must be measured again: there the candidate may be worse. A recording
    need not be, because not everybody has it; what a model of unknown merit was trained in stands for it.
    """
    measured = [row.scenario for row in released.evaluation if not row.scenario.startswith(RECORDING)]
    worlds = dict.fromkeys([*(measured or released.training.scenarios), *episodes])
    few = [f"{name} {episodes.get(name, 0)}" for name in worlds if episodes.get(name, 0) < LEAST_EPISODES]
    wanted = f"the examination needs {LEAST_EPISODES} episodes of every world and has of"
    return f"{wanted} {', '.join(few)}" if few else ""

"""A run goes on, and is exported, in the worlds that it began in: synthetic, of traces, or of a recording."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import yaml

from agent.errors import InputError
from agent.heuristics.registry import scorer_by_name
from envs.workloads.scenario import Scenario
from models.manifest import read_manifest
from tests.training.test_train import TINY, assert_same, weights
from training import release
from training.checkpoint import load_checkpoint
from training.ppo import EpisodicPPO
from training.record_simulation import record_simulation
from training.train import BEST, CHECKPOINT, MODEL, run
from training.worlds import make_world

pytestmark = pytest.mark.timeout(400)  # the first to run waits until numba has compiled the simulator

FIXTURES = Path(__file__).parents[1] / "envs" / "workloads" / "fixtures"  # a few rows in every trace format
STOPPED_AT = 2  # the update


def begin(
    config: Path, out: Path, traces: Path | None = None, recording: Path | None = None, resume: bool = False
) -> None:
    """``pilotfish train --config CONFIG --out OUT`` and so on."""
    run(
        config=str(config), scenarios=[], traces=traces, recording=recording, steps=None, minutes=None, seed=None,
        out=out, resume=resume, as_json=True,
    )  # fmt: skip


def go_on(out: Path, **options: Path) -> None:
    """``pilotfish train --out OUT --resume``"""
    begin(Path("default"), out, resume=True, **options)


def stopped(config: Path, out: Path, **options: Path) -> None:
    """As by Ctrl-C in the middle."""
    learn = EpisodicPPO.train

    def interrupted(self: EpisodicPPO) -> None:
        if self.updates == STOPPED_AT:
            raise KeyboardInterrupt
        learn(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EpisodicPPO, "train", interrupted)
        with pytest.raises(InputError, match=f"go on with: pilotfish train --out {out} --resume"):
            begin(config, out, **options)


def ranges(model: Path) -> object:
    manifest = read_manifest(model)
    return manifest.node_features, manifest.pod_features


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY | {"decisions": 9_000}))
    return path


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory, small: Scenario) -> dict[str, Path]:
    """What worlds can be made of, by the option that names it."""
    folder = tmp_path_factory.mktemp("origins")
    shutil.copytree(FIXTURES, folder / "traces")
    long = small.model_copy(update={"horizon_s": 600.0})
    record_simulation(make_world(long, 1, 0), scorer_by_name("expected_utilisation"), folder / "recording")
    return {"traces": folder / "traces", "recording": folder / "recording"}


@pytest.fixture(scope="module")
def begun(config: Path, origins: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A stopped run in worlds of each kind."""
    folder = tmp_path_factory.mktemp("begun")
    for kind, options in {"synthetic": {}, **{kind: {kind: path} for kind, path in origins.items()}}.items():
        stopped(config, folder / kind, **options)
    return {kind: folder / kind for kind in ("synthetic", *origins)}


@pytest.mark.parametrize("kind", ["traces", "recording"])
def test_it_goes_on_as_if_it_had_not_been_stopped_without_being_told_of_its_worlds_again(
    kind: str, config: Path, origins: dict[str, Path], begun: dict[str, Path], tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    out = Path(shutil.copytree(begun[kind], tmp_path / "out"))
    begin(config, whole, **{kind: origins[kind]})
    go_on(out)
    assert load_checkpoint(out / CHECKPOINT).updates >= STOPPED_AT
    assert_same(weights(out), weights(whole))
    release.run(out / BEST, tmp_path / "exported")  # the ranges of the features are those of the same worlds
    assert ranges(tmp_path / "exported") == ranges(out / MODEL) == ranges(whole / MODEL)


@pytest.mark.parametrize("kind", ["traces", "recording"])
def test_it_goes_on_as_well_if_it_is_told_where_the_same_folder_is_now(
    kind: str, origins: dict[str, Path], begun: dict[str, Path], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(begun[kind], tmp_path / "out"))
    copied = Path(shutil.copytree(origins[kind], tmp_path / "copied"))
    go_on(out, **{kind: copied})
    origin = load_checkpoint(out / CHECKPOINT).origin
    assert origin is not None
    assert (origin.option, origin.path) == (kind, str(copied))


@pytest.mark.parametrize(
    ("began", "asked"), [("synthetic", "traces"), ("traces", "recording"), ("recording", "traces")]
)
def test_it_does_not_go_on_in_worlds_of_another_kind(
    began: str, asked: str, origins: dict[str, Path], begun: dict[str, Path]
) -> None:
    files = {path: path.read_bytes() for path in begun[began].glob("*.*")}
    words = "synthetic worlds" if began == "synthetic" else f"--{began} {origins[began]}"
    with pytest.raises(InputError, match=f"began with {words} and cannot go on with --{asked} {origins[asked]};"):
        go_on(begun[began], **{asked: origins[asked]})
    assert {path: path.read_bytes() for path in begun[began].glob("*.*")} == files


def test_it_does_not_go_on_with_other_traces(origins: dict[str, Path], begun: dict[str, Path], tmp_path: Path) -> None:
    fewer = Path(shutil.copytree(origins["traces"], tmp_path / "fewer"))
    shutil.rmtree(fewer / "latency")
    with pytest.raises(InputError, match=f"cannot go on with --traces {fewer};"):
        go_on(begun["traces"], traces=fewer)


@pytest.mark.parametrize("kind", ["traces", "recording"])
@pytest.mark.parametrize("how", ["gone", "changed"])
def test_neither_training_nor_export_goes_on_where_its_folder_is_gone_or_changed(
    kind: str, how: str, origins: dict[str, Path], begun: dict[str, Path], tmp_path: Path
) -> None:
    origin, aside = origins[kind], tmp_path / "aside"
    origin.rename(aside)
    try:
        if how == "changed":
            shutil.copytree(aside, origin)
            first = min(path for path in origin.rglob("*") if path.suffix in (".csv", ".gz"))
            shutil.copy(first, first.with_name(f"one_more_{first.name}"))
        for again in (lambda: go_on(begun[kind]), lambda: release.run(begun[kind] / BEST, tmp_path / "model")):
            with pytest.raises(InputError, match=f"--{kind} {origin},? (which|has) .*{how}"):
                again()
    finally:
        shutil.rmtree(origin, ignore_errors=True)
        aside.rename(origin)
    assert not (tmp_path / "model").exists()


def test_traces_and_a_recording_at_once_are_refused(config: Path, origins: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--traces and --recording"):
        begin(config, tmp_path / "out", **origins)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_from_before_worlds_were_kept_is_taken_as_synthetic(
    begun: dict[str, Path], tmp_path: Path
) -> None:
    content = torch.load(begun["synthetic"] / CHECKPOINT, weights_only=True)
    older = {name: value for name, value in content.items() if name not in ("origin", "since_best")}
    torch.save(older, tmp_path / CHECKPOINT)
    loaded = load_checkpoint(tmp_path / CHECKPOINT)
    assert (loaded.origin, loaded.since_best) == (None, 0)

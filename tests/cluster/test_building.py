"""What the build promises: another version is another folder, and what is missing says how to get it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster import building, gotool


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_another_version_of_a_module_is_built_beside_the_old_one(monkeypatch, tmp_path):
    shutil.copytree(building.SOURCES, tmp_path / "tools")
    before = {module: building.folder_of(module) for module in ("controlplane", "kwok")}
    go_mod = tmp_path / "tools" / "kwok" / "go.mod"
    go_mod.write_text(go_mod.read_text().replace("sigs.k8s.io/kwok v0.8.0", "sigs.k8s.io/kwok v0.7.0"))
    monkeypatch.setattr(building, "SOURCES", tmp_path / "tools")
    assert building.folder_of("kwok") != before["kwok"]
    assert building.folder_of("controlplane") == before["controlplane"]


def test_a_program_that_is_not_built_says_which_command_builds_it(empty_cache):
    with pytest.raises(building.ToolMissing, match="kube-scheduler is not built yet: run `make cluster-tools`"):
        building.tool("kube-scheduler")


def test_the_newest_go_that_a_module_asks_for_is_the_one_needed():
    needed = gotool.needed_version([building.SOURCES / "controlplane", building.SOURCES / "kwok"])
    assert needed == (1, 26, 0)


def test_a_go_that_is_too_old_is_not_taken(empty_cache, monkeypatch):
    """The installed one is, and otherwise the package: here its place is taken by a file that only has to exist."""
    installed = empty_cache / gotool.GO_PACKAGE / "go" / "bin" / "go"
    installed.parent.mkdir(parents=True)
    installed.touch()
    assert gotool.go_command((1, 999, 0), empty_cache) == installed


def test_a_manifest_that_is_new_joins_a_cache_that_has_every_program(empty_cache, monkeypatch):
    folder = building.folder_of("kwok")
    folder.mkdir(parents=True)
    for name in ("kwok", "kwok-stages.yaml"):
        (folder / name).touch()
    kept = []
    monkeypatch.setattr(building, "go_command", lambda needed, cache: Path("go"))
    monkeypatch.setattr(building, "_keep_manifests", lambda go, module: kept.append(module))
    building.build_all([building.BY_NAME["kwok"]])
    assert kept == ["kwok"]
    (folder / "kwok-roles.yaml").touch()
    building.build_all([building.BY_NAME["kwok"]])
    assert kept == ["kwok"], "all is there"


@pytest.mark.slow
def test_every_program_that_was_built_starts():
    for program in building.PROGRAMS:
        done = subprocess.run([building.tool(program.name), "--version"], capture_output=True, text=True, check=True)
        assert done.stdout, program.name

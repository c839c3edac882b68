"""Builds the image as `make image` does, without a daemon, on a machine that reaches no registry of images.

The base image comes from debootstrap and is made lean as debian:bookworm-slim is. Everything is kept in the user's
cache, so that every checkout shares it and a second build takes seconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/debian:bookworm-slim"
IMAGE = "localhost/pilotfish:test"
BUILD_TIMEOUT_S = 1800

# What debian:bookworm-slim leaves out, and how it keeps apt from leaving things behind.
LEFT_OUT = ("doc", "info", "locale", "man", "groff", "lintian", "linda")
DPKG_RULES = "".join(f"path-exclude /usr/share/{name}/*\n" for name in LEFT_OUT)
APT_RULES = 'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\nAPT::Keep-Downloaded-Packages "false";\n'

CERTIFICATES_INSIDE = "/run/certificates-of-the-host.pem"


class Buildah:
    """buildah with a storage of its own, so that it meets no image of anybody else's."""

    def __init__(self) -> None:
        missing = [program for program in ("buildah", "debootstrap") if shutil.which(program) is None]
        if missing:
            raise AssertionError(f"{' and '.join(missing)} missing: tests/system_packages.sh installs what tests need")
        self.folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotfish" / "image"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}

    def command(self, *arguments: str) -> list[str]:
        return ["buildah", f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'run'}", *arguments]

    def run(self, *arguments: str, timeout_s: float = 120) -> str:
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"buildah {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout.strip()

    def has(self, image: str) -> bool:
        command = self.command("inspect", "--type=image", image)
        return subprocess.run(command, env=self.environment, capture_output=True, check=False).returncode == 0

    def inspect(self, image: str) -> dict[str, Any]:
        return json.loads(self.run("inspect", "--type=image", image))

    @contextmanager
    def container(self, image: str) -> Iterator[str]:
        name = self.run("from", "--pull-never", image)
        try:
            yield name
        finally:
            self.run("rm", name)

    @contextmanager
    def files(self, image: str) -> Iterator[Path]:
        """The files of an image, to look at."""
        with self.container(image) as container:
            yield Path(self.run("mount", container))


def build_image() -> Buildah:
    """The image of this checkout; two test runs that start together build one after the other."""
    buildah = Buildah()
    with (buildah.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not buildah.has(BASE):
            _make_base(buildah)
        options = ["--pull=never", "--layers", "--format=docker", f"--tag={IMAGE}", *_how_to_reach_packages()]
        buildah.run("build", *options, str(ROOT), timeout_s=BUILD_TIMEOUT_S)
    return buildah


def _make_base(buildah: Buildah) -> None:
    files = buildah.folder / "debian"
    shutil.rmtree(files, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", "bookworm", str(files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode:
        raise AssertionError(f"debootstrap: {done.stdout[-4000:]}")
    (files / "etc/dpkg/dpkg.cfg.d/slim").write_text(DPKG_RULES)
    (files / "etc/apt/apt.conf.d/slim").write_text(APT_RULES)
    for folder in (*(f"usr/share/{name}" for name in LEFT_OUT), "var/lib/apt/lists", "var/cache/apt/archives"):
        for entry in (files / folder).glob("*"):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    container = buildah.run("from", "scratch")
    buildah.run("add", container, str(files), "/", timeout_s=BUILD_TIMEOUT_S)
    buildah.run("commit", "--rm", container, BASE, timeout_s=BUILD_TIMEOUT_S)
    shutil.rmtree(files)


def _how_to_reach_packages() -> list[str]:
    """This machine's way to the package index, for the time of the build."""
    options = []
    if index := os.environ.get("PIP_INDEX_URL"):
        options.append(f"--build-arg=PIP_INDEX_URL={index}")
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    if Path(wheels).is_absolute() and Path(wheels).is_dir():
        options += [f"--volume={wheels}:{wheels}:ro", f"--build-arg=PIP_FIND_LINKS={wheels}"]
    if certificates := os.environ.get("PIP_CERT"):
        options += [f"--volume={certificates}:{CERTIFICATES_INSIDE}:ro", f"--build-arg=PIP_CERT={CERTIFICATES_INSIDE}"]
    return options

"""Builds the programs of a real control plane once: ``make cluster-tools``.

They lie in the user's cache, under a digest of the go.mod and go.sum they were built from, so every checkout shares
them and a change of version builds anew. The first build takes some 10 to 30 minutes, by the machine; it says how far
it is. A lock lets two runs that start together build once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.gotool import GoMissing, go_command, go_environment, needed_version

SOURCES = Path(__file__).parent / "tools"
KUBERNETES_VERSION = "v1.35.4"
SAY_EVERY_S = 10.0

MATRIX_VERSIONS = {"1.34": "v1.34.4", "1.36": "v1.36.3"}  # of kube-scheduler alone, beside the one above


def _flags_of(version: str) -> str:
    """Without them the parts call themselves v0.0.0-master."""
    return f"-s -w -X k8s.io/component-base/version.gitVersion={version}"


KUBERNETES_FLAGS = _flags_of(KUBERNETES_VERSION)

PEERS_KUBERNETES_VERSION = "v1.34.4"
MANIFESTS = {  # what programs have to be given, by the folder under tools/: from which Go module, and which files of it
    "kwok": (
        "sigs.k8s.io/kwok",
        {
            "kwok-stages.yaml": (
                "kustomize/stage/node/fast/node-initialize.yaml",
                "kustomize/stage/node/heartbeat/node-heartbeat.yaml",
                "kustomize/stage/pod/fast/pod-ready.yaml",
                "kustomize/stage/pod/fast/pod-complete.yaml",
                "kustomize/stage/pod/fast/pod-delete.yaml",
            ),
            "kwok-roles.yaml": (
                "kustomize/rbac/service_account.yaml",
                "kustomize/rbac/role.yaml",
                "kustomize/rbac/role_binding.yaml",
            ),
        },
    ),
    "schedulerplugins": (
        "sigs.k8s.io/scheduler-plugins",
        {
            "peers-crds.yaml": ("manifests/appgroup/crd.yaml", "manifests/networktopology/crd.yaml"),
            "peers-roles.yaml": ("manifests/networktopology/cluster-role.yaml",),
        },
    ),
}


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    module: str  # the folder under tools/ whose go.mod names its version
    flags: str = "-s -w"


KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", "controlplane"),
    *(Program(name, f"k8s.io/kubernetes/cmd/{name}", "controlplane", KUBERNETES_FLAGS) for name in KUBERNETES_PROGRAMS),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", "kwok"),
)
MATRIX = tuple(
    Program(f"kube-scheduler-{minor}", "k8s.io/kubernetes/cmd/kube-scheduler", f"scheduler-{minor}", _flags_of(version))
    for minor, version in MATRIX_VERSIONS.items()
)
PEERS = (  # whom Pilotfish is compared with
    Program(
        "scheduler-plugins",
        "sigs.k8s.io/scheduler-plugins/cmd/scheduler",
        "schedulerplugins",
        _flags_of(PEERS_KUBERNETES_VERSION),
    ),
)
BY_NAME = {program.name: program for program in (*PROGRAMS, *MATRIX, *PEERS)}
MODULE_OF = {name: program.module for name, program in BY_NAME.items()} | {
    name: module for module, (_, manifests) in MANIFESTS.items() for name in manifests
}
TARGETS = {"schedulerplugins": "peers"} | {program.module: "test-matrix" for program in MATRIX}


class ToolMissing(Exception):
    """A program has not been built."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotfish" / "cluster-tools"


def folder_of(module: str) -> Path:
    """Where the programs of a module lie; another go.mod is another folder."""
    digest = hashlib.sha256(KUBERNETES_FLAGS.encode())
    for name in ("go.mod", "go.sum"):
        digest.update((SOURCES / module / name).read_bytes())
    return cache_folder() / f"{module}-{digest.hexdigest()[:16]}"


def tool(name: str) -> Path:
    """The built program of that name, or a manifest that belongs to it."""
    module = MODULE_OF[name]
    path = folder_of(module) / name
    if not path.exists():
        target = TARGETS.get(module, "cluster-tools")
        raise ToolMissing(f"{name} is not built yet: run `make {target}` (10 to 30 minutes, once)")
    return path


def build_all(programs: Sequence[Program] = PROGRAMS) -> None:
    """Those of them that are not there yet, and the manifests that belong to them."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _only_one_builder():
        missing = [program for program in programs if not (folder_of(program.module) / program.name).exists()]
        modules = sorted({program.module for program in programs})
        without_manifests = [module for module in modules if _lacks_manifests(module)]
        if not missing and not without_manifests:
            return
        go = go_command(needed_version([SOURCES / module for module in modules]), cache_folder())
        for module in without_manifests:
            _keep_manifests(go, module)
        for program in missing:
            _build(go, program)


def _lacks_manifests(module: str) -> bool:
    _, manifests = MANIFESTS.get(module, ("", {}))
    return not all((folder_of(module) / name).exists() for name in manifests)


@contextmanager
def _only_one_builder() -> Iterator[None]:
    with (cache_folder() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another run is building the cluster tools: waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: Path, program: Program) -> None:
    """Compile and link into a temporary name, so that an interrupted build leaves nothing that looks finished."""
    folder = folder_of(program.module)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{program.name}.partial"
    options = ["-v", "-mod=readonly", f"-ldflags={program.flags}", "-o", str(partial)]
    began_s = time.monotonic()
    _say(f"{program.name}: building ...")
    _run_with_progress([str(go), "build", *options, program.package], SOURCES / program.module, go, program.name)
    partial.rename(folder / program.name)
    _say(f"{program.name}: built in {time.monotonic() - began_s:.0f} s")


def _run_with_progress(command: list[str], folder: Path, go: Path, name: str) -> None:
    """``go build -v`` names each package that it compiles; say now and then how many that were."""
    said: list[str] = []
    packages, spoke_s = 0, time.monotonic()
    environment = go_environment(go)
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as build:
        for line in build.stderr or ():
            packages, said = packages + 1, [*said[-20:], line]
            if time.monotonic() - spoke_s > SAY_EVERY_S:
                spoke_s = time.monotonic()
                _say(f"{name}: {packages} packages, now {line.strip()}")
    if build.returncode:
        raise SystemExit(f"cluster-tools: {name} does not build:\n{''.join(said)}")


def _keep_manifests(go: Path, module: str) -> None:
    """Copies beside the program: the module cache may be emptied at any time."""
    folder, (source, manifests) = folder_of(module), MANIFESTS[module]
    folder.mkdir(parents=True, exist_ok=True)
    download = [str(go), "mod", "download", "-json", source]
    told = subprocess.check_output(download, cwd=SOURCES / module, env=go_environment(go))
    found = Path(json.loads(told)["Dir"])
    for name, parts in manifests.items():
        partial = folder / f"{name}.partial"
        partial.write_text("---\n".join((found / part).read_text() for part in parts))
        partial.rename(folder / name)


def _say(line: str) -> None:
    sys.stdout.write(f"cluster-tools: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        build_all(PEERS if sys.argv[1:] == ["peers"] else PROGRAMS)
    except GoMissing as why:
        raise SystemExit(f"cluster-tools: {why}") from why
    _say(f"ready in {cache_folder()}")

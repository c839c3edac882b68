"""The extender against several versions of kube-scheduler: ``make test-matrix``.

Only kube-scheduler changes; the rest of the control plane stays. A version that does not build with the Go that there
is, or whose tests do not even start, says so in its row.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report import origin
from tests.cluster.api import Object
from tests.cluster.building import BY_NAME, MATRIX, PROGRAMS, Program, build_all, tool
from tests.cluster.controllers import SCHEDULER_TOOL, SCHEDULER_VARIABLE
from tests.cluster.gotool import GoMissing
from tests.cluster.results import MATRIX as PAGE
from tests.cluster.results import keep

TESTS = "tests/cluster/test_sidecar.py"
COUNTS = ("tests", "failures", "errors", "skipped")


def row_of(program: str) -> Object:
    """What came of the tests with this program as kube-scheduler."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", TESTS, "-p", "no:cacheprovider", f"--junit-xml={report}"]
        done = subprocess.run(command, env=os.environ | {SCHEDULER_VARIABLE: program}, check=False)
        if not report.exists():
            raise SystemExit(f"pytest ended with code {done.returncode} and left no report")
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    counts = {name: int(suite.get(name, "0")) for name in COUNTS}
    said = subprocess.check_output([tool(program), "--version"], text=True).split()
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    return {"version": said[-1], "tests": counts["tests"], "passed": passed}


def tried(program: Program) -> Object:
    """Built and tested; what went wrong before any test is one line in its row."""
    try:
        build_all([program])
        return row_of(program.name)
    except (GoMissing, SystemExit) as why:
        return {"version": program.name, "tests": 0, "passed": str(why).partition("\n")[0]}


def main() -> None:
    began = origin()
    try:
        build_all(PROGRAMS)
    except GoMissing as why:
        raise SystemExit(f"test-matrix: {why}") from why
    rows = [tried(program) for program in (BY_NAME[SCHEDULER_TOOL], *MATRIX)]
    keep(PAGE, sorted(rows, key=lambda row: str(row["version"])), began)
    if any(row["passed"] != row["tests"] for row in rows):
        raise SystemExit(f"test-matrix: not every version passed: {rows}")


if __name__ == "__main__":
    main()

"""The notebooks run from top to bottom, hold no logic, and are stored without their outputs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_LINES = 20  # of a cell
LOGIC = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.Try, ast.With)


def cells(path: Path, kind: str = "code") -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def test_all_three_are_there():
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_call_the_packages_and_hold_no_logic(path):
    for cell in cells(path):
        source = "".join(cell["source"])
        assert len(source.splitlines()) <= MOST_LINES
        assert not any(isinstance(part, LOGIC) for part in ast.walk(ast.parse(source)))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    text = "".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    links = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert all((path.parent / link).is_file() for link in links if not link.startswith("http"))


@pytest.mark.slow
@pytest.mark.timeout(600)  # with nothing compiled and a busy machine; else under a minute each
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=600"]
    done = subprocess.run(
        [*command, "--nbmake", "--nbmake-timeout=600", str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]

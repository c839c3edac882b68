"""Documents that say something false are worse than none: what can be checked here, is."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer

import pilotfish

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

LAST_ID = {"S0": 33, "S1": 39, "S2": 24, "S3": 37, "S4": 20, "X": 6}
STATE = re.compile(r"done|planned: (issue \d+|later)")


def requirement_rows() -> list[tuple[str, str, str, str]]:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ((?:S\d|X)\.\d+) \| (.+?) \| (.+?) \|(.*)\|$", text, flags=re.MULTILINE)


@cache
def functions_in(file: Path) -> set[str]:
    """Names of the functions of a test file, those in classes as ``Class::name``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for group in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names |= {f"{group.name}::{node.name}" for node in group.body if isinstance(node, ast.FunctionDef)}
    return names


def is_a_test(reference: str) -> bool:
    path, _, name = reference.partition("::")
    return (ROOT / path).is_file() and name in functions_in(ROOT / path)


def test_every_requirement_has_exactly_one_row():
    wanted = [f"{group}.{number}" for group, last in LAST_ID.items() for number in range(1, last + 1)]
    assert [row[0] for row in requirement_rows()] == wanted


def test_every_requirement_is_done_or_planned():
    assert [row[0] for row in requirement_rows() if not STATE.fullmatch(row[2])] == []


def test_every_done_requirement_names_tests_that_exist():
    claimed = {
        identifier: re.findall(r"`(.+?)`", tests)
        for identifier, _, state, tests in requirement_rows()
        if state == "done"
    }
    untrue = {identifier: tests for identifier, tests in claimed.items() if not tests or not all(map(is_a_test, tests))}
    assert untrue == {}


def test_every_test_named_for_a_part_exists_too():
    named = [name for row in requirement_rows() for name in re.findall(r"`(tests/.+?)`", row[3])]
    assert [name for name in named if not is_a_test(name)] == []


def test_references_to_tests_are_checked_by_file_and_name():
    here = "tests/contracts/test_docs.py"
    assert is_a_test(f"{here}::test_every_requirement_has_exactly_one_row")
    assert not is_a_test(f"{here}::test_no_such_thing")
    assert not is_a_test("tests/no_such_file.py::test_every_requirement_has_exactly_one_row")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(document: Path):
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_make_target_named_in_a_document_exists(document: Path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_command_named_in_a_document_exists(document: Path):
    commands = set(typer.main.get_command(pilotfish.app).commands)
    named = re.findall(r"(?:^|`|/)pilotfish ([a-z-]+)", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {name for name in named if not name.startswith("--")} <= commands


def commands_in(document: Path) -> list[list[str]]:
    """What follows `pilotfish` in code, up to the end of the line, the code or the comment."""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"(?:^|`|/|\$ |-- )pilotfish ([a-z][^`#|\n]*)", text, flags=re.MULTILINE)
    return [line.split() for line in lines]


def options_of(words: list[str]) -> set[str]:
    """The options that the command at the beginning of these words takes."""
    command = typer.main.get_command(pilotfish.app)
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_option_named_in_a_document_exists(document: Path):
    unknown = [
        (words[0], option)
        for words in commands_in(document)
        for option in (word.strip("[].,;:()") for word in words if word.lstrip("[(").startswith("--"))
        if option.partition("=")[0] not in options_of(words)
    ]
    assert unknown == []


def test_options_are_those_of_the_command_that_is_named():
    assert "--policy" in options_of(["simulate", "edge"])
    assert "--policy" not in options_of(["headroom"])
    assert "--skip-bad" in options_of(["record", "pack"])


CODE = ("agent", "envs", "models", "training", "serving", "benchmarks")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_file_of_ours_named_in_a_document_exists(document: Path):
    folders = "|".join((*CODE, "tests", "docs", "deploy", "notebooks"))
    named = re.findall(rf"`((?:{folders})/[\w./*-]+)`", document.read_text(encoding="utf-8"))
    ours = [name for name in named if not name.startswith("models/released/")]  # models come and go with training
    assert [name for name in ours if not any(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_and_function_named_in_a_document_exists(document: Path):
    packages = "|".join(name for name in CODE if name != "models")  # a key of the health report begins like that too
    named = re.findall(rf"`((?:{packages})(?:\.\w+)+)[`(]", document.read_text(encoding="utf-8"))
    assert [name for name in named if not is_code(name)] == []


def is_code(name: str) -> bool:
    """A module or package, or a name that stands in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            text, rest = file.read_text(encoding="utf-8"), parts[length:]
            return all(re.search(rf"\b{word}\b", text) for word in rest)
    return False


def test_code_is_found_by_module_and_name():
    assert is_code("envs.workloads.calibration.calibrate")
    assert is_code("envs.dynamics")
    assert not is_code("envs.workloads.calibration.callibrate")
    assert not is_code("envs.nowhere")


def declared_libraries() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = {**project["project"]["optional-dependencies"], **project["dependency-groups"]}
    requirements = [*project["project"]["dependencies"], *(name for group in groups.values() for name in group)]
    return [re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements]


def test_every_dependency_is_explained():
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    assert [name for name in declared_libraries() if not re.search(rf"\b{name}\b", explained)] == []


def test_every_dependency_has_an_exact_version():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"[a-z0-9-]+==\S+( ; .+)?$", pin) for pin in pins)
    assert set(declared_libraries()) <= {pin.partition("==")[0] for pin in pins}

"""A kernel on disk that was made from older rules must not be used."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from envs import batch_kernels, batch_rules
from envs.batch_arrays import rows
from envs.dynamics import contention, costs, sampling, scraping, traffic, usage
from envs.kernel_cache import digest


@pytest.fixture
def rule(tmp_path):
    """A function as numba wraps it, from a file with this content."""

    def make(content: str) -> SimpleNamespace:
        file = tmp_path / "rules.py"
        file.write_text(content)
        spec = importlib.util.spec_from_file_location("rules", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return SimpleNamespace(py_func=module.rule)

    return make


def test_digest_changes_with_the_file_of_a_rule(rule):
    before = digest({"rule": rule("def rule():\n    return 1\n")})
    assert digest({"rule": rule("def rule():\n    return 1\n")}) == before
    assert digest({"rule": rule("def rule():\n    return 2\n")}) != before
    assert digest({"rule": rule("LIMIT = 3\n\ndef rule():\n    return 1\n")}) != before


def test_digest_changes_with_a_constant_and_with_the_order_of_columns():
    before = digest({"LIMIT": 80, "COUNT": rows("COUNT", "tape nodes")})
    assert digest({"LIMIT": 81, "COUNT": rows("COUNT", "tape nodes")}) != before
    assert digest({"LIMIT": 80, "COUNT": rows("COUNT", "nodes tape")}) != before


def test_digest_does_not_change_with_what_is_not_compiled():
    assert digest({"LIMIT": 80, "module": costs, "text": "a"}) == digest({"LIMIT": 80, "text": "b"})


@pytest.mark.parametrize("module", [contention, sampling, scraping, traffic, usage], ids=lambda module: module.__name__)
def test_kernels_compile_every_rule_from_its_one_source(module):
    sources = {value.py_func.__module__ for value in vars(batch_rules).values() if hasattr(value, "py_func")}
    assert module.__name__ in sources


def test_every_module_with_kernels_is_a_part_of_the_digest():
    modules = {
        value.py_func.__module__
        for part in (batch_kernels, *batch_kernels.PARTS)
        for value in vars(part).values()
        if hasattr(value, "py_func") and value.py_func.__module__.startswith("envs.batch_")
    }
    assert modules <= {"envs.batch_kernels", *(part.__name__ for part in batch_kernels.PARTS)}

"""The filter of pyproject.toml works by module name; a pattern that matches nothing would fail silently."""

from __future__ import annotations

import warnings

import pytest


@pytest.mark.parametrize("module", ["agent.cluster", "envs", "models.x", "training.cli", "serving.app", "pilotfish"])
def test_warning_caused_by_our_own_code_is_an_error(module):
    with pytest.raises(UserWarning, match="ours"):
        warnings.warn_explicit("ours", UserWarning, "file.py", 1, module=module)


@pytest.mark.parametrize("module", ["numba.core", "agents", "pilotfish_plugin"])
def test_warning_caused_by_a_library_is_not(module):
    with warnings.catch_warnings(record=True) as seen:  # keeps the filters, as pytest.warns does not
        warnings.warn_explicit("theirs", UserWarning, "file.py", 1, module=module)
    assert [str(warning.message) for warning in seen] == ["theirs"]

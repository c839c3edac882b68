"""Which fields a search varies, and within which bounds."""

from __future__ import annotations

import pytest

from agent.errors import InputError
from training.config import load_config
from training.search_space import Choices, Range, changed, load_space, present


@pytest.fixture(scope="module")
def base():
    return load_config("default")


def a_file(tmp_path, text: str) -> str:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return str(path)


def test_default_space_fits_the_default_configuration(base):
    space = load_space("default", base)
    assert isinstance(space["learning.first_rate"], Range)
    assert isinstance(space["learning.epochs"], Choices)
    assert changed(base, present(base, space)) == base


def test_values_are_put_where_their_names_say(base):
    config = changed(base, {"learning.first_rate": 0.002, "network.hidden": 32, "seed": 7})
    assert (config.learning.first_rate, config.network.hidden, config.seed) == (0.002, 32, 7)
    assert config.learning.last_rate == base.learning.last_rate


@pytest.mark.parametrize(
    ("share", "log", "value"), [(0.0, False, 1.0), (0.5, False, 50.5), (1.0, False, 100.0), (0.5, True, 10.0)]
)
def test_a_range_is_even_or_even_by_the_logarithm(share, log, value):
    assert Range(low=1.0, high=100.0, log=log).at(share) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning.speed: {low: 1, high: 2}", "learning.speed is no field"),
        ("learning.first_rate.deep: {low: 1, high: 2}", "is no field"),
        ("learning.first_rate: {low: -1, high: 2}", "learning.first_rate: Input should be greater than 0"),
        ("learning.first_rate: {low: 2, high: 1}", "low must be less"),
        ("learning.first_rate: {low: 0, high: 1, log: true}", "above 0 with log"),
        ("learning.epochs: {choices: []}", "at least 1 item"),
        ("learning.epochs: {chices: [1]}", "Extra inputs"),
        ("a: [", "not YAML"),
        ("- 1", "valid dictionary"),
    ],
)
def test_a_wrong_space_is_one_clear_error(text, message, base, tmp_path):
    with pytest.raises(InputError, match=message):
        load_space(a_file(tmp_path, text), base)


def test_an_unknown_space_names_the_choices(base):
    with pytest.raises(InputError, match="unknown search space 'wide'; choose one of default"):
        load_space("wide", base)

"""Quantities against a table from apimachinery 0.35.4, and against exact fractions."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InputError
from agent.quantities import INT64_MAX, MAX_TEXT_LENGTH, millicores, nanos, value

# text, Value(), MilliValue() as Go gave them; INT64_MAX thousandths are ours where Go overflows
AS_KUBERNETES = [
    ("0", 0, 0),
    ("00", 0, 0),
    ("-0", 0, 0),
    ("0.", 0, 0),
    ("0e99", 0, 0),
    ("1", 1, 1000),
    ("+1", 1, 1000),
    ("-1", -1, -1000),
    ("007", 7, 7000),
    (".5", 1, 500),
    ("5.", 5, 5000),
    ("-.5", -1, -500),
    ("5.k", 5000, 5_000_000),
    ("100m", 1, 100),
    ("250m", 1, 250),
    ("1500m", 2, 1500),
    ("0.1m", 1, 1),
    ("1.5m", 1, 2),
    ("-1.5m", -1, -2),
    ("-1.5", -2, -1500),
    ("1u", 1, 1),
    ("1500u", 1, 2),
    ("1000u", 1, 1),
    ("1n", 1, 1),
    ("0.1n", 1, 1),
    ("1.0000000001", 2, 1001),
    ("1e-50", 1, 1),
    ("1k", 1000, 10**6),
    ("1M", 10**6, 10**9),
    ("1G", 10**9, 10**12),
    ("1T", 10**12, 10**15),
    ("1P", 10**15, 10**18),
    ("9E", 9 * 10**18, INT64_MAX),
    ("1Ki", 1024, 1024_000),
    ("1Mi", 2**20, 2**20 * 1000),
    ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
    ("1Ti", 2**40, 2**40 * 1000),
    ("1Pi", 2**50, 2**50 * 1000),
    ("1Ei", 2**60, INT64_MAX),
    ("1.1Ki", 1127, 1126_400),
    ("0.1Ki", 103, 102_400),
    ("0.0000000001Ki", 1, 1),
    ("1e3", 1000, 10**6),
    ("1E3", 1000, 10**6),
    ("1e+3", 1000, 10**6),
    ("1E", 10**18, INT64_MAX),
    ("12e-1", 2, 1200),
    ("1e-3", 1, 1),
    ("9223372036854775807", INT64_MAX, INT64_MAX),
    ("9223372036854775807m", 9223372036854776, INT64_MAX),
    ("8Ei", INT64_MAX, INT64_MAX),
    ("9Ei", INT64_MAX, INT64_MAX),
    ("-9Ei", -INT64_MAX, -INT64_MAX),
]

# Go wraps or gives 0 for these
CAPPED = [
    "9223372036854775808",
    "12345678901234567890",
    "10E",
    "1e19",
    "1e30",
    "1e400",
    "1e2147483648",
    "1e" + "9" * 40,
]

REFUSED = [
    *["", " ", " 1", "1 ", "1\n", "+", "-", ".", "k", "Ki", "-k", "+.", "e3", ".e3"],
    *["1K", "1ki", "1KI", "1i", "1mi", "1Mi1", "1m1", "1k2", "1Bi", "1MB", "1mM"],
    *["1e", "1e+", "1e-", "1ee", "1Ee3", "1e1.5", "1e3k", "1.2.3", "1..2", "--1", "+-1", "1-1", "1e--1"],
    *["0x10", "1_000", "1,5", "٣", "１", "∞", "nan", "inf", "NaN", "true", "None", "aoeu", "1 Gi", "$1"],
]


@pytest.mark.parametrize(("text", "units", "millis"), AS_KUBERNETES)
def test_golden_table_of_apimachinery(text, units, millis) -> None:
    assert value(text) == units
    assert millicores(text) == millis


@pytest.mark.parametrize("text", CAPPED)
def test_beyond_int64_stays_at_the_limit_instead_of_wrapping_around(text) -> None:
    assert value(text) == millicores(text) == INT64_MAX
    assert value("-" + text) == millicores("-" + text) == -INT64_MAX


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_the_text_in_the_message(text) -> None:
    with pytest.raises(InputError) as refused:
        value(text)
    assert repr(text) in str(refused.value)


def test_long_texts_are_refused_before_they_are_read() -> None:
    assert value("0" * (MAX_TEXT_LENGTH - 1) + "1") == 1
    with pytest.raises(InputError, match="65 characters"):
        value("0" * MAX_TEXT_LENGTH + "1")
    with pytest.raises(InputError, match="1000000 characters"):
        value("9" * 1_000_000)


@pytest.mark.parametrize(
    ("number", "units", "millis"),
    [(2, 2, 2000), (0, 0, 0), (-3, -3, -3000), (0.5, 1, 500), (1e22, INT64_MAX, INT64_MAX), (1e-07, 1, 1)],
)
def test_json_numbers_stand_for_their_text(number, units, millis) -> None:
    assert (value(number), millicores(number)) == (units, millis)


def test_enormous_json_integers_are_capped() -> None:
    assert value(10**5000) == INT64_MAX


@pytest.mark.parametrize("thing", [True, None, [], {}, float("nan"), float("inf"), b"1"])
def test_other_json_values_are_refused(thing) -> None:
    with pytest.raises(InputError, match="is not a Kubernetes quantity"):
        value(thing)


def test_parts_are_added_before_they_are_rounded() -> None:
    assert nanos("0.5m") + nanos("0.5m") == nanos("1m")


DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
FACTORS = {suffix: Fraction(10) ** exponent for suffix, exponent in DECIMAL.items()}
FACTORS |= {f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)}
FACTORS |= {f"e{exponent}": Fraction(10) ** exponent for exponent in range(-20, 20)}

digits = st.text("0123456789", max_size=12)
suffixes = st.sampled_from(sorted(FACTORS))


@given(digits.filter(bool), digits, suffixes)
def test_value_is_the_exact_number_rounded_up(whole, fraction, suffix) -> None:
    exact = Fraction(f"{whole}.{fraction or 0}") * FACTORS[suffix]
    text = f"{whole}.{fraction}{suffix}"
    to_nano = Fraction(ceil(exact * 10**9), 10**9)
    assert value(text) == min(ceil(to_nano), INT64_MAX)
    assert millicores(text) == min(ceil(to_nano * 1000), INT64_MAX)


@given(digits.filter(bool), suffixes)
def test_a_sign_changes_only_the_sign(number, suffix) -> None:
    assert nanos(f"+{number}{suffix}") == nanos(number + suffix)
    assert nanos(f"-{number}{suffix}") == -nanos(number + suffix)


@given(st.text(max_size=80) | st.text("0123456789.+-eEinumkKMGTP", max_size=12))
def test_any_text_is_read_or_refused_and_nothing_else(text) -> None:
    with suppress(InputError):
        assert -INT64_MAX <= value(text) <= INT64_MAX


@given(st.integers(min_value=-INT64_MAX, max_value=INT64_MAX))
def test_integers_and_their_text_agree(number) -> None:
    assert value(number) == value(str(number)) == number

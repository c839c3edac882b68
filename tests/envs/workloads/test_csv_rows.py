from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InputError
from envs.workloads import csv_rows
from envs.workloads.csv_rows import Integer, Number, Text, read_rows

COLUMNS = {"name": Text(), "count": Integer(0), "load": Number(minimum=0)}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def test_columns_are_read_by_name_whatever_their_order_and_others_are_ignored(file: Path) -> None:
    table = read_rows(write(file, "load,extra,name,count\n1.5,?,a,2\n0,?,b,3.0\n"), COLUMNS)
    assert table.texts("name").tolist() == ["a", "b"]
    assert table.ints("count").tolist() == [2, 3]
    assert table.floats("load").tolist() == [1.5, 0.0]
    assert (table.rows, table.bad_rows) == (2, 0)


def test_gzip_is_recognised_by_its_content_not_its_name(file: Path) -> None:
    file.write_bytes(gzip.compress(b"name,count,load\na,1,2\n"))
    assert read_rows(file, COLUMNS).rows == 1


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ("b,2,x1", "load", "'x1' is not a number"),
        ("b,2,nan", "load", "'nan' is not finite"),
        ("b,2,inf", "load", "'inf' is not finite"),
        ("b,2,-1", "load", "'-1' is negative"),
        ("b,2,1_000", "load", "'1_000' is not a number"),
        ("b,2,", "load", "'' is empty"),
        ("b,2.5,1", "count", "'2.5' is not a whole number"),
        ("b,-2,1", "count", "'-2' is negative"),
        ("b,1e400,1", "count", "'1e400' is not"),
        ("b,99999999999999999999,1", "count", "is above"),
        (",2,1", "name", "'' is empty"),
    ],
)
def test_bad_value_is_named_with_file_line_column_and_text(file: Path, row: str, column: str, reason: str) -> None:
    write(file, f"name,count,load\na,1,1\n\n{row}\nc,3,3\n")
    with pytest.raises(InputError) as caught:
        read_rows(file, COLUMNS)
    assert str(caught.value).startswith(f"{file}:4: column {column!r}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("row", "reason"), [("b,2", "2 fields where the header has 3"), ('b,"2,3', "is not CSV"), ("b,2,3,4", "4 fields")]
)
def test_broken_row_is_named_with_its_line(file: Path, row: str, reason: str) -> None:
    write(file, f"name,count,load\na,1,1\n{row}\nc,3,3\n")
    with pytest.raises(InputError, match=reason) as caught:
        read_rows(file, COLUMNS)
    assert str(caught.value).startswith(f"{file}:3: ")


def test_bad_value_among_good_rows_is_not_read_by_the_fast_path(file: Path) -> None:
    with pytest.raises(InputError, match=":2: column 'load': '1_000' is not a number"):
        read_rows(write(file, "name,count,load\na,1,1_000\n"), COLUMNS)
    with pytest.raises(InputError, match=":2: column 'count': '1_000' is not a number"):
        read_rows(write(file, "name,count,load\na,1_000,1\n"), COLUMNS)


def test_quotes_never_join_two_lines(file: Path) -> None:
    with pytest.raises(InputError, match=":3: is not CSV"):
        read_rows(write(file, 'name,count,load\na,1,1\nb,"2\n",3\n'), COLUMNS)


def test_skipped_rows_are_counted_and_the_first_is_kept_as_example(file: Path) -> None:
    write(file, 'name,count,load\na,1,1\nb,2\n\nc,x,1\nd,"4,1\ne,5,5\n')
    table = read_rows(file, COLUMNS, skip_bad=True)
    assert table.texts("name").tolist() == ["a", "e"]
    assert table.bad_rows == 3  # the blank line is no row
    assert ":3: 2 fields" in table.first_bad


def test_rows_refused_by_what_several_fields_say_have_the_line_they_stand_on(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_rows, "CHUNK_ROWS", 2)
    write(file, "name,count,load\na,1,1\nb,2\n\nc,3,1\nd,4,9\ne,5,9\n")
    table = read_rows(file, COLUMNS, skip_bad=True)
    kept = table.without(table.floats("load") > table.floats("count"), "load", "is above 'count'")
    assert kept.texts("name").tolist() == ["a", "c"]
    assert kept.bad_rows == 3
    strict = read_rows(write(file, "name,count,load\na,1,1\n\nd,4,9\n"), COLUMNS)
    with pytest.raises(InputError, match=r":4: column 'load': '9.0' is above 'count'"):
        strict.without(strict.floats("load") > strict.floats("count"), "load", "is above 'count'")


def test_line_numbers_hold_beyond_the_first_chunk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "CHUNK_ROWS", 4)
    monkeypatch.setattr(csv_rows, "_BLOCK_CHARS", 7)
    rows = [f"n{i},{i},{i}" for i in range(50)]
    rows[41] = "n41,41,oops"
    write(file, "name,count,load\n" + "\n".join(rows))
    with pytest.raises(InputError, match=":43: column 'load': 'oops'"):
        read_rows(file, COLUMNS)
    table = read_rows(file, COLUMNS, skip_bad=True)
    assert table.ints("count").tolist() == [i for i in range(50) if i != 41]


def test_missing_column_names_those_that_are_there(file: Path) -> None:
    with pytest.raises(InputError, match="no column count; the file has name, counts, load"):
        read_rows(write(file, "name,counts,load\na,1,1\n"), COLUMNS)


def test_wanted_column_must_be_unique(file: Path) -> None:
    with pytest.raises(InputError, match="'load' appears more than once"):
        read_rows(write(file, "name,count,load,load\na,1,1,2\n"), COLUMNS)


def test_optional_column_is_there_only_if_the_file_has_it(file: Path) -> None:
    write(file, "name,count,load\na,1,1\n")
    table = read_rows(file, {"name": Text()}, optional={"load": Number(), "spec": Text(empty=True)})
    assert "load" in table
    assert "spec" not in table


def test_empty_text_becomes_the_stated_value(file: Path) -> None:
    table = read_rows(write(file, "a,b\n,\n1,2\n"), {"a": Number(empty=np.nan), "b": Integer(empty=-1)})
    assert np.isnan(table.floats("a")[0])
    assert table.ints("b").tolist() == [-1, 2]


def test_choices_are_listed_when_a_text_is_none_of_them(file: Path) -> None:
    with pytest.raises(InputError, match="'XX' is none of CN, HN"):
        read_rows(write(file, "role\nXX\n"), {"role": Text(choices=("CN", "HN"))})


def test_undecodable_bytes_are_a_bad_value_not_a_crash(file: Path) -> None:
    file.write_bytes(b"name,count,load\n\xff\xfe,1,1\n")
    with pytest.raises(InputError, match=r":2: column 'name'.*not UTF-8"):
        read_rows(file, COLUMNS)


def test_header_alone_gives_an_empty_table(file: Path) -> None:
    table = read_rows(write(file, "name,count,load\n"), COLUMNS)
    assert table.rows == 0
    assert table.floats("load").shape == (0,)


@pytest.mark.parametrize(
    "content", [b"", b"\x1f\x8b broken", gzip.compress(b"name,count,load\na,1,1\n" * 99, mtime=0)[:-20]]
)
def test_empty_damaged_or_cut_file_is_one_clear_error(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"rows.csv"):
        read_rows(file, COLUMNS)


def test_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing.csv: cannot be read"):
        read_rows(tmp_path / "nothing.csv", COLUMNS)


def test_endless_line_is_refused_without_reading_it_all(file: Path) -> None:
    file.write_bytes(gzip.compress(b"name,count,load\n" + b"x" * 50_000_000))
    with pytest.raises(InputError, match=":2: line is longer than"):
        read_rows(file, COLUMNS)


@given(st.lists(st.tuples(st.integers(0, 2**62), st.floats(0, 1e300)), max_size=20))
def test_what_python_writes_is_read_back_exactly(rows: list[tuple[int, float]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "x.csv", "count,load\n" + "".join(f"{count},{load!r}\n" for count, load in rows))
        table = read_rows(file, {"count": Integer(0), "load": Number(0)})
    assert list(zip(table.ints("count").tolist(), table.floats("load").tolist(), strict=True)) == rows


def test_reading_loads_no_table_library(file: Path) -> None:
    """The sidecar may import this package and ships none of them."""
    write(file, "name,count,load\na,1,1\n")
    code = (
        "import sys; from pathlib import Path; from envs.workloads.csv_rows import *\n"
        "import envs.workloads.recording_writer, envs.workloads.calibration\n"
        f"read_rows(Path({str(file)!r}), {{'name': Text()}})\n"
        "print(sorted({'polars', 'pyarrow', 'pandas', 'gymnasium', 'numba', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

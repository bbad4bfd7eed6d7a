"""Square tables (CSV, white space) and .npy: every arrangement of names, and what else a file may hold."""

from __future__ import annotations

import gzip
import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.formats.matrix import ReadOptions, read_matrix
from netprobe.formats.matrix.foreign_matrix import MAX_MATRIX_HOSTS
from tests.formats.matrices import detected, read, same

VALUES = np.array([[0.0, 1.5, 2.25], [1.25, 0.0, 3.0], [2.5, 3.5, 0.0]])
NAMES = ["gpu-a", "gpu-b", "n3"]


def rows(values: FloatMatrix = VALUES) -> list[list[str]]:
    return [["" if math.isnan(v) else repr(float(v)) for v in row] for row in values]


def lines(cells: list[list[str]], separator: str) -> str:
    return "".join(separator.join(row) + "\n" for row in cells)


@pytest.mark.parametrize("separator", [",", ";", "\t", "  "])
@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("names", [NAMES, ["0", "1", "2"]])
def test_names_may_stand_above_left_both_or_nowhere(
    separator: str, above: bool, left: bool, names: list[str]
) -> None:
    cells = [[name, *row] if left else row for name, row in zip(names, rows())]
    if above:
        cells = [(["host", *names] if left else names), *cells]
    found = read("# comment\n\n" + lines(cells, separator), "text" if separator == "  " else "csv")
    assert found.names == (tuple(names) if above or left else None)
    assert same(found.values, VALUES)
    assert same(read(lines(cells, separator)).values, VALUES)


def test_columns_in_another_order_than_the_rows_are_put_right() -> None:
    text = "x,n3,gpu-a,gpu-b\n" + "".join(
        f"{name},{row[2]},{row[0]},{row[1]}\n" for name, row in zip(NAMES, VALUES.tolist())
    )
    found = read(text)
    assert found.names == tuple(NAMES) and same(found.values, VALUES)


@pytest.mark.parametrize("word", ["", "-", "nan", "NaN", "NA", "null", "*", "?"])
def test_a_missing_cell_is_missing(word: str) -> None:
    text = f"a,0,{word},1\nb,2,0,3\nc,4,5,0\n"
    found = read(text).values
    assert math.isnan(found[0, 1]) and np.isnan(found).sum() == 4


def test_asymmetric_stays_asymmetric_and_the_diagonal_is_left_out() -> None:
    found = read("850 1 2\n3 860 4\n5 6 870\n").values
    assert found[0, 1] == 1 and found[1, 0] == 3
    assert np.isnan(np.diagonal(found)).all()


def test_a_header_with_no_corner_stands_over_labels() -> None:
    assert same(
        read("  gpu-a gpu-b n3\n" + lines([[n, *r] for n, r in zip(NAMES, rows())], " ")).values, VALUES
    )


def test_a_separator_at_the_end_of_each_line_is_no_cell() -> None:
    assert same(read("".join("\t".join(row) + "\t\n" for row in rows())).values, VALUES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n4 5 6\n", "square matrix: 2 lines"),
        ("1 2\n3 4 5\n6 7\n", "square matrix"),
        ("a,b\n0,1\n1,0,5\n", "square matrix"),
        ("h,a,b\na,0,1\nb,oops,0\n", "line 3: 'oops'"),
        ("h,a,b\na,0,1\nc,1,0\n", "columns .* rows"),
        ("h,a,a\na,0,1\na,1,0\n", "'a'"),
        ("0 inf\n1 0\n", "from '0' to '1' is inf"),
        ("0 1e999\n1 0\n", "is inf"),
        ("h,a,b\na,0,-3\nb,1,0\n", "from 'a' to 'b' is -3"),
        ("0 1\n0 0\n", "is 0: give --zeros missing"),
        ("0 1_000 2\n1 0 3\n4 5 0\n", "'1_000'"),
        ("0 ١ 2\n1 0 3\n4 5 0\n", " is not a number"),
        ("0;1.5\n1,234;0\n1,5;0\n", "square matrix"),
        ("0 oops 5\noops 0 7\n5 7 0\n", "line 1: 'oops'"),
        ("oops 5 6\n0 1 2\n1 0 3\n4 5 0\n", "square matrix"),
        ("h,a,5\na,0,1\n6,1,0\n", "columns .* rows"),
        ("5\n", "1 hosts: 2 to"),
        ("\n # nothing\n", "square matrix: 0 lines"),
        ("", "is empty"),
        ('a,"b\n1,2\n', "CSV"),
        (",3,4\n3,,5\n4,5,\n", "write 'host' into the corner"),
        ('{"schema": "netprobe.scan/1.0"}', "needs no import"),
    ],
)
def test_what_is_no_matrix_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_an_index_that_nobody_named_gives_way_to_the_names_above() -> None:
    found = read(",a,b\n0,,5\n1,6,\n")
    assert found.names == ("a", "b") and found.values[1, 0] == 6
    assert read("host,7,9\n9,,5\n7,6,\n").names == ("9", "7")


def test_names_that_are_numbers_from_zero_are_names() -> None:
    found = read(",0,1\n0,,5\n1,6,\n")
    assert found.names == ("0", "1") and found.values[0, 1] == 5


def test_zeros_may_be_missing_cells() -> None:
    assert np.isnan(read("0 0\n1 0\n", zeros="missing").values[0, 1])


def test_options_that_are_none_are_refused() -> None:
    for options in ({"format": "xls"}, {"zeros": "maybe"}):
        with pytest.raises(InputError, match=r"known are|neither"):
            ReadOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="--column and --select are for long, json and nccl"):
        read("0 1\n1 0\n", column="x")


def npy(array: NDArray[Any], **options: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "<i8", ">u2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_npy_of_any_numbers_is_read(kind: str, order: str) -> None:
    array = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]]).astype(kind, order=order)  # type: ignore[call-overload]
    found = read(npy(array))
    assert found.names is None and same(found.values, array.astype(float))
    assert same(read(gzip.compress(npy(array)), "npy").values, array.astype(float))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.array([[None, 1], [1, None]]), allow_pickle=True), "holds objects"),
        (npy(np.ones((2, 3))), r"shape \(2, 3\)"),
        (npy(np.ones(4)), "shape"),
        (npy(np.ones((2, 2), dtype=complex)), "not numbers"),
        (npy(np.ones((2, 2), dtype=bool)), "not numbers"),
        (npy(np.ones((2, 2)))[:-1], "truncated"),
        (npy(np.ones((2, 2))) + b"x", "truncated"),
        (npy(np.ones((2, 2))).replace(b"(2, 2)", b"(9, 9)"), "truncated"),
        (npy(np.ones((2, 2)))[:30], ".npy: ValueError"),
        (npy(np.full((2, 2), np.inf)), "is inf"),
        (b"\x93NUMPY\x09\x00" + b"x" * 40, ".npy: ValueError|version"),
        (gzip.compress(b"0 1\n1 0\n", mtime=0)[:-9], "cannot be unpacked"),
        (b"\xff\xfe\x00", "neither UTF-8"),
    ],
)
def test_bytes_that_are_no_matrix_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(content)


def test_an_npy_that_claims_to_be_huge_is_refused_before_it_is_made() -> None:
    header = npy(np.ones((2, 2))).replace(b"(2, 2), }       ", b"(70000, 70000), }")
    with pytest.raises(InputError, match=f"2 to {MAX_MATRIX_HOSTS}|no .npy"):
        read(header)


tokens = st.sampled_from(["0", "1", "2.5", "1e-3", "nan", "inf", "-1", "a", "b", "", '"', "host", "0x1", "é"])
tables = st.lists(st.lists(tokens, min_size=1, max_size=5), min_size=1, max_size=5)


@given(
    st.text(max_size=80)
    | st.builds(lines, tables, st.sampled_from([",", ";", "\t", " "]))
    | st.text(alphabet="01.,;\t\n abx-\"'#", max_size=60)
)
def test_any_text_is_a_square_matrix_or_one_clear_line(text: str) -> None:
    for format_ in ("auto", "csv", "text"):
        try:
            readings = read(text, format_)
        except InputError as error:
            assert "\n" not in str(error) and str(error).isprintable()
        else:
            values = readings.values
            assert values.ndim == 2 and len(values) == len(values.T) >= 2
            assert readings.names is None or len(set(readings.names)) == len(values)
            assert (values[~np.isnan(values)] > 0).all() and np.isfinite(values[~np.isnan(values)]).all()


@given(st.binary(max_size=60).map(lambda tail: npy(np.ones((3, 3)))[:64] + tail) | st.binary(max_size=40))
def test_any_bytes_are_a_matrix_or_one_clear_line(content: bytes) -> None:
    try:
        _, readings = read_matrix(content)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert len(readings.values) >= 2


@st.composite
def named_matrices(draw: st.DrawFn) -> tuple[list[str], FloatMatrix]:
    size = draw(st.integers(2, 6))
    name = st.from_regex(r"[A-Za-z][A-Za-z0-9.-]{0,5}", fullmatch=True)
    words = ("nan", "na", "null", "none", "inf", "infinity", "x")
    names = draw(
        st.lists(name.filter(lambda n: n.lower() not in words), min_size=size, max_size=size, unique=True)
    )
    cells = st.floats(1e-9, 1e9) | st.just(math.nan)
    values = draw(st.lists(cells, min_size=size * size, max_size=size * size))
    return names, np.array(values).reshape(size, size)


@given(named_matrices(), st.sampled_from([",", ";", "\t"]))
def test_what_is_written_is_read_back(fleet: tuple[list[str], FloatMatrix], separator: str) -> None:
    names, values = fleet
    text = lines([["host", *names], *([n, *r] for n, r in zip(names, rows(values)))], separator)
    found = read(text, "csv")
    # One half of a table, and nothing in the other: that is a triangle, of pairs whose directions are one number.
    halves = [
        np.isfinite(values[part])
        for part in (np.tril_indices(len(values), -1), np.triu_indices(len(values), 1))
    ]
    if len(values) > 2 and any(a.all() and not b.any() for a, b in (halves, halves[::-1])):
        values = np.where(np.isnan(values), values.T, values)
        assert found.notes
    assert found.names == tuple(names) and same(found.values, values)


def test_a_table_is_told_from_a_long_form() -> None:
    assert detected("0 1 2\n1 0 3\n2 3 0\n") == "text"
    assert detected("h,a,b\na,0,1\nb,1,0\n") == "csv"
    assert detected("a b 1\nb a 2\na c 3\n") == "long"
    assert detected("source,destination,ms\n0,1,5\n1,0,6\n") == "long"
    assert detected("0 1 5\n1 0 6\n0 2 7\n2 0 8\n1 2 9\n") == "long"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_cell_that_goes_on_behind_its_quote_is_named_by_its_line_in_printable_words(separator: str) -> None:
    text = f"# made by hand\n0{separator}1\n\n'1'{separator}0\n".replace("'1'", '"1"x')
    for format_ in ("auto", "csv"):
        with pytest.raises(InputError) as caught:
            read(text, format_)
        said = str(caught.value)
        assert said.isprintable()
        assert format_ == "auto" or "line 4" in said

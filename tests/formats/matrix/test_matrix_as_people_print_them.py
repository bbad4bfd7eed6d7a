"""Tables as people print them: units in cells, decimal commas, Markdown, HTML, JSON, UTF-16, names."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.core.naming import name_fault
from netprobe.formats.matrix.cells import cell, is_name, written
from netprobe.formats.matrix.names import host_names
from tests.formats.matrices import detected, read, same

VALUES = np.array([[0.0, 31.5, 80.2], [31.4, 0.0, 95.0], [80.0, 95.1, 0.0]])
NAMES = ("r1", "r2", "r3")
MARKDOWN = """## Round trips, ms

| from | r1 | r2 | r3 |
| ---- | --- | --- | --- |
| r1 | **0** | 31.5 | 80,2 |
| `r2` | 31.4 |  | 95.0 |
| [r3](http://x.example) | 80.0 | 95.1 | 0 |

The end.
"""


@pytest.mark.parametrize(
    "text", ["58.4 ms", "58.4ms", "58,4 ms", "58.4 msec", "5.84e1 ms", "58.4\u00a0ms", "58.4\u202fms"]
)
def test_a_cell_may_have_a_unit(text: str) -> None:
    found = read(f"h,a,b\na,,{json.dumps(text, ensure_ascii=False)}\nb,120us,\n")
    assert found.unit == "s" and found.parameters == {"units_in_cells": ["ms", "us"]}
    assert found.values[0, 1] == pytest.approx(58.4e-3, rel=1e-12)
    assert found.values[1, 0] == pytest.approx(120e-6, rel=1e-12)


def test_cells_of_one_unit_keep_their_numbers_and_a_blank_may_stand_before_it() -> None:
    found = read("  a b\na 0 58.4 ms\nb 57 ms 0\n")
    assert found.unit == "ms" and found.values[0, 1] == 58.4 and found.values[1, 0] == 57
    assert read("h,a,b\na,0,9.4 Gbits/sec\nb,9.1 Gbit/s,0\n").unit == "Gbit/s"
    assert read("src,dst,rtt\na,b,3 ms\nb,a,200 us\n").values[1, 0] == pytest.approx(2e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h,a,b\na,0,58 ms\nb,57,0\n", "line 3: '57' has no unit, and other cells have one"),
        ("h,a,b\na,0,58 ms\nb,57 Gbit/s,0\n", "latencies and bandwidths in one table"),
        ("h,a,b\na,0,58 parsecs\nb,57 ms,0\n", "line 2: '58 parsecs' is not a number"),
        ("h,a,b\na,0,58 ms\nb,<1 ms,0\n", "line 3: '<1 ms' is not a number"),
    ],
)
def test_units_that_do_not_agree_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    "word", ["—", "–", "timeout", "Timed out", "unreachable", "#N/A", "failed", "lost", "no reply"]
)
def test_what_people_write_for_a_missing_reading_is_missing(word: str) -> None:
    found = read(f"h,a,b,c\na,{word},1,2\nb,3,{word},{word}\nc,4,5,0\n").values
    assert math.isnan(found[1, 2]) and np.isnan(found).sum() == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12,5", 12.5), ("0,125", 0.125), ("1234,567", 1234.567), ("12,3456", 12.3456), ("1,5e3", 1500),
        ("1.234,5", 1234.5), ("1,234.5", 1234.5), ("1,234,567", 1234567), ("1.234.567", 1234567),
        ("1'234.5", 1234.5), ("1\u202f234,5", 1234.5), ("12'345", 12345),
    ],
)  # fmt: skip
def test_a_number_that_can_be_read_in_one_way_only_is(text: str, value: float) -> None:
    for unit, factor in (("", 1.0), (" us", 1.0)):
        found = read(
            f"h;a;b\na;0;{text}{unit}\nb;0{''.join(unit and '2' + unit) and ''};0\n", zeros="missing"
        )
        assert found.values[0, 1] == pytest.approx(value * factor, rel=1e-12)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["1,234", "2,345"],
            r"line 2: '1,234' may have decimals or thousands: give --decimal comma, or --decimal point",
        ),
        (["1,234", "1.234"], "may have decimals or thousands"),
        (["1,234", "80,2", "31.5"], "may have decimals or thousands"),
        (["1,234 ms", "2 ms"], "may have decimals or thousands"),
        (["12,34,5", "1"], "is not a number"),
        (["1,2,3", "1"], "is not a number"),
        (["1.23,4.5", "1"], "is not a number"),
    ],
)
def test_a_comma_that_could_be_either_is_refused(cells: list[str], message: str) -> None:
    for sep in (";", "\t"):
        with pytest.raises(InputError, match=message):
            read(square_of(cells, sep))


def square_of(cells: list[str], sep: str) -> str:
    """A table of three hosts whose first readings are these, and the others 7 in the same unit."""
    more = ["7 ms" if cells[0].endswith("ms") else "7"] * (6 - len(cells))
    a, b, c, d, e, f = [*cells, *more]
    rows = [["h", "x", "y", "z"], ["x", "0", a, b], ["y", c, "0", d], ["z", e, f, "0"]]
    return "".join(sep.join(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("cells", "decimal", "first", "second"),
    [
        (["1,234", "80,2"], None, 1.234, 80.2),
        (["1,234", "80.2"], None, 1234, 80.2),
        (["1.234", "80,2"], None, 1234, 80.2),
        (["1.234", "80.2"], None, 1.234, 80.2),
        (["1,234", "2,345"], "comma", 1.234, 2.345),
        (["1,234", "2,345"], "point", 1234, 2345),
        (["1.234", "2,5"], "comma", 1234, 2.5),
        (["1,234", "1,234,567"], None, 1234, 1234567),
    ],
)
def test_the_file_or_an_option_says_what_a_comma_is(
    cells: list[str], decimal: str | None, first: float, second: float
) -> None:
    found = read(square_of(cells, ";"), decimal=decimal)
    assert found.values[0, 1] == first and found.values[0, 2] == second
    decided = decimal is None and "," in "".join(cells)
    assert bool(found.notes) == decided and all("is read as" in note for note in found.notes)


def test_an_option_that_a_number_contradicts_is_refused() -> None:
    for cells, decimal in ((["80,2"], "point"), (["31.5"], "comma"), (["1.234.567"], "point")):
        with pytest.raises(InputError, match=f"is not a number with a decimal {decimal}"):
            read(square_of(cells, ";"), decimal=decimal)
    with pytest.raises(InputError, match="neither point nor comma"):
        read("0 1\n1 0\n", decimal="dot")


@pytest.mark.parametrize("text", ["0;12,5\n13,25;0\n", "0 12,5\n13,25 0\n", "0\t12,5\n13,25\t0\n"])
def test_a_decimal_comma_is_not_what_separates(text: str) -> None:
    found = read(text).values
    assert found[0, 1] == 12.5 and found[1, 0] == 13.25


@pytest.mark.parametrize(
    "name", ["10.0.0.1", "10.100.100.100", "192.168.100.100", "n1", "1-2", "2a", "fe80::1"]
)
def test_addresses_and_names_are_no_numbers(name: str) -> None:
    assert is_name(name) and written(name) is None


def test_markdown_is_read_and_text_around_it_passed_over() -> None:
    found = read(MARKDOWN)
    assert detected(MARKDOWN) == "markdown"
    assert found.names == NAMES and same(found.values, VALUES)
    bare = "from | r1 | r2 | r3\n--- | --- | --- | ---\n" + "".join(
        " | ".join([name, *map(str, row)]) + "\n" for name, row in zip(NAMES, VALUES.tolist())
    )
    assert same(read(bare).values, VALUES)
    with pytest.raises(InputError, match=r"holds 2 tables \(lines 3, 12\): keep the one"):
        read(MARKDOWN + "\n\n" + MARKDOWN.split("\n\n", 1)[1])


@pytest.mark.parametrize(("rule", "bar"), [("+----+----+----+----+", "|"), ("├────┼────┼────┼────┤", "│")])
def test_a_table_in_a_frame_is_read(rule: str, bar: str) -> None:
    body = [["", *NAMES], *([name, *map(str, row)] for name, row in zip(NAMES, VALUES.tolist()))]
    text = "\n".join([rule, *(bar + f" {bar} ".join(row) + bar for row in body), rule]) + "\n"
    found = read(text)
    assert found.names == NAMES and same(found.values, VALUES)


def test_a_long_form_in_markdown_or_json_is_read() -> None:
    table = "| src | dst | rtt_ms |\n|---|---|---|\n| a | b | 1.5 |\n| b | a | 2 |\n"
    assert read(table).values[0, 1] == 1.5
    records = [{"src": "a", "dst": "b", "ms": 1.5, "loss": 0}, {"src": "b", "dst": "a", "ms": 2, "loss": 0}]
    for data in (records, {"results": records, "version": 3}):
        with pytest.raises(InputError, match="--column"):
            read(json.dumps(data))
        assert read(json.dumps(data), column="ms").values[1, 0] == 2


HTML = (
    "<html><style>td {x: y}</style><TABLE class='x'><thead><tr><th></th>"
    + "".join(f"<th>{name}</th>" for name in NAMES)
    + "</tr></thead>"
    + "".join(
        f"<tr><td><b>{name}</b>" + "".join(f"<td>{value}&nbsp;</td>" for value in row) + "</tr>\n"
        for name, row in zip(NAMES, VALUES.tolist())
    )
    + "</table>"
)


def test_html_is_read() -> None:
    found = read(HTML)
    assert detected(HTML) == "html" and found.names == NAMES and same(found.values, VALUES)
    with pytest.raises(InputError, match="holds 2 tables"):
        read(HTML + HTML)
    with pytest.raises(InputError, match="a cell that spans several"):
        read(HTML.replace("<th>r1", "<th colspan=2>r1"))
    assert same(read(HTML.removesuffix("</table>")).values, VALUES)


NEST = {src: dict(zip(NAMES, row)) for src, row in zip(NAMES, VALUES.tolist())}


@pytest.mark.parametrize(
    "data",
    [
        NEST,
        {"version": 1, "unit": "ms", "latency": NEST},
        {"data": {"latency": {"p50": NEST}}},
        {"hosts": list(NAMES), "matrix": VALUES.tolist()},
        {"result": {"regions": list(NAMES), "when": "now", "values": VALUES.tolist()}},
        {src: {dst: value for dst, value in row.items() if src != dst} for src, row in NEST.items()},
        {src: {dst: {"p50": value} for dst, value in row.items()} for src, row in NEST.items()},
        {src: {dst: f"{value} ms" for dst, value in row.items()} for src, row in NEST.items()},
    ],
)
def test_nested_json_is_read(data: object) -> None:
    text = json.dumps(data)
    found = read(text)
    assert detected(text) == "json" and found.names == NAMES and same(found.values, VALUES)


def test_rows_of_json_without_names_have_none() -> None:
    assert read(json.dumps(VALUES.tolist())).names is None
    assert same(read(json.dumps(VALUES.tolist())).values, VALUES)


def test_json_with_several_matrices_needs_the_key_of_one() -> None:
    loss = {src: dict.fromkeys(NAMES, 0.5) for src in NAMES}
    text = json.dumps({"rtt": NEST, "loss": loss})
    with pytest.raises(InputError, match=r"holds 2 matrices: say with --column which \(loss, rtt\)"):
        read(text)
    assert same(read(text, column="rtt").values, VALUES)
    both = json.dumps({src: {dst: {"rtt": v, "n": 3} for dst, v in row.items()} for src, row in NEST.items()})
    with pytest.raises(InputError, match="say with --column which key holds the value: n, rtt"):
        read(both)
    assert same(read(both, column="rtt").values, VALUES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "JSON without a matrix"),
        ('{"a": 1}', "JSON without a matrix"),
        ('{"a": {"b": true}, "b": {"a": 1}}', "'?True'? is not a number"),
        ('{"a": {"b": 1, "b": 2}, "b": {"a": 1}}', "the key 'b' twice"),
        ('[{"src": "a", "dst": "b", "x": 1}, {"src": "b", "y": 1}]', "entry 2 has other keys"),
        ('{"a": {"b": 1', "not valid JSON"),
        ("[[1, 2], [3]]", "JSON without a matrix"),
    ],
)
def test_json_that_is_no_matrix_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_other_encodings_of_unicode_are_read(encoding: str) -> None:
    text = "host,a,b\r\na,0,12.5\r\nb,13,0\r\n"
    assert read(text.encode(encoding)).values[0, 1] == 12.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h,a,b\na,0,1\nb,1,0,7\n", "3 lines of 3 cells, and line 3 of 4"),
        ("h,a,b,c\na,0,1,2\nb,1,0\nc,1,2,0\n", "4 lines of 4 cells, and line 3 of 3"),
        ("h,a,b,c,d\na,0,1,2\nb,1,0,2\nc,1,2,0\n", "4 lines of 4 cells, below line 1 of 5"),
    ],
)
def test_a_table_that_is_not_square_names_the_line_and_its_length(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
def test_a_head_without_a_corner_stands_over_labels(separator: str) -> None:
    body = [list(NAMES), *([name, *map(str, row)] for name, row in zip(NAMES, VALUES.tolist()))]
    found = read("".join(separator.join(row) + "\n" for row in body))
    assert found.names == NAMES and same(found.values, VALUES)


def test_names_with_blanks_between_wide_columns_are_names() -> None:
    text = "from/to       US East   EU North 1\nUS East       0         81.2\nEU North 1    82        0\n"
    found = read(text)
    assert found.names == ("US East", "EU North 1") and found.values[1, 0] == 82


def test_names_that_no_host_can_have_are_changed_and_kept_apart() -> None:
    names, changed = host_names(["US East (N. Example)", "eu-1", "São Paulo", "東京", "-x"])
    assert names == ["US-East-N.-Example", "eu-1", "Sao-Paulo", "h3", "x"]
    assert changed == {
        "US-East-N.-Example": "US East (N. Example)", "Sao-Paulo": "São Paulo", "h3": "東京", "x": "-x"
    }  # fmt: skip
    with pytest.raises(InputError, match=r"'a b' and 'a-b' would both be the host 'a-b'"):
        host_names(["a b", "a-b"])


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6, unique=True))
def test_any_names_become_hosts_or_one_clear_line(names: list[str]) -> None:
    try:
        made, changed = host_names(names)
    except InputError as error:
        assert str(error).isprintable()
    else:
        assert len(set(made)) == len(names) and not any(map(name_fault, made))
        assert all(new in changed or new == name for name, new in zip(names, made))


@given(st.text(alphabet="0123456789.,'eE+- \u00a0msuGbit/", max_size=14))
def test_a_number_that_is_written_is_one_number(text: str) -> None:
    found = written(text)
    if found is None:
        return
    for mark in ".,":
        value = found.value(mark)
        assert value is None or math.isfinite(value) or "e" in text.lower()
    plain = cell(text)
    if plain is not None and math.isfinite(plain):
        assert found.value(".") == plain


pieces = st.sampled_from(
    ["|", "---", "\n", "a", "b", "1", "2,5", "1,234", " ms", "<table>", "<tr>", "<td>", "</td>", "</table>", "{", "}",
     "[", "]", '"a":', '"b":', ",", "null", "—", ";", "\t", " ", "mean", "max", "<th colspan=2>", "#", "\ufeff", "\x00"]
)  # fmt: skip


@given(st.lists(pieces, max_size=40).map("".join), st.sampled_from(["utf-8", "utf-16", "utf-16-be"]))
def test_any_piece_of_markup_is_a_matrix_or_one_clear_line(text: str, encoding: str) -> None:
    for format_ in ("auto", "markdown", "html", "json", "csv"):
        try:
            found = read(text.encode(encoding), format_)
        except InputError as error:
            assert "\n" not in str(error) and str(error).isprintable()
        else:
            known = found.values[~np.isnan(found.values)]
            assert found.values.shape[0] == found.values.shape[1] >= 2 and (known > 0).all()

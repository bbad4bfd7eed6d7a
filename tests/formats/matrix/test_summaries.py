"""Rows and columns that sum up the others are left out, or refused where that cannot be decided; never hosts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.formats.matrix.summaries import kind_of_summary
from tests.formats.matrices import read, same

VALUES = np.array(
    [[0, 20.1, 55.0, 54.2], [20.3, 0, 54.8, 55.1], [55.2, 54.9, 0, 19.8], [54.0, 55.3, 20.0, 0]]
)
NAMES = ["a1", "a2", "a3", "a4"]
STATISTICS: dict[str, Callable[[FloatMatrix], float]] = {
    "mean": np.mean, "Average": np.mean, "AVG.": np.mean, "median": np.median, "min": np.min, "MAX": np.max,
    "total": np.sum, "sum": np.sum, "std": np.std, "Std. Dev.": lambda v: float(np.std(v, ddof=1)), "variance": np.var,
}  # fmt: skip


def text(
    names: list[str], *, columns: bool = True, rows: bool = True, shift: float = 0.0, zeros: bool = False
) -> str:
    """The table, with summaries of these names on one side or both."""
    off = ~np.eye(4, dtype=bool)
    kept = np.ones((4, 4), dtype=bool) if zeros else off
    of = [STATISTICS.get(name, np.mean) for name in names]
    lines = [["", *NAMES, *(names if columns else [])]]
    for i, name in enumerate(NAMES):
        tail = [f"{f(VALUES[i, kept[i]]) + shift:.1f}" for f in of] if columns else []
        lines.append([name, *map(str, VALUES[i]), *tail])
    for k, name in enumerate(names if rows else []):
        line = [f"{of[k](VALUES[kept[:, j], j]) + shift:.1f}" for j in range(4)]
        corner = [f"{of[k](VALUES[off]):.1f}" for _ in names] if columns else []
        lines.append([name, *line, *corner])
    return "".join(",".join(line) + "\n" for line in lines)


@pytest.mark.parametrize("name", list(STATISTICS))
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("columns", "rows"), [(True, True), (True, False), (False, True)])
def test_a_summary_is_left_out_and_named(name: str, zeros: bool, columns: bool, rows: bool) -> None:
    found = read(text([name], columns=columns, rows=rows, zeros=zeros))
    assert found.names == tuple(NAMES) and same(found.values, VALUES)
    assert len(found.notes) == 1 and f"left out {name}:" in found.notes[0]


def test_several_summaries_are_left_out() -> None:
    for sides in ({}, {"rows": False}, {"columns": False}):
        found = read(text(["min", "mean", "MAX"], **sides))
        assert found.names == tuple(NAMES) and same(found.values, VALUES)
        assert "left out min, mean, MAX:" in found.notes[0]


@pytest.mark.parametrize(("columns", "rows"), [(True, True), (True, False), (False, True)])
def test_a_summary_by_name_whose_numbers_are_not_it_is_refused(columns: bool, rows: bool) -> None:
    for name in ("mean", "max"):
        with pytest.raises(InputError, match=f"'{name}' .*remove"):
            read(text([name], shift=7.0, columns=columns, rows=rows))


def test_a_host_with_such_a_name_is_one_when_the_hosts_say_so() -> None:
    table = text(["max"], shift=7.0)
    found = read(table, hosts=[*NAMES, "max"])
    assert found.names == (*NAMES, "max") and not found.notes
    assert read(table, hosts=NAMES).names == tuple(NAMES)


def test_a_mean_of_another_name_is_refused() -> None:
    for name in ("overall", "Mittel", "a5"):
        for zeros in (False, True):
            with pytest.raises(InputError, match=f"row and column '{name}' are the mean"):
                read(text([name], zeros=zeros))
        assert read(text([name]), hosts=[*NAMES, name]).names == (*NAMES, name)
    bare = "\n".join(line.split(",", 1)[1] for line in text(["x"]).splitlines()[1:])
    with pytest.raises(InputError, match="row and column '4' are the mean"):
        read(bare)


def test_a_long_form_may_have_summaries_too() -> None:
    lines = [f"{a},{b},{VALUES[i, j]}" for i, a in enumerate(NAMES) for j, b in enumerate(NAMES) if i != j]
    lines += [f"{a},mean,{np.mean(np.delete(VALUES[i], i)):.1f}" for i, a in enumerate(NAMES)]
    found = read("src,dst,ms\n" + "\n".join(lines))
    assert found.names == tuple(NAMES) and same(found.values, VALUES)


@pytest.mark.parametrize(
    "name", ["a1", "max1", "p50", "n99", "node-max-3", "sum2", "sd", "med", "minsk", "gpu-mean1"]
)
def test_names_of_hosts_are_no_summaries(name: str) -> None:
    assert kind_of_summary(name) is None


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_hosts_that_are_all_alike_are_hosts(size: int) -> None:
    for values in (
        np.full((size, size), 10.0),
        10.0 + np.arange(size)[:, None] % 2 + np.arange(size)[None] % 2,
    ):
        assert len(read("\n".join(" ".join(map(str, row)) for row in values.tolist())).values) == size


@given(st.integers(5, 12), st.integers(0, 10_000), st.sampled_from([0, 1, 3]))
def test_readings_of_a_fleet_are_never_taken_for_a_summary(size: int, seed: int, digits: int) -> None:
    generator = np.random.default_rng(seed)
    places = generator.normal(size=(size, 2)) * 40
    values = np.linalg.norm(places[:, None] - places[None], axis=2) + generator.random((size, size)) + 1.0
    values = np.round(values, digits) + 10.0**-digits
    assert len(read("\n".join(" ".join(f"{v:.{digits}f}" for v in row) for row in values)).values) == size

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError
from netprobe.core.naming import (
    MAX_EXPANSION,
    expand_ranges,
    name_fault,
    natural_key,
    split_list,
    target_fault,
)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("gpu[001-003,070]", ["gpu001", "gpu002", "gpu003", "gpu070"]),
        ("rack[0-1]-n[08-10]", [f"rack{r}-n{n}" for r in "01" for n in ("08", "09", "10")]),
        ("c1a-s[11,17]", ["c1a-s11", "c1a-s17"]),
        ("x[1-2]-ib", ["x1-ib", "x2-ib"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[01,1]", ["n01", "n1"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("plain", ["plain"]),
        ("[1-2]", ["1", "2"]),
    ],
)
def test_ranges_expand_in_the_order_written(expression: str, names: list[str]) -> None:
    assert expand_ranges(expression) == names


@pytest.mark.parametrize(
    "expression",
    ["n[3-1]", "n[", "n]", "n[]", "n[1-]", "n[-1]", "n[a-b]", "n[[1]]", "n[1", "n[1--2]", "n[1,,2]", "n[²]"],
)
def test_a_malformed_range_is_refused_by_name(expression: str) -> None:
    with pytest.raises(HostsError, match="range|brackets"):
        expand_ranges(expression)


@pytest.mark.parametrize(
    "expression", ["n[0-99999999]", "n[0-999][0-999]", "n[0-65536]", "n[1-" + "9" * 18 + "]"]
)
def test_a_range_that_names_too_many_hosts_is_refused_at_once(expression: str) -> None:
    with pytest.raises(HostsError, match=str(MAX_EXPANSION)):
        expand_ranges(expression)


def test_a_list_is_split_outside_brackets_only() -> None:
    assert split_list("a,gpu[001-002,007],b c") == ["a", "gpu[001-002,007]", "b", "c"]
    assert split_list(",,") == []


@pytest.mark.parametrize("text", ["a[1,b", "a]1", "a[[1]]"])
def test_a_list_with_unbalanced_brackets_is_refused(text: str) -> None:
    with pytest.raises(HostsError, match="brackets"):
        split_list(text)


@pytest.mark.parametrize(
    "name", ["", "-rf", "a b", "a;b", "$(reboot)", "../x", "a/b", "..", ".", "é", "a\n", "`id`", "x" * 256]
)
def test_hostile_names_are_refused(name: str) -> None:
    assert name_fault(name)


@pytest.mark.parametrize("name", ["n1", "10.0.0.1", "fe80::1", "a_b-c.example", "::1"])
def test_usual_names_are_taken(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize("target", ["", "-oProxyCommand=x", "a\nb", "a\0b", "a\x1bb", "x" * 256])
def test_hostile_targets_are_refused(target: str) -> None:
    assert target_fault(target)


def test_a_target_may_be_what_a_launcher_takes() -> None:
    assert target_fault("user@host") is None
    assert target_fault("pod/worker-0") is None


def test_natural_order_counts() -> None:
    assert sorted(["n10", "n2", "n1", "m3", "n02"], key=natural_key) == ["m3", "n1", "n02", "n2", "n10"]


@given(st.lists(st.text(max_size=12), max_size=12))
def test_natural_order_is_total_and_any_names_sort(names: list[str]) -> None:
    once = sorted(names, key=natural_key)
    assert sorted(list(names)[1:] + names[:1], key=natural_key) == once
    assert all((natural_key(a) == natural_key(b)) == (a == b) for a in names for b in names)


@given(st.text(alphabet="abn[]-,0123456789 ", max_size=24))
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        names = [name for item in split_list(text) for name in expand_ranges(item)]
    except HostsError:
        return
    assert all("[" not in name and "]" not in name for name in names)


@given(st.integers(0, 500), st.integers(0, 60), st.integers(1, 5))
def test_a_padded_range_keeps_its_width(low: int, extra: int, width: int) -> None:
    first = str(low).zfill(width)
    names = expand_ranges(f"h[{first}-{low + extra}]")
    assert [int(name[1:]) for name in names] == list(range(low, low + extra + 1))
    if first.startswith("0") and len(first) > 1:
        assert all(len(name) - 1 >= len(first) for name in names)

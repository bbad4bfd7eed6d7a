"""Text for people: what is cut is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.text import LONGEST_LISTED, listed, short


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    assert [listed(list("abcde"), most) for most in (4, 5)] == ["a, b, c, d and 1 more", "a, b, c, d, e"]
    assert listed(()) == ""


@given(st.text(max_size=90), st.integers(min_value=5, max_value=80))
def test_a_long_name_is_shown_by_its_ends(name: str, most: int) -> None:
    shown = short(name, most)
    assert len(shown) == min(len(name), most)
    assert shown == name or (name.startswith(shown.partition("..")[0]) and shown[-1] == name[-1])
    assert len(listed([name * 100] * 9)) <= 4 * (LONGEST_LISTED + 2) + 20

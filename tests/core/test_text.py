"""Text for people: what is cut is counted."""

from __future__ import annotations

from netprobe.core.text import listed


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    assert [listed(list("abcde"), most) for most in (4, 5)] == ["a, b, c, d and 1 more", "a, b, c, d, e"]
    assert listed(()) == ""

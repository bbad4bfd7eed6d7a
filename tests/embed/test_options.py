"""Every option of a fit that is out of range is named, with its value, and the limits themselves are in range."""

from __future__ import annotations

import math
from typing import Any

import pytest

from netprobe.core.errors import InputError
from netprobe.embed.records import EmbedOptions

WRONG: list[tuple[str, Any]] = [
    ("method", "magic"), ("backend", "abacus"), ("alpha", 0.99), ("alpha", 2.01), ("alpha", math.nan),
    ("dimensions", 0), ("restarts", 0), ("iterations", 0), ("learning_rate", 0.0), ("learning_rate", math.inf),
    ("huber_delta", 0.0), ("huber_delta", math.inf), ("held_out", -0.01), ("held_out", 0.51), ("held_out", math.nan),
    ("winsorise", 0.99), ("winsorise", math.inf), ("winsorise", math.nan),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_option_out_of_range_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        EmbedOptions(**{name: value})
    assert f"{name} is {value!r}" in str(caught.value)


def test_all_that_are_wrong_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        EmbedOptions(method="magic", alpha=3.0, winsorise=0.0)  # type: ignore[arg-type]
    assert all(f"{name} is" in str(caught.value) for name in ("method", "alpha", "winsorise"))


def test_limits_are_in_range() -> None:
    for name, values in (
        ("alpha", (1.0, 2.0)),
        ("held_out", (0.0, 0.5)),
        ("winsorise", (1.0,)),
        ("dimensions", (1,)),
    ):
        for value in values:
            given: dict[str, Any] = {name: value}
            assert getattr(EmbedOptions(**given), name) == value

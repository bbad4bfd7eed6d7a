from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.lab.spec.quantities import delay_s, delay_text, rate_bytes_per_s, rate_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50us", 50e-6), ("0.15ms", 150e-6), ("1 s", 1.0), ("100ns", 100e-9), (" 2ms ", 2e-3), ("5µs", 5e-6)],
)
def test_a_delay_reads_as_seconds(text: str, seconds: float) -> None:
    assert delay_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("1Gbit/s", 125e6),
        ("80 Mbit/s", 10e6),
        ("125MB/s", 125e6),
        ("8kbps", 1e3),
        ("1000000bit/s", 125e3),
        ("unlimited", math.inf),
    ],
)
def test_a_rate_reads_as_bytes_a_second(text: str, bytes_per_s: float) -> None:
    assert rate_bytes_per_s(text) == bytes_per_s


@pytest.mark.parametrize(
    "text", ["", "us", "50", "-5us", "5 m", "1e3us", "５us", "nan s", "5us 6us", None, 5, [], "9" * 99]
)
def test_what_is_no_delay_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="delay"):
        delay_s(text)


@pytest.mark.parametrize("text", ["", "1Gbit", "1 G", "1Gb/s", "1XB/s", "fast", None, 10, {}, "inf bit/s"])
def test_what_is_no_rate_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="rate"):
        rate_bytes_per_s(text)


@given(st.integers(min_value=1, max_value=10**11))
def test_a_delay_survives_being_written(nanoseconds: int) -> None:
    assert delay_s(delay_text(nanoseconds / 1e9)) == nanoseconds / 1e9


@given(st.integers(min_value=1, max_value=10**11))
def test_a_rate_survives_being_written(bits_per_s: int) -> None:
    assert rate_bytes_per_s(rate_text(bits_per_s / 8)) == bits_per_s / 8


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    for read in (delay_s, rate_bytes_per_s):
        try:
            assert read(text) >= 0
        except ValueError as error:
            assert "\n" not in str(error)

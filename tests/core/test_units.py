"""Units: what is read and what is refused, what survives being written, and what people see."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.core.units import (
    MOST_BYTES,
    UNITS,
    count,
    exact_delay_text,
    exact_loss_text,
    exact_rate_text,
    parse_delay_s,
    parse_duration_s,
    parse_loss_ratio,
    parse_rate_bytes_per_s,
    parse_size_bytes,
    rate_text,
    rough_rate_text,
    rough_size_text,
    seconds_text,
    size_text,
    unit_named,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50us", 50e-6), ("0.15ms", 150e-6), ("1 s", 1.0), ("100ns", 100e-9), (" 2ms ", 2e-3), ("5µs", 5e-6)],
)
def test_a_delay_reads_as_seconds(text: str, seconds: float) -> None:
    assert parse_delay_s(text) == seconds


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
    assert parse_rate_bytes_per_s(text) == bytes_per_s


@pytest.mark.parametrize(
    "text", ["", "us", "50", "-5us", "5 m", "1e3us", "５us", "nan s", "5us 6us", None, 5, [], "9" * 99]
)
def test_what_is_not_a_delay_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="delay"):
        parse_delay_s(text)


@pytest.mark.parametrize("text", ["", "1Gbit", "1 G", "1Gb/s", "1XB/s", "fast", None, 10, {}, "inf bit/s"])
def test_what_is_not_a_rate_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="rate"):
        parse_rate_bytes_per_s(text)


@given(st.integers(min_value=1, max_value=10**11))
def test_a_delay_survives_being_written(nanoseconds: int) -> None:
    assert parse_delay_s(exact_delay_text(nanoseconds / 1e9)) == nanoseconds / 1e9


@given(st.integers(min_value=1, max_value=10**11))
def test_a_rate_survives_being_written(bits_per_s: int) -> None:
    assert parse_rate_bytes_per_s(exact_rate_text(bits_per_s / 8)) == bits_per_s / 8


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_an_input_error(text: str) -> None:
    for read in (parse_delay_s, parse_rate_bytes_per_s):
        try:
            assert read(text) >= 0
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(("text", "ratio"), [("20%", 0.2), ("0.001 %", 1e-5), ("0%", 0.0), ("100%", 1.0)])
def test_a_loss_reads_as_a_ratio_and_survives_being_written(text: str, ratio: float) -> None:
    assert parse_loss_ratio(text) == ratio
    assert parse_loss_ratio(exact_loss_text(ratio)) == ratio


@pytest.mark.parametrize("text", ["101%", "5", "-1%", "50 percent", None])
def test_what_is_not_a_loss_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="loss"):
        parse_loss_ratio(text)


def test_sizes_have_decimal_and_binary_units() -> None:
    assert [parse_size_bytes(text) for text in ("1MB", "64KiB", "1.5GB", "7B")] == [
        10**6,
        65536,
        1_500_000_000,
        7,
    ]
    for text in ("", "100", "1mb", "1 MB", "-1MB", "1e3B", "MB"):
        with pytest.raises(InputError, match="size"):
            parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("100001", "100001B is bytes"),
        ("100mb", "such as 100MB$"),
        ("1.5gib", "such as 1.5GiB$"),
        ("7x", "100MB$"),
        ("-1", "is negative: 0 B to 1000 GB are allowed$"),
        ("-2.5kB", "is negative"),
        ("1e30", "is too large: at most 1000 GB are allowed$"),
        ("99999999999999999999", "is too large"),
        ("5000GB", "is too large"),
        ("1e400GiB", "is too large"),
        ("2e6", "has no unit, one of B, kB"),
        ("1 MB", "such as 1MB$"),
        ("9" * 5000, "^size '9{64}' is too large"),
    ],
)
def test_a_size_that_is_nearly_right_is_answered_with_the_right_one(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_size_bytes(text)


@given(
    st.text(max_size=80) | st.from_regex(r"[-+]?[0-9.]{0,20}(e[0-9]{1,3})?\s?[a-zA-Z]{0,3}", fullmatch=True)
)
def test_any_size_is_read_within_its_limits_or_refused_in_one_short_line(text: str) -> None:
    try:
        assert 1 <= parse_size_bytes(text, "--chunk", least=1) <= MOST_BYTES
    except InputError as error:
        said = str(error)
        assert said.startswith("--chunk ") and len(said) < 500 and "\n" not in said
        # What a message suggests is taken.
        if "such as " in said:
            assert parse_size_bytes(said.rpartition("such as ")[2], least=1) > 0


def test_what_is_estimated_has_two_digits() -> None:
    sizes = [rough_size_text(b) for b in (0, 12, 123, 999_999, 1_234_567, 98_765_432)]
    assert sizes == ["0 B", "12 B", "120 B", "1 MB", "1.2 MB", "99 MB"]
    rates = [rough_rate_text(b) for b in (0, 12.34e6, 1.5439e5, 999.9e6 / 8)]
    assert rates == ["0 bit/s", "99 Mbit/s", "1.2 Mbit/s", "1 Gbit/s"]


def test_durations_are_seconds_minutes_or_hours() -> None:
    assert [parse_duration_s(text) for text in ("60s", "5m", "1.5h", "90")] == [60.0, 300.0, 5400.0, 90.0]
    for text in ("", "s", "5d", "-5s", "1e3", "5 m"):
        with pytest.raises(InputError, match="duration"):
            parse_duration_s(text)


def test_rates_and_sizes_are_written_for_people() -> None:
    rates = [rate_text(b) for b in (0, 12.5, 125, 1.25e6, 12.5e6, 2e9)]
    assert rates == ["0 bit/s", "100 bit/s", "1.00 kbit/s", "10.0 Mbit/s", "100 Mbit/s", "16.0 Gbit/s"]
    sizes = [size_text(b) for b in (12, 64_000, 999_999, 1_230_000, 5 * 10**12)]
    assert sizes == ["12 B", "64 kB", "1000 kB", "1.23 MB", "5 TB"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 us"),
        (1e-6, "1.00 us"),
        (1.23e-5, "12.3 us"),
        (3.0e-4, "300 us"),
        (0.0025, "2.50 ms"),
        (12.34, "12.3 s"),
        (None, "-"),
        (float("nan"), "-"),
    ],
)
def test_times_are_short(value: float | None, text: str) -> None:
    assert seconds_text(value) == text


def test_counts_have_their_plural() -> None:
    assert (count(1, "host"), count(2, "host"), count(2, "entry", "entries")) == (
        "1 host",
        "2 hosts",
        "2 entries",
    )


def test_bits_are_not_bytes_and_capitals_count() -> None:
    assert unit_named("gbps") == unit_named("Gbit/s") == unit_named("Gb/s")
    assert unit_named("gbps").factor == pytest.approx(1e9 / 8)
    assert unit_named("GB/s").factor == unit_named("GBps").factor == 1e9
    assert unit_named("MiB/s").factor == 1024**2
    assert unit_named("us").factor == pytest.approx(1e-6)
    for name in ("", "GBPS", "mb/s", "furlongs", "m"):
        with pytest.raises(InputError, match="unknown unit"):
            unit_named(name)
    assert all(unit.factor > 0 and math.isfinite(unit.factor) for unit in UNITS.values())

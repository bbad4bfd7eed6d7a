"""Lengths of queues, marks for ECN, the congestion control: read, written out again, as the switch takes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError, SpecError
from netprobe.lab import LabSpec, lay_out, parse_spec
from netprobe.lab.running.setting import commands
from netprobe.lab.spec.queues import (
    FRAME_BYTES,
    PACKETS_MAX,
    QUEUE_MAX_BYTES,
    QUEUE_MAX_S,
    QUEUE_MIN_BYTES,
    QUEUE_MIN_S,
    QueueLength,
    read_queue,
)
from netprobe.lab.switch.control import switch_config


def lines(text: str, *starts: str) -> list[str]:
    """The switch's configuration for a spec, its lines that begin so."""
    spec = parse_spec(text)
    return [line for line in switch_config(spec, lay_out(spec)).splitlines() if line.startswith(starts)]


@pytest.mark.parametrize(
    ("text", "seconds", "size_bytes", "words"),
    [
        ("20ms", 0.02, None, "ns 20000000"),
        ("100us", 1e-4, None, "ns 100000"),
        ("1000 packets", None, 1_514_000, "bytes 1514000"),
        ("1 packet", None, 1514, "bytes 1514"),
        ("1.5MB", None, 1_500_000, "bytes 1500000"),
        ("1.5 MB", None, 1_500_000, "bytes 1500000"),
        ("64KiB", None, 65536, "bytes 65536"),
    ],
)
def test_a_queue_is_a_time_packets_or_bytes(
    text: str, seconds: float | None, size_bytes: int | None, words: str
) -> None:
    queue = read_queue(text)
    assert (queue.seconds, queue.size_bytes, queue.words) == (seconds, size_bytes, words)
    assert read_queue(str(queue)) == queue


def test_without_queues_the_switch_has_its_own_and_marks_nothing() -> None:
    spec = parse_spec("racks: [2, 2]\nhost_rate: 50Mbit/s\nuplink_rate: 50Mbit/s")
    assert str(spec.host_queue) == str(spec.uplink_queue) == "20ms"
    assert spec.ecn_mark is None and spec.congestion_control is None
    assert not lines("racks: [2, 2]\nhost_rate: 50Mbit/s\nuplink_rate: 50Mbit/s", "queue", "mark")


def test_each_tier_and_each_rack_has_its_own_queue() -> None:
    text = (
        "racks: [1, {hosts: 1, host_queue: 5ms, uplink_queue: 20ms}]\nshuffle: false\n"
        "host_rate: 50Mbit/s\nuplink_rate: 50Mbit/s\nhost_queue: 1000 packets\nuplink_queue: 10MB\n"
    )
    assert lines(text, "queue", "mark") == [
        "queue host r0h0 tx bytes 1514000",
        "queue host r0h0 rx bytes 1514000",
        "queue host r1h0 tx ns 5000000",
        "queue host r1h0 rx ns 5000000",
        "queue uplink 0 up bytes 10000000",
        "queue uplink 0 down bytes 10000000",
    ]


def test_marks_are_set_everywhere_but_at_the_controller() -> None:
    made = lines("racks: [1, 1]\nshuffle: false\necn_mark: 30 packets", "mark")
    assert len(made) == 2 * 2 + 2 * 2
    assert "mark host r1h0 rx bytes 45420" in made and "mark uplink 1 up bytes 45420" in made


@pytest.mark.parametrize(
    "value",
    [
        "0 packets", "100001 packets", "-5 packets", "1.5 packets", "1e3 packets", "packets", "1000", "20", "99us",
        "61s", "1kB", "1TB", "152MB", "fast", "", "unlimited", "inf", "nan ms", "99999999999 packets", "٣ packets",
        20, 20.5, True, None, [], ["20ms"], {"packets": 5}, "20ms\x00", "9" * 5000, "20ms 20ms",
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", ["host_queue", "uplink_queue", "ecn_mark"])
def test_a_length_that_no_queue_can_have_is_refused_by_its_key(key: str, value: object) -> None:
    if value is None and key == "ecn_mark":
        return  # none
    with pytest.raises(SpecError) as caught:
        LabSpec.from_spec({"racks": [2], key: value})
    (fault,) = caught.value.faults
    assert fault.startswith(f"{key}: ") and len(fault) < 200 and "\n" not in fault


@pytest.mark.parametrize(
    "value", ["", "Reno", "../etc", "a" * 16, "reno cubic", "-x", 5, ["reno"], "reno\n", "\0"]
)
def test_a_congestion_control_that_no_kernel_can_have_is_refused(value: object) -> None:
    with pytest.raises(SpecError) as caught:
        LabSpec.from_spec({"racks": [2], "congestion_control": value})
    (fault,) = caught.value.faults
    assert fault.startswith("congestion_control: ")


def test_a_host_that_shapes_itself_has_no_rate_of_sending_in_the_switch() -> None:
    text = "racks: [1]\nshuffle: false\nhost_rate: 50Mbit/s\nhost_shaping: interface\nhost_queue: 5ms"
    assert lines(text, "host", "queue") == ["host r0h0 rx 6250000", "queue host r0h0 rx ns 5000000"]
    spec = parse_spec(text)
    assert spec.host_queue_length(0).at_rate_bytes(6.25e6) == 31_250
    assert read_queue("10 packets").at_rate_bytes(6.25e6) == 15_140
    for what, key, value in (
        ("r0h0", "rate", "1Mbit/s"),
        ("all", "tx_rate", "1Mbit/s"),
        ("r0h0", "queue", "1ms"),
    ):
        with pytest.raises(InputError, match="host_shaping"):
            commands(spec, lay_out(spec), what, key, value, lab="x")
    assert commands(spec, lay_out(spec), "r0h0", "rx_rate", "1Mbit/s", lab="x") == ["host r0h0 rx 125000"]


@pytest.mark.parametrize("value", ["", "switch", "Interface", 5, None, ["fabric"]])
def test_another_place_of_shaping_is_refused(value: object) -> None:
    with pytest.raises(SpecError) as caught:
        LabSpec.from_spec({"racks": [2], "host_shaping": value})
    assert caught.value.faults[0].startswith("host_shaping: must be fabric ")


TIMES = st.integers(round(QUEUE_MIN_S * 1e9), round(QUEUE_MAX_S * 1e9)).map(lambda ns: f"{ns}ns")
QUEUES = st.one_of(
    TIMES.filter(lambda text: len(text) < 14),
    st.integers(1, PACKETS_MAX).map(lambda count: f"{count} packets"),
    st.integers(QUEUE_MIN_BYTES, QUEUE_MAX_BYTES).map(lambda size: f"{size}B"),
)


@given(QUEUES, QUEUES, st.none() | QUEUES)
def test_a_spec_written_out_reads_back_with_its_queues(host: str, uplink: str, mark: str | None) -> None:
    given_ = {"racks": [2, {"hosts": 1, "uplink_queue": host}], "host_queue": host, "uplink_queue": uplink}
    spec = LabSpec.from_spec({**given_, **({} if mark is None else {"ecn_mark": mark})})
    assert LabSpec.from_spec(spec.as_spec()) == spec
    assert spec.uplink_queue_length(1) == spec.host_queue_length(0) == read_queue(host)
    for queue in (spec.host_queue, spec.uplink_queue):
        assert (queue.seconds is None) != (queue.size_bytes is None)


@given(st.text(max_size=20))
def test_any_text_is_a_length_or_a_value_error(text: str) -> None:
    try:
        queue = read_queue(text)
    except ValueError as error:
        assert "\n" not in str(error) or "\n" in repr(text)
        return
    assert isinstance(queue, QueueLength)
    length = queue.seconds if queue.seconds is not None else (queue.size_bytes or 0) / FRAME_BYTES
    assert 0 < length < math.inf

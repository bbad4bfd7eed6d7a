"""What is believed of iperf3's output."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.methods.iperf3_report import Iperf3Report, ReportError, parse_report, parse_version

REPORT: dict[str, Any] = {
    "start": {
        "version": "iperf 3.12",
        "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 1, "bytes": 0, "reverse": 0},
    },
    # An interval may exceed the rate of the line; none is looked at.
    "intervals": [{"sum": {"seconds": 0.03, "bits_per_second": 18e9}}],
    "end": {
        "sum_sent": {
            "seconds": 1.0, "bytes": 1_500_000_000, "bits_per_second": 12e9, "retransmits": 7, "sender": True
        },
        "sum_received": {"seconds": 1.004, "bytes": 1_179_700_000, "bits_per_second": 9.4e9, "sender": True},
        "cpu_utilization_percent": {"host_total": 50.0, "remote_total": 25.0},
        "sender_tcp_congestion": "cubic",
    },
}  # fmt: skip


def changed(path: str, value: object) -> str:
    """The report with one value replaced."""
    report = copy.deepcopy(REPORT)
    *parents, key = path.split(".")
    place = report
    for parent in parents:
        place = place[parent]
    place[key] = value
    return json.dumps(report)


def test_the_reading_is_the_receivers_total_over_the_whole_time() -> None:
    assert parse_report(json.dumps(REPORT)) == Iperf3Report(
        version="3.12",
        reverse=False,
        streams=1,
        bytes=1_179_700_000,
        duration_s=1.004,
        bytes_per_s=1_179_700_000 / 1.004,
        retransmits=7,
        sender_cpu_ratio=0.5,
        receiver_cpu_ratio=0.25,
        congestion_control="cubic",
    )


def test_the_direction_is_that_of_the_reverse_flag() -> None:
    report = parse_report(changed("start.test_start.reverse", 1))
    assert report.reverse and report.sender_cpu_ratio == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("version", "streams", "use", "bound"),
    [
        ("iperf 3.12", 1, 99.7, True),
        ("iperf 3.12", 4, 95.0, True),  # one thread serves all streams
        ("iperf 3.16", 4, 200.0, False),  # a thread a stream
        ("iperf 3.17.1+", 4, 390.0, True),
        ("iperf 3.12", 1, 60.0, False),
    ],
)
def test_a_reading_that_a_processor_set_is_told(version: str, streams: int, use: float, bound: bool) -> None:
    report = copy.deepcopy(REPORT)
    report["start"]["version"] = version
    report["start"]["test_start"]["num_streams"] = streams
    report["end"]["cpu_utilization_percent"]["host_total"] = use
    assert parse_report(json.dumps(report)).cpu_bound is bound


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "iperf3 printed nothing"),
        ("iperf3: command not found", "iperf3 printed something that is not JSON"),
        ("[" * 100_000, "iperf3 printed something that is not JSON"),
        ("[1]", "iperf3 printed JSON that is not a report"),
        ("x" * (1 << 21), "iperf3 printed 2097152 characters"),
        (
            '{"error": "error - the server is busy running a test. try again later"}',
            "iperf3: the server is busy running a test. try again later",
        ),
        ('{"error": "unable to connect to server: \\u001b[2JConnection refused"}', "server: ?[2JConnection"),
        ('{"start": {"test_start": {}}, "end": {}}', "is of no TCP test"),
        (changed("end.sum_received", {}), "impossible seconds"),
        (changed("end.sum_received.bytes", -5), "impossible bytes"),
        (changed("end.sum_received.bytes", 0), "got no data"),
        (changed("end.sum_received.bytes", True), "impossible bytes"),
        (changed("end.sum_received.seconds", 0), "got no data"),
        (changed("end.sum_received.bits_per_second", 6.1e18), "impossible bits_per_second"),
        (changed("end.sum_received.bits_per_second", 18e9), "a rate that is not its bytes a second"),
        (changed("end.sum_sent.bytes", 1000), "more bytes than were sent"),
        (changed("end.sum_sent.retransmits", -1), "impossible retransmits"),
        (changed("start.version", "iperf two"), "has no version"),
        (json.dumps(REPORT).replace("1.004", "NaN"), "not JSON"),
        (json.dumps(REPORT).replace("1.004", "1e999"), "impossible seconds"),
    ],
)
def test_what_cannot_be_true_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(text)
    assert reason in str(caught.value) and str(caught.value).isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PLACES = [
    "start", "end", "error", "start.version",
    "start.test_start", "start.test_start.num_streams", "start.test_start.reverse",
    "end.sum_received", "end.sum_sent", "end.sum_received.bytes", "end.sum_received.seconds",
    "end.sum_received.bits_per_second", "end.sum_sent.retransmits", "end.cpu_utilization_percent",
    "end.cpu_utilization_percent.host_total", "end.sender_tcp_congestion",
]  # fmt: skip


@given(
    st.text(max_size=200)
    | json_values.map(json.dumps)
    | st.builds(changed, st.sampled_from(PLACES), json_values)
)
def test_any_text_is_a_sane_report_or_refused(text: str) -> None:
    try:
        report = parse_report(text)
    except ReportError as error:
        assert str(error)
        return
    assert 0 < report.bytes_per_s <= 1e14 and report.duration_s > 0 and report.streams >= 1
    assert report.retransmits is None or report.retransmits >= 0


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("iperf 3.12 (cJSON 1.7.15)\nLinux", "3.12"),
        ("iperf 3.17.1+ (cJSON", "3.17.1"),
        ("iperf 3.1.3", "3.1.3"),
        ("iperf 3.16-mt1", "3.16"),
        ("iperf version 2.0.13", None),
        ("", None),
    ],
)
def test_versions(text: str, version: str | None) -> None:
    assert parse_version(text) == version

"""What is believed of iperf3's output."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.methods.iperf3_report import (
    Iperf3Report,
    RefusedOptionsError,
    ReportError,
    parse_report,
    parse_version,
)

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
        ("[1]", "iperf3 printed something that is not JSON: [1]"),
        ('{"a":[' * 30_000, "no complete report"),
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
        (json.dumps(REPORT).replace("1.004", "NaN"), "impossible seconds"),
        (json.dumps(REPORT)[:-2], "no complete report"),
        (json.dumps(REPORT).replace("1.004", "1e999"), "impossible seconds"),
    ],
)
def test_what_cannot_be_true_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(text)
    assert reason in str(caught.value) and str(caught.value).isprintable()


# What one run of iperf3 3.12 with --bidir printed, in the parts that are read.
BOTH_DIRECTIONS = json.dumps({
    "start": REPORT["start"],
    "intervals": [{"sum": {"start": 0, "end": 1.004692}, "sum_bidir_reverse": {"start": 0, "end": 1.004698}}],
    "end": {
        "streams": [{"sender": {"max_rtt": 1052}}],
        "sum_sent": {"seconds": 1.004692, "bytes": 853278720, "bits_per_second": 6794350666.67, "sender": True},
        "sum_received": {"seconds": 1.014032, "bytes": 853016576, "bits_per_second": 6729701437.43, "sender": True},
        "sum_sent_bidir_reverse": {"seconds": 1.004692, "bytes": 761528320, "bits_per_second": 6063775326.17},
        "sum_received_bidir_reverse": {"seconds": 1.014032, "bytes": 753926144, "bits_per_second": 5947947551.95},
    },
})  # fmt: skip
FORWARD = 853016576 / 1.014032


@pytest.mark.parametrize(
    ("text", "around"),
    [
        (BOTH_DIRECTIONS, None),
        (BOTH_DIRECTIONS + "\niperf3: error - x\n", "iperf3: error - x"),
        (
            "iperf3: getsockopt - data length overflow\n" + BOTH_DIRECTIONS,
            "iperf3: getsockopt - data length overflow",
        ),
        ("^C" + BOTH_DIRECTIONS, "^C"),
        (BOTH_DIRECTIONS.replace('"max_rtt": 1052', '"max_rtt": -nan'), None),
        (BOTH_DIRECTIONS.replace('"max_rtt": 1052', '"max_rtt": inf, "said": "-nan \\" inf"'), None),
        (
            '{\n  "start": {"version": \n' + BOTH_DIRECTIONS,
            '{ "start": {"version":',
        ),  # one that was cut short, then another
    ],
)
def test_the_first_complete_report_counts_and_what_stands_beside_it_is_kept(
    text: str, around: str | None
) -> None:
    report = parse_report(text)
    assert report.bytes_per_s == pytest.approx(FORWARD) and report.both_ways
    assert report.around == around


def test_a_connection_more_a_stream_is_that_of_the_other_direction() -> None:
    assert not parse_report(changed("start.connected", [{"socket": 5}])).both_ways
    assert parse_report(changed("start.connected", [{"socket": 5}, {"socket": 7}])).both_ways


def test_of_two_reports_the_first_counts() -> None:
    second = changed("end.sum_received", REPORT["end"]["sum_sent"])
    for text in (json.dumps(REPORT) + "\n" + second, json.dumps(REPORT) + second):
        report = parse_report(text)
        assert report.bytes_per_s == 1_179_700_000 / 1.004
        assert report.around is not None and report.around.startswith('{"start"')


def test_a_part_of_a_report_that_was_cut_short_is_none() -> None:
    # The server's own report is inside that of the client (--get-server-output).
    whole = json.dumps({"intervals": [], "server_output_json": REPORT, **REPORT})
    assert parse_report(whole).version == "3.12"
    for end in range(0, len(whole) - 1, 7):
        with pytest.raises(ReportError):
            parse_report(whole[:end])


def two_sums(*senders: object) -> str:
    """The sums of both directions under one name, as versions before 3.10 write them: 9 Gbit/s first, then 1."""
    rates = [9e9, 1e9]
    pairs = [
        f'"{key}": {json.dumps({"seconds": 1, "bytes": int(rate / 8), "bits_per_second": rate, "sender": sender})}'
        for rate, sender in zip(rates, senders)
        for key in ("sum_sent", "sum_received")
    ]
    return f'{{"start": {json.dumps(REPORT["start"])}, "end": {{"streams": [], {", ".join(pairs)}}}}}'


@pytest.mark.parametrize(("senders", "rate"), [((True, False), 9e9), ((False, True), 1e9)])
def test_two_sums_under_one_name_are_told_apart_by_who_sent(senders: tuple[bool, bool], rate: float) -> None:
    report = parse_report(two_sums(*senders))
    assert report.bytes_per_s == rate / 8 and report.both_ways


@pytest.mark.parametrize("senders", [(True, True), (False, False), (None, None)])
def test_two_sums_that_nothing_tells_apart_are_refused(senders: tuple[object, object]) -> None:
    with pytest.raises(ReportError, match="which is of this direction is unknown"):
        parse_report(two_sums(*senders))


@pytest.mark.parametrize("key", ["start", "test_start", "end", "sum_received", "protocol", "seconds"])
def test_a_key_that_stands_twice_is_never_read_as_one(key: str) -> None:
    text = json.dumps(REPORT)
    place = text.index(f'"{key}": ') if key != "seconds" else text.rindex('"seconds": ')
    value = json.JSONDecoder().raw_decode(text, place + len(key) + 4)[0]
    with pytest.raises(ReportError):
        parse_report(text[:place] + f'"{key}": {json.dumps(value)}, ' + text[place:])


@pytest.mark.parametrize(
    ("test", "sent", "received"),
    [
        ({"duration": 10, "bytes": 0}, {}, {}),  # a tenth of its time
        ({"duration": 1, "bytes": 0}, {}, {"seconds": 0.5, "bytes": 589_850_000}),
        ({"duration": 0, "bytes": 3_000_000_000}, {}, {}),  # half of its bytes
    ],
)
def test_a_test_that_ended_early_gives_no_reading(
    test: dict[str, int], sent: dict[str, float], received: dict[str, float]
) -> None:
    report = copy.deepcopy(REPORT)
    report["start"]["test_start"].update(test)
    report["end"]["sum_sent"].update(sent)
    report["end"]["sum_received"].update(received)
    with pytest.raises(ReportError, match="ended early"):
        parse_report(json.dumps(report))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "iperf3: parameter error - number of parallel streams too large (maximum = 128)\n\n"
            "Usage: iperf3 [-s|-c host] [options]\nTry `iperf3 --help' for more information.\n",
            "parameter error - number of parallel streams too large (maximum = 128)",
        ),
        ("iperf3: unrecognized option '--json'\nUsage: iperf3 [-s|-c host]", "unrecognized option '--json'"),
        ("Usage: iperf3 [-s|-c host] [options]\n", "it printed its usage"),
    ],
)
def test_a_usage_text_says_that_the_options_are_not_taken(text: str, said: str) -> None:
    with pytest.raises(RefusedOptionsError) as caught:
        parse_report(text)
    assert str(caught.value).endswith(said)


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


NOISE = ["{", "}", "\n{", '"', "-nan", '\\"', "null", '"end":{},', "9e99", "inf", "[", BOTH_DIRECTIONS]


def damaged(start: int, end: int, text: str) -> str:
    """The report with a part of it replaced."""
    whole = json.dumps(REPORT)
    return whole[:start] + text + whole[max(start, end) :]


@given(
    st.text(max_size=200)
    | json_values.map(json.dumps)
    | st.builds(changed, st.sampled_from(PLACES), json_values)
    | st.builds(
        damaged, st.integers(0, 400), st.integers(0, 400), st.text(max_size=20) | st.sampled_from(NOISE)
    )
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

"""fping's words: what it printed here and elsewhere, what it never could have, and anything at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.probe.methods.fping import report_fields
from netprobe.probe.methods.fping_report import FpingError, parse_report, parse_version

HERE = "10.77.0.1"
GOOD = """\
[1795843947.35947] 10.77.0.1 : [0], 64 bytes, 0.280 ms (0.280 avg, 0% loss)
[1795843947.36325] 10.77.0.1 : [1], 64 bytes, 0.128 ms (0.204 avg, 0% loss)
[1795843947.36647] 10.77.0.1 : [3], 64 bytes, 0.117 ms (0.175 avg, 25% loss)
[1795843947.36700] 10.77.0.1 : duplicate for [3], 64 bytes, 0.650 ms
[1795843947.36760] 10.77.0.1 : [2], timed out (0.175 avg, 25% loss)
[1795843947.36784] 10.77.0.1 : [4], 64 bytes, 12.3 ms (3.2 avg, 20% loss) [<- 10.77.0.9]

10.77.0.1 : 0.280 0.128 - 0.117 12.3
"""
SILENT = """\
ICMP Host Unreachable from 10.77.0.2 for ICMP Echo sent to 10.77.0.1
[1795843947.44355] 10.77.0.1 : [0], timed out (NaN avg, 100% loss)
[1795843947.45280] 10.77.0.1 : [1], timed out (NaN avg, 100% loss)

10.77.0.1 : - -
"""


def test_a_run_is_read() -> None:
    report = parse_report(GOOD, address=HERE, count=5)
    assert [echo.seq for echo in report.echoes] == [0, 1, 3, 4]
    assert [echo.rtt_s for echo in report.echoes] == pytest.approx([280e-6, 128e-6, 117e-6, 12.3e-3])
    assert (report.duplicates, report.complaint) == (1, None)
    fields = report_fields(report, HERE)
    # A probe answered twice is one answer: 5 sent and 6 received is not a loss below 0.
    assert (fields["sent"], fields["received"], fields["duplicates"]) == (4, 3, 1)
    assert fields["samples"].seq.tolist() == [1, 3, 4] and fields["stamps"] == "user"


def test_the_first_to_arrive_is_no_sample_whichever_it_is() -> None:
    text = GOOD.replace(GOOD.splitlines()[0] + "\n", "").replace(": 0.280", ": -")
    fields = report_fields(parse_report(text, address=HERE, count=5), HERE)
    assert fields["samples"].seq.tolist() == [3, 4] and fields["received"] == 3


def test_a_silent_address_is_lost_and_the_reason_is_fpings() -> None:
    report = parse_report(SILENT, address=HERE, count=2)
    fields = report_fields(report, HERE)
    assert (fields["sent"], fields["received"], fields["stop"]) == (1, 0, 0)
    assert "ICMP Host Unreachable from 10.77.0.2" in fields["reason"]
    assert "use --latency stamp" in fields["reason"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "lists 5 probes at its end, and 6 were requested"),
        ("10.77.0.1 : 0.280 0.128 - 0.117 12.3\n", "", "did not come to its end"),
        (" 12.3\n", "\n", "lists 4 probes"),
        ("[4]", "[5]", "reply to probe 5 of 5"),
        (": 0.280 0.128 -", ": 0.280 - -", "lost and answered"),
        (": 0.280 0.128 -", ": 0.280 0.128 0.1", "no line of probe 2"),
        (": 0.280 0.128", ": 0.280 0.139", "two times of probe 1"),
        ("10.77.0.1 : [1]", "10.77.0.7 : [1]", "a line of 10.77.0.7"),
        ("10.77.0.1 : 0.280", "10.77.0.7 : 0.280", "the end of another run"),
        ("0.128 ms", "-0.128 ms", "no line of probe 1"),
        ("0.128 ms", "9999999 ms", "a round trip of 9999999 ms"),
        ("[1], 64 bytes, 0.128", "[1], 64 bytes, nan", "no line of probe 1"),
    ],
)
def test_what_cannot_be_is_no_report(old: str, new: str, said: str) -> None:
    with pytest.raises(FpingError, match=said):
        parse_report(GOOD.replace(old, new) if old else GOOD, address=HERE, count=5 if old else 6)


def test_the_reason_is_what_fping_complains_of() -> None:
    with pytest.raises(FpingError, match="can't create socket"):
        parse_report("fping: can't create socket \x1b[31m(must run as root?)\n", address=HERE, count=5)
    with pytest.raises(FpingError, match="1 to 65535"):
        parse_report(GOOD, address=HERE, count=65_536)


def test_versions() -> None:
    assert parse_version("fping: Version 5.1") == "5.1"
    assert parse_version("fping: Version 4.2\nfping: comments to a@b") == "4.2"
    assert parse_version("sping: Version 5.1") is None and parse_version("fping: Version five") is None


LINES = [*GOOD.splitlines(), *SILENT.splitlines(), "\x1b]0;x\x07", "10.77.0.1 : - - - - -"]


@given(
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=60)), max_size=12),
    st.integers(-1, 7),
    st.integers(0, 400),
)
def test_whatever_is_printed_is_a_report_that_can_be_or_a_reason(
    lines: list[str], count: int, cut: int
) -> None:
    text = "\n".join(lines)[cut // 2 :]
    try:
        report = parse_report(text, address=HERE, count=count)
    except FpingError as error:
        assert str(error).isprintable()
        return
    fields = report_fields(report, HERE)
    assert 0 <= fields["stop"] == len(fields["samples"]) <= fields["received"] <= fields["sent"] == count - 1
    assert len({echo.seq for echo in report.echoes}) == len(report.echoes)
    assert (fields["samples"].rtt > 0).all() and (fields["samples"].sent_at >= 0).all()

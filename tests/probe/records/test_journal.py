"""The journal comes back as it was written, also when its last line is torn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import DocumentError, InputError, OutputExistsError
from netprobe.pipeline.resuming.killed_scan import continued_measuring
from netprobe.pipeline.scanning.measuring import parse_measuring, phases_for
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.journal import Journal, JournalRecord, read_journal
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.result import HostOutcome, NoReadingError, ScanRun, build_outcome
from netprobe.probe.records.samples import SampleColumns, Samples
from tests.probe.conftest import hosts_named, visit


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    path = tmp_path / "scan.journal"
    with Journal(path, hosts_named("a", "b", "c"), ScanOptions().as_dict()) as journal:
        journal.note(host="c", status="unreachable", reason="no route to it")
        journal.visits([visit(0, 1, [1e-4, 1.5e-4, 0.1], dst_port=4000)])
        journal.visits([visit(1, 0, [], sent=100, received=0, reason="no answer")])
    return path


def test_visits_and_samples_come_back_bit_by_bit(journal_path: Path) -> None:
    record = read_journal(journal_path)
    assert [host.name for host in record.hosts] == ["a", "b", "c"]
    assert record.options == ScanOptions().as_dict()
    assert record.notes[0]["reason"] == "no route to it"
    first, second = record.visits
    assert (first.src, first.dst, first.dst_port, first.stamps) == (0, 1, 4000, "kernel")
    np.testing.assert_array_equal(first.rtt_s, [1e-4, 1.5e-4, 0.1])
    np.testing.assert_array_equal(first.seq, [1, 2, 3])
    assert (second.sent, second.received, second.reason, second.rtt_s.size) == (100, 0, "no answer", 0)
    assert not record.torn


def test_a_torn_last_line_costs_that_line_only(journal_path: Path) -> None:
    whole = journal_path.read_bytes()
    lines = whole.splitlines(keepends=True)
    before_last = len(whole) - len(lines[-1])
    for end in (before_last + 1, before_last + 40, len(whole) - 1):
        journal_path.write_bytes(whole[:end])
        record = read_journal(journal_path)
        assert record.torn and len(record.visits) == 1
    journal_path.write_bytes(whole[:before_last])
    record = read_journal(journal_path)
    assert not record.torn and len(record.visits) == 1


def test_visits_are_on_disk_before_the_journal_is_closed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", hosts_named("a", "b"), {})
    journal.visits([visit(0, 1, [1e-4])])
    assert len(read_journal(tmp_path / "j").visits) == 1
    journal.close()
    journal.close()


def test_visits_of_one_turn_are_one_write_and_those_it_ends_in_lose_the_torn_line_alone(
    tmp_path: Path,
) -> None:
    together = SampleColumns.of_rows([(1, 0, 1000), (2, 10, 2000), (1, 5, 3000)])
    samples, path = Samples.of(together), tmp_path / "j"
    parts = [(0, 1, 0, 2), (1, 2, 2, 2), (2, 0, 2, 3)]
    visits = [
        visit(src, dst, [], samples=samples, start=start, stop=stop, sent=5, received=2, stamps="kernel")
        for src, dst, start, stop in parts
    ]
    with Journal(path, hosts_named("a", "b", "c"), {}) as journal:
        header = path.stat().st_size
        written: list[int] = []
        append = os.write

        def write(fd: int, data: bytes) -> int:
            written.append(len(data))
            return append(fd, data)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", write)
            journal.visits(visits)
        assert written == [path.stat().st_size - header]
    record = read_journal(path)
    assert [(v.seq.tolist(), v.rtt_s.tolist()) for v in record.visits] == [
        ([1, 2], [1e-6, 2e-6]),
        ([], []),
        ([1], [3e-6]),
    ]
    # The one write cut short anywhere, as by a kill or a full disk: all whole lines count, and --resume cuts the rest.
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 0x0A]
    for cut in range(header, len(whole), 37):
        path.write_bytes(whole[:cut])
        journal, record = Journal.reopen(path)
        journal.close()
        assert len(record.visits) == sum(end <= cut for end in ends) - 1
        assert record.torn == (cut not in ends) and not read_journal(path).torn


def test_a_journal_is_never_overwritten(journal_path: Path) -> None:
    with pytest.raises(OutputExistsError, match="there already"):
        Journal(journal_path, hosts_named("a"), {})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}\n",
        b'{"journal": "netprobe.journal/2.0", "hosts": [], "options": {}}\n',
        b'{"journal": "netprobe.journal/1.0", "hosts": [{"name": "a b"}], "options": {}}\n',
        b'{"journal": "netprobe.journal/1.0"}\n',
        b"\xff\xfe\n",
    ],
)
def test_what_is_no_journal_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(DocumentError):
        read_journal(path)


def test_a_broken_line_in_the_middle_is_told_with_its_number(journal_path: Path) -> None:
    lines = journal_path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:50] + b"\n"
    journal_path.write_bytes(b"".join(lines))
    with pytest.raises(DocumentError, match="line 3"):
        read_journal(journal_path)


def test_a_missing_journal_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read_journal(tmp_path / "nothing")


def test_a_journal_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        Journal(tmp_path / "none" / "journal", hosts_named("a"), {})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
LINE: dict[str, dict[str, object]] = {
    "visit": {
        "src": 0, "dst": 1, "round": 0, "started_s": 0.0, "duration_s": 0.1, "measurement": "rtt",
        "method": "stamp", "src_port": 1, "dst_port": 2, "stamps": "kernel", "sent": 2, "received": 1,
        "duplicates": 0, "rejected": 0, "beside": 0, "reason": None,
    },
    "samples": {"seq": "AQAAAA==", "sent_at_s": "AAAAAAAA8D8=", "rtt_s": "LUMc6+I2Gj8="},
}  # fmt: skip
HEADER = {"journal": "netprobe.journal/1.0", "hosts": [{"name": "a"}, {"name": "b"}], "options": {}}


@given(
    part=st.sampled_from(["visit", "samples"]),
    key=st.sampled_from([*LINE["visit"], *LINE["samples"]]),
    value=ANYTHING,
)
def test_a_journal_of_a_stranger_is_refused_or_gives_a_scan(
    tmp_path_factory: pytest.TempPathFactory, part: str, key: str, value: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    line = json.loads(json.dumps(LINE))
    line[part][key] = value
    path.write_text(json.dumps(HEADER) + "\n" + json.dumps(line) + "\n")
    try:
        record = read_journal(path)
    except DocumentError as error:
        assert "line 2 cannot be read" in str(error)
        return
    outcomes = [HostOutcome(host=host) for host in record.hosts]
    measured = [Stamp(ScanOptions()).measurement.model_copy(update={"id": record.visits[0].measurement})]
    try:
        outcome = build_outcome(
            outcomes,
            record.visits,
            ScanOptions(),
            measurements=measured,
            run=ScanRun(rounds=1, duration_s=1.0),
        )
    except NoReadingError as error:
        outcome = error.outcome
    assert len(outcome.scan.visits) == 1


@given(
    note=ANYTHING | st.fixed_dictionaries({}, optional=dict.fromkeys(("host", "boot_id", "void"), ANYTHING))
)
def test_a_note_of_a_stranger_is_refused_or_kept(
    tmp_path_factory: pytest.TempPathFactory, note: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (HEADER, LINE, {"note": note})))
    try:
        record = read_journal(path)
    except DocumentError as error:
        assert "line 3 cannot be read" in str(error)
        return
    assert all(type(name) is type(boot) is str for name, boot in record.boots.items())
    assert len(record.visits) == 1 or (isinstance(note, dict) and note.get("void"))


@given(
    measuring=st.dictionaries(st.sampled_from(["measure", "pairs", "time", "size", "streams", "x"]), ANYTHING)
)
def test_what_a_strangers_journal_measures_is_refused_or_understood(measuring: dict[str, object]) -> None:
    record = JournalRecord(hosts=(), options={}, visits=(), notes=(), torn=False, measuring=measuring)
    asked = parse_measuring("rtt")
    try:
        found = continued_measuring(record, asked, given={"measure": "--measure"})
    except InputError:
        return
    assert found.capacity is None and phases_for(ScanOptions(), found)


@given(st.binary(max_size=200))
def test_any_bytes_after_the_header_are_a_journal_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    path.write_bytes(json.dumps(HEADER).encode() + b"\n" + content)
    try:
        record = read_journal(path)
    except DocumentError:
        return
    assert record.whole_bytes <= path.stat().st_size


def test_a_reopened_journal_goes_on_after_its_last_whole_line(journal_path: Path) -> None:
    whole = journal_path.read_bytes()
    journal_path.write_bytes(whole + b'{"visit":')
    journal, record = Journal.reopen(journal_path)
    assert record.torn and len(record.visits) == 2
    with journal:
        journal.visits([visit(2, 0, [2e-4])])
        with pytest.raises(InputError, match="another scan"):
            Journal.reopen(journal_path)
    assert journal_path.read_bytes().startswith(whole)
    again = read_journal(journal_path)
    assert [(v.src, v.dst) for v in again.visits] == [(0, 1), (1, 0), (2, 0)] and not again.torn

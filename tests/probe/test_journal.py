"""The journal comes back as it was written, also when its last line is torn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netprobe.core.errors import DocumentError, InputError, OutputExistsError
from netprobe.probe.journal import Journal, read_journal
from netprobe.probe.options import ScanOptions

from .conftest import hosts_named, visit


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    path = tmp_path / "scan.journal"
    with Journal(path, hosts_named("a", "b", "c"), ScanOptions().as_dict()) as journal:
        journal.note(host="c", status="unreachable", reason="no route to it")
        journal.visit(visit(0, 1, [1e-4, 1.5e-4, 0.1], dst_port=4000))
        journal.visit(visit(1, 0, [], sent=100, received=0, reason="no answer"))
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
    journal.visit(visit(0, 1, [1e-4]))
    assert len(read_journal(tmp_path / "j").visits) == 1
    journal.close()
    journal.close()


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

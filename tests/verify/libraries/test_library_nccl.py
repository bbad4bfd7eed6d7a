"""The table of nccl-tests' all_reduce_perf, and the command that prints it. No GPU is needed here."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.pipeline.verifying.libraries import all_slots
from netprobe.verify.libraries.nccl import NcclTests, read_nccl_report
from netprobe.verify.libraries.process_group import LibraryError

HEAD = """\
# nThread 1 nGpus 1 minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid 147870 on      gpu-a device  0 [0x31] Some GPU
#  Rank  1 Group  0 Pid 117174 on      gpu-b device  0 [0x31] Some GPU
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROW = "    33554432  8388608  float  sum  -1   195.40  171.72  171.72      0    195.41  171.71  171.71      0"
TAIL = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 171.715\n#\n"


def read(text: str) -> tuple[tuple[str, ...], list[Any]]:
    report = read_nccl_report(text.splitlines())
    return report.hosts, [(row.size_bytes, row.duration_s, row.wrong) for row in report.rows]


def test_a_table_is_read() -> None:
    noise = "gpu-a:147870:147870 [0] NCCL INFO Bootstrap : Using eth0\n"
    hosts, rows = read(noise + HEAD + noise + ROW + "\n" + TAIL)
    assert hosts == ("gpu-a", "gpu-b")
    assert rows == [(33554432, pytest.approx(195.40e-6), 0)]


def test_tables_of_older_releases_are_read() -> None:
    head = HEAD.replace("Group  0 ", "")
    without_root = "33554432 8388608 float sum 817.8 41.03 41.03 4e-07 785.1 42.74 42.74 4e-07\n"
    without_operation = "33554432 8388608 float 817.8 41.03 41.03 0e+00 785.1 42.74 42.74 0e+00\n"
    for row in (without_root, without_operation):
        assert read(head + row + TAIL)[1] == [(33554432, pytest.approx(817.8e-6), 0)]
    assert read(HEAD + ROW.replace(" 0 ", " N/A ") + "\n")[1][0][2] is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no table"),
        (HEAD + TAIL, "no table"),
        (HEAD + ROW.replace("171.72      0", "171.72      7") + "\n" + TAIL, "wrongly: 7"),
        (HEAD + ROW + "\n# Out of bounds values : 3 FAILED\n", "wrongly: 3"),
        (HEAD + ROW.replace("171.72  171.72", "fast  171.72", 1) + "\n" + TAIL, "no table"),
        (HEAD.replace("Rank  1", "Rank  0") + ROW, "two hosts for rank 0.*MPI=1"),
        (HEAD.replace("Rank  1", "Rank  2") + ROW, "every rank"),
    ],
)
def test_a_table_that_proves_nothing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(LibraryError, match=reason):
        read_nccl_report(text.splitlines())


WORDS = st.sampled_from(
    [*ROW.split(), *HEAD.split(), "\n", "\n", "# ", "nan", "inf", "1e99", "-1", "9" * 400, "²"]
)


@given(st.text(max_size=200) | st.lists(WORDS, max_size=60).map(" ".join))
def test_any_output_is_a_report_or_one_error(text: str) -> None:
    try:
        report = read_nccl_report((HEAD + text).splitlines())
    except LibraryError as error:
        assert str(error).isprintable()
    else:
        assert report.rows and all(0 < row.duration_s < 1e120 for row in report.rows)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell script")
def test_a_trial_is_a_job_in_the_exported_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mpirun is a script here that keeps what it was given and prints a table of the hostfile's ranks."""
    said = tmp_path / "said"
    script = f"""#!/bin/sh
echo "$@" >>{said}
cat "$2" >>{said}
grep -v '^#' "$2" | awk '{{print "#  Rank " NR-1 " Group 0 Pid 7 on " $1 " device 0 [0x1] GPU"}}'
echo '{ROW}'
"""
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(script)
    mpirun.chmod(mpirun.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    hosts = [make_host("a", slots=2), make_host("b", slots=1)]
    tests = NcclTests(all_slots, mca=["btl=tcp,self"], program="/opt/all_reduce_perf")
    with tests.open(hosts, algorithm="tree") as session:
        assert session.time_all_reduce((1, 0), 32 << 20, 60) == pytest.approx(195.40e-6)
        # It rounds a size down to a multiple of its ranks: the only row is what was measured.
        assert session.time_all_reduce((1, 0), (32 << 20) + 4, 60) == pytest.approx(195.40e-6)
        mpirun.write_text(
            script.replace("echo '", "echo '1024 256 float sum -1 9.0 1 1 0 9.0 1 1 0'; echo '")
        )
        assert session.time_all_reduce((1, 0), 32 << 20, 60) == pytest.approx(195.40e-6)
        assert session.time_all_reduce((1, 0), 1024, 60) == pytest.approx(9.0e-6)
    words = said.read_text()
    assert "--map-by seq" in words and "--mca btl tcp,self -x NCCL_ALGO=Tree /opt/all_reduce_perf" in words
    assert "-b 33554432 -e 33554432" in words
    assert [line.split()[0] for line in words.splitlines() if line[0] in "ab"] == ["b", "a", "a"] * 4


def test_a_program_that_is_none_is_refused() -> None:
    for program in ("", "-x", "a\nb"):
        with pytest.raises(InputError, match="all_reduce_perf"):
            NcclTests(all_slots, program=program)

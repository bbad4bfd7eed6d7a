"""What ranks say of themselves: run in a real shell, read back, and read among noise."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.formats.rank_output.rank_lines import read_rank_lines
from netprobe.formats.rank_output.rank_program import MARK, RANK_LAUNCHERS, rank_commands, rank_launcher

LINE = f"{MARK}slurm 3 8 1 names n3 n3.x.org addresses 10.0.0.3 fd00::3 end"


@pytest.mark.parametrize("name", sorted(RANK_LAUNCHERS))
def test_a_shell_says_what_the_launcher_has_set(name: str) -> None:
    launcher = RANK_LAUNCHERS[name]
    env = {"PATH": os.environ["PATH"], launcher.rank: "3", launcher.size: "8", launcher.local_rank: "1"}
    env |= dict.fromkeys(launcher.names, "its-name")
    said = subprocess.run(launcher.program, env=env, capture_output=True, text=True, check=True).stdout
    (line,) = read_rank_lines(f"noise\n[1,3]<stdout>:{said}more").lines
    assert (line.launcher, line.rank, line.size, line.local_rank, line.line) == (launcher.says, 3, 8, 1, 2)
    assert os.uname().nodename in line.names
    assert not launcher.names or line.names[0] == "its-name"
    bare = subprocess.run(launcher.program, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    (line,) = read_rank_lines(bare.stdout).lines
    assert (line.rank, line.size, line.local_rank) == (None, None, None)


def test_torn_lines_are_counted_and_the_command_itself_is_not() -> None:
    command = rank_commands(rank_launcher("slurm"), "hostfile", [make_host("a"), make_host("b")])[0]
    text = f"+ {command}\n3: {LINE}\r\n{LINE[:60]}\n{LINE}{LINE}\n{MARK}slurm x 8 1 names a addresses end\n{MARK}"
    log = read_rank_lines(text)
    assert [line.line for line in log.lines] == [2, 4, 4]
    assert log.torn == (3, 5, 6)
    assert {(line.names, line.addresses) for line in log.lines} == {
        (("n3", "n3.x.org"), ("10.0.0.3", "fd00::3"))
    }


@pytest.mark.parametrize(
    "around",
    [
        "3: {}",  # srun -l
        "[1,3]<stdout>:{}",  # mpirun --tag-output, of 4.1
        "[prterun-h-12@1,3]<stdout>: {}",  # and of 5
        '<stdout rank="3">{}&#010;</stdout>',  # --xml
        "[default3]:{}",  # torchrun
        "[pod/w-3/main] {}",  # kubectl logs --prefix
        "\x1b[32m{}\x1b[0m",
        "\x1b]0;title\x07{}\x1b[K\r",
        "{}\0more",
    ],
)
def test_what_stands_around_a_line_is_no_part_of_it(around: str) -> None:
    text = "\n".join(around.format(line) for line in ("noise", LINE, LINE.replace("slurm 3", "slurm 4")))
    log = read_rank_lines(text)
    assert [line.rank for line in log.lines] == [3, 4] and log.torn == ()
    assert {line.addresses for line in log.lines} == {("10.0.0.3", "fd00::3")}


def test_a_marked_word_and_strange_names_are_read() -> None:
    coloured = LINE.replace("netprobe-rank", "\x1b[01;31m\x1b[Knetprobe-rank\x1b[m\x1b[K")
    assert read_rank_lines(coloured).lines == read_rank_lines(LINE).lines
    for name in ("end", "addresses", "names", "end-1"):
        (line,) = read_rank_lines(LINE.replace(" n3 ", f" {name} ")).lines
        assert line.names == (name, "n3.x.org") and line.addresses == ("10.0.0.3", "fd00::3")


@pytest.mark.parametrize("name", ["\x07red", "\x1bred", "a;b", "$(id)", "-x", "é", "x" * 300])
def test_a_name_that_is_none_makes_the_line_strange(name: str) -> None:
    assert read_rank_lines(LINE.replace(" n3 ", f" {name} ")).lines == ()


words = st.sampled_from(
    ["netprobe-rank", "1", "slurm", "3", "none", "names", "addresses", "end", "n1", "\n", MARK]
)


@given(st.lists(words | st.text(max_size=8), max_size=60).map(" ".join) | st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    log = read_rank_lines(text + "\n" + LINE)
    assert log.lines and log.lines[-1].rank == 3
    assert all(line.line <= text.count("\n") + 2 for line in log.lines)


def test_more_lines_than_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netprobe.formats.rank_output.rank_lines.MAX_RANKS", 3)
    with pytest.raises(InputError, match="out.log: more than 3 lines"):
        read_rank_lines(f"{LINE}\n" * 4, source="out.log")


def test_an_unknown_launcher_names_the_known() -> None:
    with pytest.raises(InputError, match="known are openmpi, rankfile, mpich, slurm, torchrun, horovod"):
        rank_launcher("lamboot")

"""What went wrong for people who had the tool for the first time: each is one line now that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netprobe.cli.entry import run


def line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on stderr."""
    err = capsys.readouterr().err
    assert err.startswith("netprobe: ")
    assert err.count("\n") == 1
    return err.removeprefix("netprobe: ").strip()


@pytest.mark.parametrize("text", ["a b\n", "a b c\n", "a, b\n", "a,b\n", "a b slots=2\n", "a a.example\n"])
def test_several_hosts_on_a_line_never_become_one(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts").write_text("z\n" + text)
    assert run(["scan", str(tmp_path / "hosts"), "--dry-run"]) == 2
    said = line(capsys)
    assert "hosts:2: " in said
    assert "write one host a line" in said


@pytest.mark.parametrize("hosts", ["one,", "file"])
def test_a_dry_run_of_one_host_says_that_two_are_needed(
    hosts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("one\n")
    assert run(["scan", hosts if "," in hosts else str(tmp_path / hosts), "--dry-run"]) == 2
    assert "at least two hosts are needed" in line(capsys)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_a_dry_run_tries_whether_the_folder_can_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scan", "a,b", "--dry-run", "--out", "/proc/x"]) == 2
    assert "/proc/x: cannot be made: " in line(capsys)
    assert run(["scan", "a,b", "--dry-run", "--out", str(tmp_path / "below" / "x"), "-q"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "code"), [("5000", 0), ("5000-5100", 0), ("70000", 2), ("5100-5000", 2)])
def test_one_port_is_a_range_as_help_says(text: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", "a,b", "--port-range", text, "--dry-run", "-q"]) == code
    capsys.readouterr()
    assert run(["scan", "--help"]) == 0
    assert "LOW[-HIGH]" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["slurm", "srun"])
def test_a_format_that_is_only_read_is_answered_with_the_one_that_is_written(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "hostfile", "plan.json", "-f", name]) == 2
    assert line(capsys).endswith("did you mean slurm-hostfile?")


@pytest.mark.parametrize(
    ("args", "verb"), [(["--size", "1MB"], "is"), (["--size", "1MB", "--streams", "2"], "are")]
)
def test_options_of_goodput_are_named_in_the_right_number(
    args: list[str], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scan", "a,b", "--dry-run", *args]) == 2
    assert f"{verb} of goodput" in line(capsys)


def test_a_lone_v_is_told_from_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-v"]) == 2
    assert "Did you mean -V" in line(capsys)
    assert run([]) == 2
    out, err = capsys.readouterr()
    assert "Usage: netprobe" in out
    assert err.count("\n") == 1


@pytest.mark.parametrize("args", [["--help"], ["scan", "a,b", "--dry-run"], ["map", "x.json"]])
@pytest.mark.parametrize("how", ["-m", "entry"])
def test_a_python_without_the_packages_is_told_what_to_install(
    args: list[str], how: str, tmp_path: Path
) -> None:
    start = ["-m", "netprobe"] if how == "-m" else ["-c", "from netprobe.cli.entry import main; main()"]
    root = str(Path(__file__).resolve().parents[2])
    environ = {**os.environ, "PYTHONPATH": root}
    # -S leaves out everything that is installed besides Python itself.
    done = subprocess.run(
        [sys.executable, "-S", *start, *args], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "lacks numpy, scipy" in done.stderr
    assert "-m pip install numpy scipy array-api-compat pydantic typer rich PyYAML" in done.stderr


def test_a_wrong_unit_is_said_before_a_file_that_exists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rtt.csv").write_text("host,a,b\na,0,9\nb,9,0\n")
    assert run(["import", "matrix", str(tmp_path / "rtt.csv"), "--unit", "ms", "-q"]) == 0
    assert run(["import", "matrix", str(tmp_path / "rtt.csv"), "--unit", "parsec"]) == 2
    said = line(capsys)
    assert "parsec" in said
    assert "exists" not in said
    assert run(["show", str(tmp_path / "scan.json")]) == 0
    assert "2 of 2 links, imported" in capsys.readouterr().out


def test_an_option_that_was_not_typed_is_not_blamed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", "../../x", "b"]) == 2
    assert line(capsys).startswith("hosts: host name '../../x' has characters outside")

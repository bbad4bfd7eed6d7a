"""Progress bars move, and nothing of them is in a pipe."""

from __future__ import annotations

import sys

import pytest
from rich.progress import Task

from netprobe.cli.output import Output
from netprobe.cli.progress import ScanProgress, working
from netprobe.probe.records import events


class Live(Output):
    """As on a terminal."""

    @property
    def live(self) -> bool:
        return True


def bar(progress: ScanProgress) -> Task:
    """The only one there is."""
    assert progress._progress is not None
    (task,) = progress._progress.tasks
    return task


def test_a_stage_without_an_end_has_no_full_bar() -> None:
    with ScanProgress(Live()) as progress:
        progress.on_event(events.HostUp(host="a", up=8, total=8))
        assert (bar(progress).total, bar(progress).completed) == (8, 8)
        progress.on_event(events.Step(text="looking around", detail="8 hosts"))
        assert bar(progress).total is None and not bar(progress).finished
        done = {"links_total": 9, "elapsed_s": 1.0, "left_s": 2.0, "measurement": "rtt", "rounds_total": 3}
        for number in (1, 2, 3):
            progress.on_event(events.RoundDone(rounds_done=number, links_done=3 * number, **done))  # type: ignore[arg-type]
            assert (bar(progress).total, bar(progress).completed) == (3, number)
        for stage in ("map", "plan"):
            progress.on_stage(stage)
            assert bar(progress).total is None and not bar(progress).finished
        bar(progress)


def test_a_stage_says_what_is_left_of_it() -> None:
    with ScanProgress(Live()) as progress:
        progress.on_event(events.Step(text="comparing orders", detail="6 runs, 1.20x so far", left_s=41.6))
        assert bar(progress).fields["detail"] == "6 runs, 1.20x so far, up to 42 s left"
        progress.on_event(events.Step(text="connecting", detail="8 hosts"))
        assert bar(progress).fields["detail"] == "8 hosts"


def test_nothing_of_a_bar_is_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert not sys.stderr.isatty()
    with working(Output(), "mapping"):
        pass
    assert capsys.readouterr() == ("", "")
    with working(Live(), "mapping"):
        pass


def test_one_reason_is_two_lines_however_many_hosts_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    with ScanProgress(Output()) as progress:
        for number in range(8):
            progress.on_event(events.HostFailed(host=f"h{number}", reason="permission denied"))
        progress.on_event(events.HostFailed(host="x", reason="no Python"))
        progress.on_event(events.AgentsUp(up=1, total=10, elapsed_s=1.0))
        # Later ones are told as they come.
        for number in range(2):
            progress.on_event(events.HostFailed(host=f"y{number}", reason="gone"))
    said = capsys.readouterr().err
    wanted = [
        "h0: permission denied",
        "x: no Python",
        "h1, h2, h3, h4 and 3 more: permission denied",
        "y0: gone",
        "y1: gone",
    ]
    assert [
        line.removeprefix("netprobe: ") for line in said.splitlines() if " up after " not in line
    ] == wanted

"""Signals end work cleanly from its first moment on, and one that is ignored stays ignored."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from netprobe.cli.entry import run
from netprobe.core.system.interrupts import signals_held
from netprobe.probe.fleet.stopping import run_stoppable, until_stopped


@pytest.fixture
def sighup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_signal_before_there_is_a_loop_stops_the_work(
    sighup: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    new_loop = asyncio.new_event_loop

    def signalled() -> asyncio.AbstractEventLoop:
        os.kill(os.getpid(), signal.SIGHUP)
        return new_loop()

    monkeypatch.setattr("asyncio.runners.events.new_event_loop", signalled)
    assert run_stoppable(lambda stop: until_stopped(asyncio.sleep(60), stop))
    assert signal.getsignal(signal.SIGHUP) is signal.default_int_handler


def test_nohup_is_respected(sighup: None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)

    assert not run_stoppable(lambda stop: until_stopped(work(), stop))


def test_an_interrupt_anywhere_in_a_command_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("netprobe.plan.load_plan", interrupted)
    assert run(["export", "hostfile", "plan.json"]) == 130
    assert capsys.readouterr().err == "netprobe: interrupted\n"


def test_a_signal_after_the_work_is_for_the_caller() -> None:
    async def work(_stop: asyncio.Event) -> str:
        return "done"

    with signals_held() as held:
        close = asyncio.base_events.BaseEventLoop.close

        def closing(loop: asyncio.base_events.BaseEventLoop) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            close(loop)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.base_events.BaseEventLoop, "close", closing)
            assert run_stoppable(work) == "done"
    assert held == [signal.SIGINT]


def test_signals_in_a_hurry_count_once() -> None:
    code = (
        "import os, signal, time\n"
        "from netprobe.core.system.interrupts import interrupt\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "signal.signal(signal.SIGTERM, interrupt)\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    for number in [signal.SIGINT, signal.SIGTERM] * 3:\n"
        "        os.kill(os.getpid(), number)\n"
        "    print('cleared up')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "cleared up\n"), done.stderr

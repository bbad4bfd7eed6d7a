"""Ctrl-C and its like: pressed in a hurry they count once, and what must be written is written first."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HURRY_S = 2.0
"""More of these signals so soon after one are the same wish, uttered again."""
_last_s = float("-inf")


def noted() -> bool:
    """Take note of a signal that ends work; False for one that only repeats an earlier one."""
    global _last_s
    now = time.monotonic()
    if now - _last_s < HURRY_S:
        return False
    _last_s = now
    return True


def interrupt(_number: int, _frame: Any) -> None:
    """A handler: KeyboardInterrupt, but not again while what the first one ended is being cleared up."""
    if noted():
        raise KeyboardInterrupt


@contextlib.contextmanager
def signals_held() -> Iterator[list[int]]:
    """For work that must not be cut: these signals are collected in the list, and the caller looks what came.

    One that is ignored (nohup) stays ignored; outside the main thread, which alone gets signals, nothing is done.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return

    def keep(number: int, _frame: Any) -> None:
        held.append(number)

    before = {number: signal.getsignal(number) for number in ENDING}
    handled = {number: what for number, what in before.items() if what is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, keep)
    try:
        yield held
    finally:
        for number, what in handled.items():
            signal.signal(number, what)

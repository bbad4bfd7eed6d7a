"""Ending early: work that a signal or an event stops, cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


async def until_stopped(work: Any, stop: asyncio.Event | None) -> bool:
    """Run ``work`` to its end, or cancel it when ``stop`` is set; whether it was stopped."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stop.wait()) if stop is not None else None
    try:
        await asyncio.wait(
            {task} if waiting is None else {task, waiting}, return_when=asyncio.FIRST_COMPLETED
        )
        if task.done():
            task.result()
            return False
        return True
    finally:
        for future in (task, waiting):
            if future is not None:
                future.cancel()
        await asyncio.gather(*(f for f in (task, waiting) if f is not None), return_exceptions=True)


@contextlib.contextmanager
def signals_set(stop: asyncio.Event) -> Iterator[None]:
    """In the main thread, SIGINT, SIGTERM and SIGHUP set ``stop`` instead of what they did; elsewhere nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in handled}
    for number in handled:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])

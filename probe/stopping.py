"""Ending early: work that a signal or an event stops, cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def run_stoppable(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """Run ``main(stop)`` in a loop of its own; in the main thread SIGINT, SIGTERM and SIGHUP set ``stop``.

    They do from the first moment on, while there is no loop yet that could be told. One that is ignored
    (nohup, a job in the background) stays ignored.
    """
    told: list[int] = []

    async def whole() -> T:
        stop = asyncio.Event()
        with _signals_set(stop, handled):
            if told:
                stop.set()
            return await main(stop)

    handled: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in _HANDLED}
        handled = {number: before for number, before in found.items() if before is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, lambda number, _frame: told.append(number))
    try:
        return asyncio.run(whole())
    finally:
        for number, before in handled.items():
            signal.signal(number, before)


@contextlib.contextmanager
def _signals_set(stop: asyncio.Event, handled: Collection[signal.Signals]) -> Iterator[None]:
    """These signals set ``stop``, and what they did before again afterwards."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in handled}
    for number in handled:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])

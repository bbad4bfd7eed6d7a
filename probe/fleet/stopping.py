"""Ending early: work that a signal or an event stops, cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from netprobe.core.system.interrupts import ENDING, noted, signals_held

T = TypeVar("T")


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

    They do from the first moment on, while there is no loop yet to tell. One that is ignored
    (nohup, a job in the background) stays ignored.
    """

    async def whole() -> T:
        stop = asyncio.Event()
        with _signals_set(stop), _known_by_thread(stop):
            if held:
                held.clear()
                stop.set()
            return await main(stop)

    with signals_held() as held:
        result = asyncio.run(whole())
    if held:  # too late to stop this work: whoever called may have more
        signal.raise_signal(held[0])
    return result


_stops: dict[int, Callable[[], object]] = {}
"""What stops the work of a thread, by the thread's number."""


def stop_thread(thread: threading.Thread) -> bool:
    """Stop the work that runs in another thread, as a signal stops that of the main one; whether there is any."""
    stop = _stops.get(thread.ident or 0)
    if stop is not None:
        stop()
    return stop is not None


@contextlib.contextmanager
def _known_by_thread(stop: asyncio.Event) -> Iterator[None]:
    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    _stops[thread] = lambda: loop.call_soon_threadsafe(stop.set)
    try:
        yield
    finally:
        del _stops[thread]


@contextlib.contextmanager
def _signals_set(stop: asyncio.Event) -> Iterator[None]:
    """The signals that are held set ``stop``, and are held again afterwards."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in ENDING}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    handled = {number: what for number, what in before.items() if what is not signal.SIG_IGN}

    def on_signal() -> None:
        noted()
        stop.set()

    for number in handled:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number, what in handled.items():
            loop.remove_signal_handler(number)
            signal.signal(number, what)

"""A tape whose messages overtake: whichever has come takes effect, where the order of the sums allows it.

Messages that change the same elements take effect in the order of the tape, so that a sum has the same bits whatever
arrives first. All others do as they come, and what waits for them is sent at once. A rank posts its receives in
the order of the tape, so many at a time, and Gloo moves a message only when its receive is posted: the tape's order is
by what a rank's incoming link is shared out.

Why nothing hangs, however few receives are posted at a time: take the rank whose first missing receive has the lowest
step. It is posted, since all before it have come. All that its sender waits for has a lower step, and so has come;
so have the sends that used its place before been read (tapes with `exchange_steps` do not overtake). So it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import perf_counter
from typing import Any

from netprobe.probe.agent.collective.program import RECEIVE
from netprobe.runtime.tape import Message, Tape
from netprobe.runtime.waiters import Awaited, Waiters

Start = Callable[[Message, Any], Any]
"""Sends a view, or posts the receive of a message into one; a torch work."""


class MessageFailed(Exception):
    """Message ``message`` could not be sent or did not come; ``error`` is what torch says."""

    def __init__(self, message: int, error: RuntimeError) -> None:
        self.message, self.error = message, error
        super().__init__(str(error))


class Staging:
    """Buffers of one dtype for what is added, made when they are needed, at most ``most`` at a time."""

    def __init__(self, elements: int, most: int) -> None:
        self.elements, self.most = elements, most
        self._made = 0
        self._free: list[Any] = []

    def take(self, like: Any) -> Any:
        """A buffer, or None where all are in use."""
        if self._free:
            return self._free.pop()
        if self._made == self.most:
            return None
        self._made += 1
        return like.new_empty(self.elements)

    def give_back(self, buffer: Any) -> None:
        """It may be used again."""
        self._free.append(buffer)


class Overtaking:
    """One run of a tape on the tensor ``flat``; raises MessageFailed."""

    def __init__(
        self,
        tape: Tape,
        flat: Any,
        *,
        start: tuple[Start, Start],
        waiters: Waiters,
        staging: Staging,
        timeout: timedelta,
        adds: bool,
    ) -> None:
        self._messages, self._after, self._window = tape.messages, tape.after, tape.window
        self._flat, self._waiters, self._staging = flat, waiters, staging
        self._send_now, self._receive_now = start
        self._timeout, self._adds = timeout, adds
        self._receives = [i for i, one in enumerate(self._messages) if one.kind == RECEIVE]
        self._then: list[list[int]] = [[] for _ in self._messages]
        self._missing = [0] * len(self._messages)
        for i, own in enumerate(self._after):
            for earlier in own:
                if self._messages[earlier].kind == RECEIVE:
                    self._then[earlier].append(i)
                    self._missing[i] += 1
        self._came = [False] * len(self._messages)
        self._sent: dict[int, Any] = {}
        """Works of sends that nothing has waited for."""
        self._issued = [False] * len(self._messages)
        self._staged: dict[int, Any] = {}
        self._posted = 0
        self._open = 0
        self.wire_s = self.reduce_s = self.wait_s = 0.0

    def run(self, waited_s: list[float]) -> None:
        """All of it; what was waited for each peer is added to ``waited_s``."""
        began = perf_counter()
        # Receives first: a message whose receive is posted leaves at once.
        self._post()
        for i, message in enumerate(self._messages):
            if message.kind != RECEIVE and not self._missing[i]:
                self._send(i)
        self._post()
        self.wire_s += perf_counter() - began
        for _ in self._receives:
            i = self._next(waited_s)
            began, added = perf_counter(), self.reduce_s
            self.came(i)
            self.wire_s += perf_counter() - began - (self.reduce_s - added)
        began = perf_counter()
        for i, work in self._sent.items():
            self._guarded(i, lambda: work.wait(self._timeout))  # noqa: B023
        self.wire_s += perf_counter() - began

    def came(self, i: int) -> None:
        """Receive ``i`` has come."""
        self._came[i] = True
        self._open -= 1
        if not self._missing[i]:
            self._take(i)
        self._post()

    def first_missing(self) -> int:
        """The first receive of the tape that has not come."""
        return next((i for i in self._receives if not self._came[i]), self._receives[-1])

    def _next(self, waited_s: list[float]) -> int:
        began = perf_counter()
        came = self._waiters.next()
        took = perf_counter() - began
        self.wait_s += took
        waited_s[self._messages[came.message].peer] += took
        if came.error is not None:
            raise MessageFailed(came.failed, came.error)
        return came.message

    def _send(self, i: int) -> None:
        self._issued[i] = True
        self._sent[i] = self._guarded(i, lambda: self._send_now(self._messages[i], self._view(i)))

    def _post(self) -> None:
        """Post the next receives, where there is room for them."""
        while self._open < self._window and self._posted < len(self._receives):
            i = self._receives[self._posted]
            message = self._messages[i]
            readers = [e for e in self._after[i] if self._messages[e].kind != RECEIVE]
            if not all(self._issued[e] for e in readers):
                return
            if self._missing[i] and not message.reduces:
                return  # it goes to its place, where others still have to be added
            if message.reduces:
                into = self._staging.take(self._flat)
                if into is None:
                    return
                self._staged[i] = into
                into = into[: message.end - message.begin]
            else:
                into = self._view(i)
            before = [(e, self._sent.pop(e)) for e in readers if e in self._sent]
            self._posted += 1
            self._open += 1
            if before:
                # What was sent from there has long been read where the message holds it in turn; who knows elsewhere.
                self._waiters.put(
                    Awaited(i, before, lambda m=message, v=into: self._receive_now(m, v), self._timeout)  # type: ignore[misc]
                )
            else:
                work = self._guarded(i, lambda: self._receive_now(message, into))  # noqa: B023
                self._waiters.put(Awaited(i, (), lambda w=work: w, self._timeout))  # type: ignore[misc]

    def _take(self, i: int) -> None:
        """Let a message take effect that came, and those that waited for it."""
        todo = [i]
        while todo:
            i = todo.pop()
            if i in self._staged:
                began = perf_counter()
                buffer, message = self._staged.pop(i), self._messages[i]
                if self._adds:
                    self._view(i).add_(buffer[: message.end - message.begin])
                self._staging.give_back(buffer)
                self.reduce_s += perf_counter() - began
            for then in self._then[i]:
                self._missing[then] -= 1
                if not self._missing[then]:
                    if self._messages[then].kind != RECEIVE:
                        self._send(then)
                    elif self._came[then]:
                        todo.append(then)

    def _view(self, i: int) -> Any:
        message = self._messages[i]
        return self._flat[message.begin : message.end]

    def _guarded(self, i: int, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except RuntimeError as error:
            raise MessageFailed(i, error) from None

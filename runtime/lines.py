"""The messages of a tape over torch.distributed: one process group per channel, each with connections of its own.

Gloo: messages are matched by tags, a receive that is posted early lets its sender start at once, and a wait
ends with an error when the peer's connection closes or its time is up. Waiting releases Python's lock. Tags also tell
tensors of unlike sizes and dtypes apart: their messages never meet, so that no rank adds up what it must not.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any

from netprobe.runtime.native.engine import TIMED_OUT, Failed
from netprobe.runtime.native.lines import NativeLines, open_native, warn_of_torch
from netprobe.runtime.overtaking import MessageFailed, Overtaking, Staging
from netprobe.runtime.sockets import Ends, close_connections, own_connections, usual_address
from netprobe.runtime.tape import ADD, POST, PUT, SEND_NOW, TAKE, Message, Tape
from netprobe.runtime.tensors import kind_of, mark_of
from netprobe.runtime.waiters import Waiters

MOST_TAGS = 1 << 20
"""Of one collective and connection."""
_SIZES, _BODIES = (1 << 31) - 2, (1 << 31) - 1
"""Tags of short messages; torch's are below 2 ** 31."""
PARTS = ("copy", "wire", "reduce", "wait")


class MessageError(Exception):
    """A message that could not be sent or did not come: the ``peer`` at its other end, whether the time was up.

    ``waited``: all whose messages were still to come, where that is known.
    """

    def __init__(self, peer: int, timed_out: bool, text: str, waited: Sequence[int] = ()) -> None:
        self.peer, self.timed_out, self.waited = peer, timed_out, tuple(waited)
        super().__init__(text)


_MET: Counter[tuple[str, tuple[int, ...]]] = Counter()


def meeting(members: Sequence[int], what: str) -> Any:
    """A part of the job's store that ``members`` (global ranks) have for themselves; a new one at each call.

    torch has no public name for the store of the default group.
    """
    from torch.distributed import PrefixStore
    from torch.distributed.distributed_c10d import _get_default_store

    key = (what, tuple(members))
    number = _MET[key]
    _MET[key] += 1
    return PrefixStore(
        f"netprobe/{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}/{number}", _get_default_store()
    )


class Lines:
    """The connections among ``ranks`` ranks, of which this one is ``rank``, and the staging buffers.

    They are Gloo's, made over a store that only they use: torch's ``new_group`` names groups by how many a process
    has made, and hangs where members have made different numbers of them.
    """

    def __init__(
        self, store: Any, rank: int, ranks: int, channels: int, timeout_s: float, *, native: bool = True
    ) -> None:
        from torch.distributed import PrefixStore
        from torch.distributed.distributed_c10d import ProcessGroupGloo

        def group(channel: int) -> Any:
            return ProcessGroupGloo(
                PrefixStore(f"channel {channel}", store), rank, ranks, timeout=timedelta(seconds=timeout_s)
            )

        self.channels = channels
        before = own_connections()
        self._groups = [group(0)]
        now = own_connections()
        fresh = [ends for at, ends in now.items() if before.get(at) != ends]
        why_not = "" if native else "its settings say so"
        self._native, why = open_native(
            PrefixStore("native", store), usual_address(fresh), rank, ranks, channels, timeout_s, why_not
        )
        if self._native is None:
            if native and rank == 0:
                warn_of_torch(why)
            self._groups += [group(channel) for channel in range(1, channels)]
            now = own_connections()
        self._ends: dict[int, Ends] = {at: ends for at, ends in now.items() if before.get(at) != ends}
        self._waiters: Waiters | None = None
        self._stuck = False
        self._spare: dict[Any, Staging] = {}
        self._timeout = timedelta(seconds=timeout_s)
        self._timeout_s = timeout_s
        self._staging: dict[Any, Any] = {}
        self._turn = 0
        self.waited_s = [0.0] * ranks
        """For messages of each peer, since the beginning."""

    def run(self, tape: Tape, flat: Any, *, adds: bool = True) -> dict[str, float]:
        """Run a tape on a contiguous tensor of one dimension; seconds by `PARTS`. Raises MessageError."""
        if self._native is not None:
            return self._run_native(self._native, tape, flat, adds)
        if tape.window:
            return self._overtaking(tape, flat, adds)
        messages = tape.messages
        views = {run: flat[run[0] : run[1]] for run in {one[4:6] for one in messages}}
        staging = self._slots(tape, flat)
        base = self._base(flat)
        works: list[Any] = [None] * len(messages)
        wire = reduce = wait = 0.0
        message: Message | None = None
        code = POST
        began = perf_counter()
        try:
            for code, i, slot in tape.operations:
                message = messages[i]
                began = perf_counter()
                if code == SEND_NOW:
                    works[i] = self._groups[message.channel].send(
                        [views[message[4:6]]], message.peer, base + message.tag
                    )
                    wire += perf_counter() - began
                elif code == POST:
                    into = views[message[4:6]] if slot < 0 else staging[slot][: message.end - message.begin]
                    works[i] = self._receive(message, into, base)
                    wire += perf_counter() - began
                elif code == ADD:
                    if adds:
                        views[message[4:6]].add_(staging[slot][: message.end - message.begin])
                    reduce += perf_counter() - began
                elif code == PUT:
                    views[message[4:6]].copy_(staging[slot][: message.end - message.begin])
                    reduce += perf_counter() - began
                else:
                    works[i].wait(self._timeout)
                    works[i] = None
                    if code == TAKE:
                        took = perf_counter() - began
                        wait += took
                        self.waited_s[message.peer] += took
                    else:
                        wire += perf_counter() - began
        except RuntimeError as error:
            took = perf_counter() - began
            if code in (ADD, PUT):
                raise
            works.clear()  # they would hold the connections open, and this frame lives as long as the error
            raise self._fault(message, error, took) from None
        except BaseException:
            self._stuck = True  # works of this frame hold the connections open
            raise
        return {"copy": 0.0, "wire": wire, "reduce": reduce, "wait": wait}

    @property
    def native(self) -> bool:
        """Whether tapes are run by the library in C."""
        return self._native is not None

    def _run_native(self, native: NativeLines, tape: Tape, flat: Any, adds: bool) -> dict[str, float]:
        """`run` by the library in C."""
        began = perf_counter()
        try:
            wait_s, reduce_s = native.run(
                tape, flat, kind_of(flat), mark_of(flat), self._timeout_s, adds=adds
            )
        except Failed as failed:
            peer, waited = native.peers_of(failed)
            raise MessageError(peer, failed.code == TIMED_OUT, str(failed), waited) from None
        native.add_waited_s(self.waited_s)
        took = perf_counter() - began
        return {"copy": 0.0, "wire": took - wait_s - reduce_s, "reduce": reduce_s, "wait": wait_s}

    def _base(self, flat: Any) -> int:
        """Two tags for a message, in turns: a rank may be an iteration ahead of another."""
        self._turn = 1 - self._turn
        return MOST_TAGS * (2 * mark_of(flat) + 1 - self._turn)

    def _overtaking(self, tape: Tape, flat: Any, adds: bool) -> dict[str, float]:
        """`run` of a tape whose messages overtake."""
        if self._waiters is None or len(self._waiters.threads) < tape.window:
            if self._waiters is not None:
                self._waiters.end()
            self._waiters = Waiters(tape.window, partial(close_connections, self._ends))
        spare = self._spare.get(flat.dtype)
        if spare is None or spare.elements < tape.slot_elements or spare.most != 2 * tape.window:
            spare = self._spare[flat.dtype] = Staging(tape.slot_elements, 2 * tape.window)
        base = self._base(flat)

        def send(message: Message, view: Any) -> Any:
            return self._groups[message.channel].send([view], message.peer, base + message.tag)

        def receive(message: Message, into: Any) -> Any:
            return self._receive(message, into, base)

        began = perf_counter()
        one = Overtaking(
            tape, flat, start=(send, receive), waiters=self._waiters, staging=spare, timeout=self._timeout, adds=adds
        )  # fmt: skip
        try:
            one.run(self.waited_s)
        except MessageFailed as failed:
            self._stuck = True
            fault = self._fault(tape.messages[failed.message], failed.error, perf_counter() - began)
            if fault.timed_out:
                # Whose sender is nearest to what all wait for, as a rank knows that takes one message after the other.
                fault.peer = tape.messages[one.first_missing()].peer
            raise fault from None
        except BaseException:
            self._stuck = True
            raise
        return {"copy": 0.0, "wire": one.wire_s, "reduce": one.reduce_s, "wait": one.wait_s}

    def _receive(self, message: Message, into: Any, base: int) -> Any:
        """Post a receive."""
        return self._groups[message.channel].recv([into], message.peer, base + message.tag)

    def tell(self, peer: int, data: bytes) -> None:
        """Send a short message, between two collectives. Raises MessageError."""
        import torch

        size = torch.tensor([len(data)], dtype=torch.int64)
        self._short(peer, lambda: self._groups[0].send([size], peer, _SIZES))
        if data:
            body = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            self._short(peer, lambda: self._groups[0].send([body], peer, _BODIES))

    def hear(self, peer: int) -> bytes:
        """Receive a short message. Raises MessageError."""
        import torch

        size = torch.zeros(1, dtype=torch.int64)
        self._short(peer, lambda: self._groups[0].recv([size], peer, _SIZES))
        body = torch.zeros(int(size), dtype=torch.uint8)
        if len(body):
            self._short(peer, lambda: self._groups[0].recv([body], peer, _BODIES))
        return bytes(body.numpy().tobytes())

    def _short(self, peer: int, start: Callable[[], Any]) -> None:
        began = perf_counter()
        try:
            start().wait(self._timeout)
        except RuntimeError as error:
            raise self._fault_with(peer, error, perf_counter() - began) from None

    def close(self) -> None:
        """Close the connections, so that peers that wait for this rank learn of its end at once."""
        if self._native is not None:
            self._native.close()
        if self._stuck:
            # Threads that wait hold the connections open.
            close_connections(self._ends)
        if self._waiters is not None:
            self._waiters.end()
            self._waiters = None
        self._groups.clear()

    def _fault(self, message: Message | None, error: RuntimeError, took: float) -> MessageError:
        assert message is not None
        return self._fault_with(message.peer, error, took)

    def _fault_with(self, peer: int, error: RuntimeError, took: float) -> MessageError:
        text = "Gloo said: " + " ".join(str(error).split())
        return MessageError(peer, took >= 0.9 * self._timeout_s or "imed out" in text, text)

    def _slots(self, tape: Tape, flat: Any) -> list[Any]:
        """Staging buffers of a tape; those of a dtype are made once and kept."""
        if not tape.slots:
            return []
        needed = tape.slots * tape.slot_elements
        buffer = self._staging.get(flat.dtype)
        if buffer is None or buffer.numel() < needed:
            buffer = flat.new_empty(needed)
            self._staging[flat.dtype] = buffer
        return list(buffer[:needed].split(tape.slot_elements))

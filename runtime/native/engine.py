"""Tapes run by the library in C over connections that are open."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netprobe.probe.agent.collective.program import RECEIVE
from netprobe.runtime.native.build import library
from netprobe.runtime.tape import Tape

SLICE_S = 0.2
"""So often a signal (Ctrl-C) is looked for."""
DONE, AGAIN, LOST, TIMED_OUT, UNLIKE, NO_MEMORY = range(6)
_MESSAGE = np.dtype(
    [("receives", "i4"), ("link", "i4"), ("tag", "i4"), ("reduces", "i4"), ("begin", "i8"), ("end", "i8")]
)


class Failed(Exception):
    """A collective that did not end: by what (LOST, TIMED_OUT, UNLIKE, NO_MEMORY), on which connection.

    ``missing``: the connections that it waited for, what is first in the tape first.
    """

    def __init__(self, code: int, link: int, text: str, missing: Sequence[int] = ()) -> None:
        self.code, self.link, self.missing = code, link, tuple(missing)
        super().__init__(text)


class Engine:
    """Runs tapes; ``descriptors`` of the connections, ``links`` their numbers by peer and channel."""

    def __init__(self, descriptors: Sequence[int], links: Mapping[tuple[int, int], int]) -> None:
        self._library = library()
        self._links, self._count = dict(links), len(descriptors)
        own = np.array(descriptors, dtype=np.int32)
        self._engine = self._library.np_engine_new(self._count, _ints(own))
        if not self._engine:
            raise MemoryError
        self._tapes: weakref.WeakKeyDictionary[Tape, _Prepared] = weakref.WeakKeyDictionary()
        self.end = weakref.finalize(self, self._library.np_engine_free, self._engine)
        self.end.atexit = False  # a thread may still be in there

    def run(
        self, tape: Tape, data: int, kind: int, mark: int, timeout_s: float, *, adds: bool
    ) -> tuple[float, float]:
        """Run a tape on the buffer at ``data``; seconds waited and adding. Raises Failed."""
        prepared = self._tapes.get(tape)
        if prepared is None:
            prepared = self._tapes[tape] = _Prepared(tape, self._links, self._count)
        go = self._library.np_go
        code = self._library.np_begin(self._engine, prepared.tape, data, kind, adds, mark)
        try:
            if code == DONE:
                code = AGAIN
            while code == AGAIN:
                code = go(self._engine, timeout_s, SLICE_S)
        except BaseException:
            self._library.np_stop(self._engine)
            raise
        wait_s, reduce_s = ctypes.c_double(), ctypes.c_double()
        link, error = ctypes.c_int32(), ctypes.c_int32()
        self._library.np_told(self._engine, wait_s, reduce_s, link, error)
        if code != DONE:
            missing = () if code == NO_MEMORY else self._missing()
            self._library.np_stop(self._engine)
            at = missing[0] if code == TIMED_OUT else link.value
            how = os.strerror(error.value) if error.value else "closed by the other end"
            raise Failed(code, at, _TEXTS[code].format(how=how, timeout_s=timeout_s), missing)
        return wait_s.value, reduce_s.value

    def _missing(self) -> Sequence[int]:
        links = np.zeros(self._count, dtype=np.int32)
        return list(links[: self._library.np_missing(self._engine, _ints(links))].tolist())

    def waited_s(self) -> list[float]:
        """Of each connection, since it was made."""
        found = np.zeros(self._count)
        self._library.np_waited(self._engine, found.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))
        return list(found.tolist())


_TEXTS = {
    LOST: "the connection ended ({how})",
    TIMED_OUT: "nothing came for {timeout_s:g} s",
    UNLIKE: "a message of another tensor came",
    NO_MEMORY: "no memory for a message that came before its turn",
}


class _Prepared:
    """A tape as the library has it."""

    def __init__(self, tape: Tape, links: Mapping[tuple[int, int], int], count: int) -> None:
        rows = np.zeros(len(tape.messages), dtype=_MESSAGE)
        for i, one in enumerate(tape.messages):
            link = links[one.peer, one.channel]
            rows[i] = (one.kind == RECEIVE, link, one.tag, one.reduces, one.begin, one.end)
        bounds = np.zeros(len(tape.messages) + 1, dtype=np.int32)
        np.cumsum([len(own) for own in tape.after], out=bounds[1:])
        after = np.array([earlier for own in tape.after for earlier in own], dtype=np.int32)
        loaded = library()
        self.tape = loaded.np_tape_new(
            len(rows), rows.ctypes.data_as(ctypes.c_void_p), _ints(bounds), _ints(after), count
        )
        if not self.tape:
            raise MemoryError
        self.end = weakref.finalize(self, loaded.np_tape_free, self.tape)
        self.end.atexit = False


def _ints(values: Any) -> Any:
    return values.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))

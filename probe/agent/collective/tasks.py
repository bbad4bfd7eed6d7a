"""The tasks of a collective run: a port, programs, connections to the peers, repetitions.

``collective_open`` says where peers are to call, ``collective_load`` brings the programs, ``collective_connect`` makes
all connections and closes the port, ``collective_run`` runs programs in turn and says how long each
took, ``collective_close`` ends it all, also in the middle of a run.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import threading
import time

from ..greetings import listen
from .links import BACKLOG, TOKEN_BYTES, Meeting
from .program import RankProgram
from .run import CollectiveError, Interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    Answer = tuple[dict[str, Any], None]

MAX_PROGRAMS = 4096
MAX_SEQUENCE = 4096
MAX_CHANNELS = 64
MAX_LIMIT_NS = 24 * 3600 * 10**9
_JOIN_S = 1.0


class Collective:
    """One host's part in a run."""

    def __init__(self, sock: socket.socket, token: bytes) -> None:
        self.sock = sock
        self.token = token
        self.programs = {}  # type: dict[int, RankProgram]
        self.interpreter = None  # type: Interpreter | None
        self.idle = threading.Event()
        self.idle.set()

    def close(self) -> None:
        """End everything; a run that another thread is in ends with an error."""
        self.sock.close()
        interpreter, self.interpreter = self.interpreter, None
        if interpreter is not None:
            interpreter.stop()
            self.idle.wait(_JOIN_S)
            interpreter.close()


def open_port(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """A port for the peers; what was there before is closed."""
    close(message, resources)
    token = bytes.fromhex(message["token"])
    if len(token) != TOKEN_BYTES:
        raise ValueError("a token of %d bytes" % len(token))
    low, high = message["ports"]
    sock = listen(message["address"], (int(low), int(high)), BACKLOG)
    resources["collective"] = Collective(sock, token)
    return {"type": "opened", "port": int(sock.getsockname()[1])}, None


def load(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """A program, or more of one: ``rows`` of actions (``RankProgram.add``)."""
    here = _here(resources)
    number = int(message["program"])
    program = here.programs.get(number)
    if program is None:
        if len(here.programs) >= MAX_PROGRAMS:
            raise ValueError("more than %d programs" % MAX_PROGRAMS)
        program = RankProgram(
            number,
            int(message["rank"]),
            int(message["ranks"]),
            [(int(count), int(each)) for count, each in message["sizes"]],
            [(int(first), int(last), int(whole, 16)) for first, last, whole in message["owed"]],
        )
        here.programs[number] = program
    program.add(message["rows"])
    return {"type": "loaded", "actions": len(program.kind)}, None


def connect(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Make the connections, those that this host makes and those it waits for, and close the port."""
    here = _here(resources)
    place, members, channels = int(message["place"]), int(message["members"]), int(message["channels"])
    if not (0 <= place < members and 1 <= channels <= MAX_CHANNELS):
        raise ValueError("member %d of %d, %d channels" % (place, members, channels))
    limit_ns = min(int(message["limit_ns"]), MAX_LIMIT_NS)
    meeting = Meeting(here.sock, here.token, place, message["source"], channels, limit_ns)
    try:
        meeting.run(message["dial"], message["accept"])
    except BaseException:
        for link in meeting.links.values():
            link.sock.close()
        raise
    here.interpreter = Interpreter(meeting.links, place, members)
    return {"type": "connected", "links": len(meeting.links), "faults": meeting.faults}, None


def run(message: dict[str, Any], resources: dict[str, Any]) -> Answer:
    """Run programs in turn, ``sequence`` of their numbers. Answers with the results so far when it cannot continue."""
    here = _here(resources)
    interpreter = here.interpreter
    sequence = message["sequence"]
    if interpreter is None or not here.idle.is_set() or not 1 <= len(sequence) <= MAX_SEQUENCE:
        raise ValueError("no connections, an unfinished run, or a sequence of %d" % len(sequence))
    programs = [here.programs[int(number)] for number in sequence]
    if any(program.ranks != interpreter.members for program in programs):
        raise ValueError("a program for another number of members than %d" % interpreter.members)
    until = time.monotonic_ns() + min(int(message["limit_ns"]), MAX_LIMIT_NS)
    durations = []  # type: list[int]
    code, reason, peer = None, None, None
    sent, received = interpreter.sent_bytes, interpreter.received_bytes
    here.idle.clear()
    try:
        interpreter.run(programs, durations, until)
    except CollectiveError as error:
        code, reason, peer = error.code, str(error), error.peer
        here.interpreter = None
        interpreter.close()  # so that the others know
    finally:
        here.idle.set()
    answer = {
        "type": "ran",
        "durations_ns": durations,
        "sent": interpreter.sent_bytes - sent,
        "received": interpreter.received_bytes - received,
        "code": code,
        "reason": reason,
        "peer": peer,
    }
    return answer, None


def close(message: dict[str, Any], resources: dict[str, Any]) -> Answer:  # noqa: ARG001
    """End it."""
    here = resources.pop("collective", None)
    if here is not None:
        here.close()
    return {"type": "closed"}, None


def _here(resources: dict[str, Any]) -> Collective:
    here = resources.get("collective")
    if here is None:
        raise ValueError("no collective is open")
    return here  # type: ignore[no-any-return]

"""What one rank does in a collective: actions that wait for each other (dissertation, section 4.2.2).

FETCH puts the rank's own contribution into chunks, SEND sends chunks to a peer, RECEIVE adds a peer's chunks to
its own or puts them in their place, DELIVER hands chunks out. An action names those of its own rank that it
waits for, all of them before it, so nothing can wait in a circle. Sends to one peer over one channel leave in the
order of the list, and what a peer sends over one channel is received in that order.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FETCH, RECEIVE, SEND, DELIVER = range(4)
MAX_RANKS = 4096
MAX_CHUNKS = 1 << 16
MAX_ACTIONS = 1 << 17
MAX_BYTES = 1 << 40


class RankProgram:
    """The actions of one rank. ``add`` takes rows [kind, first, last, peer, channel, reduces, after]."""

    def __init__(self, number: int, rank: int, ranks: int, sizes: list[Any], owed: list[Any]) -> None:
        """``sizes`` are runs of chunks of one size, (how many, bytes each); ``owed`` what must be delivered.

        That is (first, last, set of contributors), the set as the bits of a whole number. Raises ValueError.
        """
        if not 0 <= rank < ranks <= MAX_RANKS:
            raise ValueError("rank %d of %d" % (rank, ranks))
        chunks = 0
        for count, each in sizes:
            if not (0 < count <= MAX_CHUNKS - chunks and 0 <= each <= MAX_BYTES):
                raise ValueError("%r chunks of %r bytes, after %d" % (count, each, chunks))
            chunks += count
        if not chunks:
            raise ValueError("no chunk")
        self.number = number
        self.rank = rank
        self.ranks = ranks
        self.chunks = chunks
        self.starts = [0]
        """Where each chunk begins (bytes), and the end."""
        for count, each in sizes:
            begin = self.starts[-1]
            self.starts.extend(begin + each * (i + 1) for i in range(count))
        if self.starts[-1] > MAX_BYTES:
            raise ValueError("%d bytes" % self.starts[-1])
        self.owed = [0] * chunks
        """Whose contributions each chunk has to hold when it is delivered; 0: it is not."""
        for first, last, whole in owed:
            if not (0 <= first < last <= chunks and 0 < whole < 1 << ranks):
                raise ValueError("chunks %r to %r owed the parts %r" % (first, last, whole))
            for chunk in range(first, last):
                self.owed[chunk] = whole
        self.kind = []  # type: list[int]
        self.first = []  # type: list[int]
        self.last = []  # type: list[int]
        self.key = []  # type: list[tuple[int, int]]
        """Peer (its place among the members) and channel of each action."""
        self.reduces = []  # type: list[bool]
        self.waits = []  # type: list[int]
        """How many actions each one waits for."""
        self.then = []  # type: list[list[int]]
        """Which actions wait for each one."""
        self.sends = {}  # type: dict[tuple[int, int], list[int]]
        self.receives = {}  # type: dict[tuple[int, int], list[int]]

    def add(self, rows: list[Any]) -> None:
        """More actions. Raises ValueError for what is not a valid action."""
        keys = {}  # type: dict[tuple[int, int], tuple[int, int]]
        for kind, first, last, peer, channel, reduces, after in rows:
            place = len(self.kind)
            if place >= MAX_ACTIONS:
                raise ValueError("more than %d actions" % MAX_ACTIONS)
            if not (FETCH <= kind <= DELIVER and 0 <= first < last <= self.chunks):
                raise ValueError("action %d: kind %r, chunks %r to %r" % (place, kind, first, last))
            for other in after:
                if not 0 <= other < place:
                    raise ValueError("action %d waits for action %r" % (place, other))
                self.then[other].append(place)
            self.kind.append(kind)
            self.first.append(first)
            self.last.append(last)
            key = keys.setdefault((peer, channel), (peer, channel))  # one object for all: an agent is small
            self.key.append(key)
            self.reduces.append(bool(reduces))
            self.waits.append(len(after))
            self.then.append([])
            if kind == SEND:
                self.sends.setdefault(key, []).append(place)
            elif kind == RECEIVE:
                self.receives.setdefault(key, []).append(place)

    def size(self, first: int, last: int) -> int:
        """Bytes of chunks ``first`` to ``last`` - 1."""
        return self.starts[last] - self.starts[first]


class Merge:
    """Whose contributions a rank's chunks hold: a set of ranks for each, as the bits of a whole number.

    No payload is added up: which contributions a sum would hold travels with each message instead, so that at the end
    it is known of every chunk that each rank's part is in it once.
    """

    def __init__(self, program: RankProgram) -> None:
        self.program = program
        self.parts = [0] * program.chunks

    def fetch(self, action: int) -> None:
        """The rank's own contribution."""
        own = 1 << self.program.rank
        for chunk in range(self.program.first[action], self.program.last[action]):
            self.parts[chunk] = own

    def sent(self, action: int) -> int:
        """What a message of these chunks holds. Raises ValueError where they do not hold the same."""
        first, last = self.program.first[action], self.program.last[action]
        found = self.parts[first]
        if not found or any(self.parts[chunk] != found for chunk in range(first + 1, last)):
            raise ValueError("chunks %d to %d do not hold the same parts" % (first, last))
        return found

    def receive(self, action: int, parts: int) -> None:
        """Add what came, or put it in place. Raises ValueError for a part that would be added twice."""
        program = self.program
        for chunk in range(program.first[action], program.last[action]):
            if not program.reduces[action]:
                self.parts[chunk] = parts
            elif self.parts[chunk] & parts:
                twice = ranks_of(self.parts[chunk] & parts)
                raise ValueError("chunk %d would hold the part of rank %d twice" % (chunk, twice[0]))
            else:
                self.parts[chunk] |= parts

    def deliver(self, action: int) -> None:
        """Raises ValueError for a chunk that does not hold what is owed of it."""
        for chunk in range(self.program.first[action], self.program.last[action]):
            owed = self.program.owed[chunk]
            if not owed:
                raise ValueError("chunk %d is delivered, and nobody is owed it" % chunk)
            lacking = ranks_of(owed & ~self.parts[chunk])
            if lacking:
                raise ValueError("chunk %d lacks the part of rank %d" % (chunk, lacking[0]))
            if self.parts[chunk] != owed:
                extra = ranks_of(self.parts[chunk] & ~owed)
                raise ValueError("chunk %d holds the part of rank %d too" % (chunk, extra[0]))


def ranks_of(parts: int) -> list[int]:
    """The ranks in a set."""
    return [rank for rank in range(parts.bit_length()) if parts >> rank & 1]

"""Short messages between rank 0 and the others, over an executor's own connections."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from netprobe.runtime.lines import Lines


class Talk:
    """All ranks call the same methods in the same order. Raises MessageError where a rank is lost."""

    def __init__(self, lines: Lines, rank: int, ranks: int) -> None:
        self._lines, self.rank, self._ranks = lines, rank, ranks

    def gather(self, said: Any) -> list[Any]:
        """What every rank says (anything that JSON can hold), on rank 0; nothing on the others."""
        if self.rank:
            self._lines.tell(0, json.dumps(said).encode())
            return []
        return [said, *(json.loads(self._lines.hear(peer)) for peer in range(1, self._ranks))]

    def give(self, each: Sequence[Any] = ()) -> Any:
        """What rank 0 has for this rank."""
        if self.rank:
            return json.loads(self._lines.hear(0))
        for peer in range(1, self._ranks):
            self._lines.tell(peer, json.dumps(each[peer]).encode())
        return each[0]

    def spread(self, said: Any = None) -> Any:
        """What rank 0 says to all."""
        return self.give([said] * self._ranks if not self.rank else ())

"""Where the time of an executor goes."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class Breakdown:
    """Seconds of this rank since the last `Executor.reset`, and what it sent.

    ``compute_s``: outside of collectives. ``copy_s``: to and from buffers that can be sent. ``wire_s``: starting
    messages, and waiting until sent data have been read. ``reduce_s``: additions. ``wait_s``: for messages of
    others. ``other_s``: the rest.
    """

    compute_s: float = 0.0
    copy_s: float = 0.0
    wire_s: float = 0.0
    reduce_s: float = 0.0
    wait_s: float = 0.0
    other_s: float = 0.0
    collectives: int = 0

    def copied(self) -> Breakdown:
        """The same figures, which no longer change."""
        return Breakdown(**{field.name: getattr(self, field.name) for field in fields(self)})

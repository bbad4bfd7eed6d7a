"""The error tree. Every error a user can cause ends here, and each class carries its exit code.

    NetprobeError                 (exit 1: our own bug, unless a subclass says otherwise)
    |-- InputError                bad input or usage                                (exit 2)
    |   |-- HostsError            a hosts file, list or range that is not valid
    |   |-- DocumentError         a document that is truncated, newer, of another kind, or of other hosts
    |   |-- SpecError             a lab spec with unknown keys or impossible values (all faults at once)
    |   |-- OutputExistsError     writing there would overwrite something
    |   |-- PlatformError         this machine lacks a privilege, a program or a library
    |   |-- InfeasibleError       a request that no answer satisfies (group sizes, say)
    |   `-- WrongWorldError       a running job whose ranks are not those of the plan
    |-- RankLostError             a rank of a running job died, hangs or was stopped  (exit 3)
    |-- NothingMeasuredError      no link could be measured                         (exit 4)
    |-- InterruptedScanError      the user ended it; what was measured is kept      (exit 130)
    `-- InternalError             an invariant of ours does not hold                (exit 1)

A message says what was given, what was needed and what to do, on one line.
"""

from __future__ import annotations

from collections.abc import Sequence

EXIT_OK = 0
EXIT_BUG = 1
EXIT_INPUT = 2
EXIT_PARTIAL = 3
EXIT_NOTHING_MEASURED = 4
EXIT_INTERRUPTED = 130


class NetprobeError(Exception):
    """Root of the tree."""

    exit_code = EXIT_BUG


class InputError(NetprobeError):
    """Bad input or usage."""

    exit_code = EXIT_INPUT


class HostsError(InputError):
    """A list of hosts that cannot be read, with where it went wrong."""

    def __init__(self, message: str, *, source: str | None = None, line: int | None = None) -> None:
        self.source = source
        self.line = line
        where = "" if source is None else f"{source}: " if line is None else f"{source}:{line}: "
        super().__init__(where + message)


class DocumentError(InputError):
    """A document that cannot be used here."""

    def __init__(self, message: str, *, source: str | None = None) -> None:
        self.source = source
        super().__init__(message if source is None else f"{source}: {message}")


class SpecError(InputError):
    """A lab spec that cannot be built; ``faults`` lists everything wrong with it."""

    def __init__(self, faults: Sequence[str], *, source: str | None = None) -> None:
        self.faults = tuple(faults)
        self.source = source
        where = "lab spec" if source is None else source
        super().__init__(f"{where}: " + "; ".join(self.faults))


class OutputExistsError(InputError):
    """Writing there would overwrite something."""


class PlatformError(InputError):
    """This machine lacks a privilege, a program or a library that was requested."""


class InfeasibleError(InputError):
    """A request that no answer satisfies."""


class WrongWorldError(InputError):
    """A running job whose ranks are not those of the plan.

    ``ranks`` are those that run elsewhere, ``missing`` the planned hosts that are known to have no rank.
    """

    def __init__(self, message: str, *, ranks: Sequence[int] = (), missing: Sequence[str] = ()) -> None:
        self.ranks = tuple(ranks)
        self.missing = tuple(missing)
        super().__init__(message)


class RankLostError(NetprobeError):
    """A rank of a running job died, hangs or was stopped: ``rank``, on ``host``, where they are known.

    ``waited_for`` is the rank whose message did not come; what is left in the buffer is no result.
    """

    exit_code = EXIT_PARTIAL

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        host: str | None = None,
        waited_for: int | None = None,
    ) -> None:
        self.rank, self.host, self.waited_for = rank, host, waited_for
        super().__init__(message)


class NothingMeasuredError(NetprobeError):
    """No link at all could be measured. ``nobody_up``: since no host could be reached."""

    exit_code = EXIT_NOTHING_MEASURED

    def __init__(self, message: str, *, nobody_up: bool = False) -> None:
        self.nobody_up = nobody_up
        super().__init__(message)


class InterruptedScanError(NetprobeError):
    """The user ended it; what had been measured is kept."""

    exit_code = EXIT_INTERRUPTED


class InternalError(NetprobeError):
    """An invariant of netprobe itself does not hold."""

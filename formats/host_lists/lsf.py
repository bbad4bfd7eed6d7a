"""The hosts that IBM Spectrum LSF gives a job, as its environment tells them.

``LSB_MCPU_HOSTS`` is "h1 4 h2 2", ``LSB_HOSTS`` "h1 h1 h1 h1 h2 h2", and the file that
``LSB_DJOB_HOSTFILE`` names has one line a slot. LSF leaves out the long ones in big jobs, so whichever is there
is read, in this order. In what LSF prints (EXEC_HOST of bjobs) a colon separates hosts and ``N*`` gives a host's
slots: ``h1:h1:h2`` and ``2*h1:1*h2`` are the same two hosts. No host of LSF has a colon in its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_SLOTS, Host
from netprobe.formats.format import Format
from netprobe.formats.hostfiles.repeated import add_up, read_line_a_slot, slots_number


def read_lsf_hostfile(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of a job's host file: one line a slot, or several joined by colons. Raises HostsError naming the line."""
    return read_line_a_slot(text, source=source, what="an LSF host file", split=_slots_of_word)


def read_lsf_counts(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of ``h1 4 h2 2`` (LSB_MCPU_HOSTS): each name with its slots."""
    words = text.split()
    if len(words) % 2:
        raise HostsError(
            f"{len(words)} words: 'HOST SLOTS HOST SLOTS ...' has an even number of them", source=source
        )
    entries: list[tuple[str, int, int | None]] = []
    for name, count in zip(words[::2], words[1::2]):
        slots = slots_number(count)
        if ":" in name:
            fault = f"{name[:60]!r} is several hosts: 'HOST SLOTS' names one"
            raise HostsError(fault, source=source)
        if slots is None:
            raise HostsError(
                f"{count[:20]!r} after {name[:60]!r} is not a whole number from 1 to {MAX_SLOTS}",
                source=source,
            )
        entries.append((name, slots, None))
    return add_up(entries, source=source)


def read_lsf_list(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of ``h1 h1 h2`` (LSB_HOSTS), ``h1:h1:h2`` or ``2*h1:h2``: a name once for each slot, or its number.

    Raises HostsError.
    """
    slots = [entry for word in text.split() for entry in _slots_of_word(word, source, None)]
    return add_up([(name, count, None) for name, count in slots], source=source)


def _slots_of_word(word: str, source: str | None, line: int | None) -> list[tuple[str, int]]:
    """Hosts and slots of ``h1:h1:2*h2``."""
    found = []
    for item in word.split(":"):
        number, star, name = item.rpartition("*")
        slots = slots_number(number) if star else 1
        if slots is None or not name:
            fault = f"{item[:30]!r} in {word[:60]!r} is not HOST or SLOTS*HOST, as LSF joins them by ':'"
            raise HostsError(fault, source=source, line=line)
        found.append((name, slots))
    return found


def lsf_hosts(environ: Mapping[str, str], read_file: Callable[[str], str]) -> tuple[Host, ...]:
    """Hosts of the LSF job whose environment this is. Raises InputError outside a job."""
    for variable, read in (("LSB_MCPU_HOSTS", read_lsf_counts), ("LSB_HOSTS", read_lsf_list)):
        if environ.get(variable, "").strip():
            return read(environ[variable], source=variable)
    path = environ.get("LSB_DJOB_HOSTFILE", "")
    if not path:
        raise InputError(
            "no LSF job here (none of LSB_MCPU_HOSTS, LSB_HOSTS and LSB_DJOB_HOSTFILE is set): run inside a "
            "job, or give lsf:FILE"
        )
    return read_lsf_hostfile(read_file(path), source=path)


FORMAT = Format(name="lsf", summary="host file of an LSF job", read=read_lsf_hostfile)

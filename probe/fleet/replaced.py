"""Hosts that were rebooted or replaced since the resumed scan began.

The same name may now be another machine elsewhere, and a reboot may bring another kernel or interface. Old and
new readings must not be mixed: the earlier visits of such a host are dropped, and its links measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netprobe.core.text import listed
from netprobe.probe.fleet.fleet import Member


def find_replaced(members: Sequence[Member], boots: Mapping[str, str]) -> dict[int, str]:
    """Names, by index, of the hosts whose running kernel has another ``boot_id`` than in ``boots``.

    A host whose boot is hidden, then or now, is not one of them.
    """
    found = {}
    for member in members:
        name = member.outcome.host.name
        now = "" if member.hello is None else member.hello.boot_id
        if now and boots.get(name, now) != now:
            found[member.index] = name
    return found


def replaced_text(names: Sequence[str], visits: int) -> str:
    """The warning: ``visits`` are the earlier ones that are left out."""
    return (
        f"{listed(names)}: booted since the scan began, or another machine under the same "
        f"name; the {visits} earlier visits of its links are left out, and the links are measured again"
    )

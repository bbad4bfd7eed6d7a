"""Options that say which addresses and ports are probed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

PortRangeOption = Annotated[
    str | None,
    typer.Option(
        "--port-range",
        metavar="LOW[-HIGH]",
        help="Ports to open on the hosts, both UDP and TCP (any otherwise).",
    ),
]
SubnetOption = Annotated[
    str | None, typer.Option("--subnet", metavar="CIDR", help="Probe the addresses of this network.")
]
InterfaceOption = Annotated[
    str | None, typer.Option("--interface", help="Probe the addresses of this interface.")
]
Ipv4Option = Annotated[bool, typer.Option("--ipv4", help="Probe IPv4 addresses.")]
Ipv6Option = Annotated[bool, typer.Option("--ipv6", help="Probe IPv6 addresses.")]


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The options of every command whose agents open ports."""

    port_range: PortRangeOption = None
    subnet: SubnetOption = None
    interface: InterfaceOption = None
    ipv4: Ipv4Option = False
    ipv6: Ipv6Option = False

    @property
    def choose(self) -> bool:
        """Whether one of them chooses among a host's addresses."""
        return bool(self.subnet or self.interface or self.ipv4 or self.ipv6)

    def fields(self) -> dict[str, Any]:
        """Fields of ScanOptions. Raises InputError for what contradicts itself."""
        from netprobe.core.errors import InputError

        if self.ipv4 and self.ipv6:
            raise InputError("--ipv4 and --ipv6 cannot go together: one family is probed on all hosts")
        return {
            "port_range": ports(self.port_range),
            "subnet": self.subnet,
            "interface": self.interface,
            "family": "ipv4" if self.ipv4 else "ipv6" if self.ipv6 else None,
        }


def ports(text: str | None) -> tuple[int, int]:
    """``LOW-HIGH`` or one port; (0, 0) for None. Raises InputError."""
    from netprobe.core.errors import InputError

    if text is None:
        return (0, 0)
    low, dash, high = text.partition("-")
    ends = (low, high if dash else low)
    if not all(end.isascii() and end.isdigit() and len(end) <= 5 for end in ends):
        raise InputError(f"--port-range {text!r} is not a range of ports such as 9000-9100")
    if 0 in map(int, ends):
        raise InputError(
            f"--port-range {text!r}: ports from 1 to 65535 are needed; without the option any are used"
        )
    return int(ends[0]), int(ends[1])

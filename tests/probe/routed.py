"""Two hosts with two routers between them, by hand: network namespaces and nothing else."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

NAMES = ("h1", "r1", "r2", "h2")
MIDDLE_MTU = 1400
ADDRESSES = {"h1": ("10.91.1.2", "fd91:1::2"), "h2": ("10.91.3.2", "fd91:3::2")}
ROUTERS = (["10.91.1.1", "10.91.2.2"], ["fd91:1::1", "fd91:2::2"])
"""What answers on the way from h1 to h2."""
_LINKS = (("h1", 2, "r1", 1, 1), ("r1", 1, "r2", 2, 2), ("r2", 1, "h2", 2, 3))


def _commands(prefix: str) -> Iterator[str]:
    for one, one_host, other, other_host, number in _LINKS:
        yield (
            f"link add l{number}a netns {prefix}{one} type veth peer name l{number}b netns {prefix}{other}"
        )
        for name, host, end in ((one, one_host, "a"), (other, other_host, "b")):
            device = f"-n {prefix}{name} addr add dev l{number}{end}"
            yield f"{device} 10.91.{number}.{host}/24"
            yield f"{device} fd91:{number}::{host}/64 nodad"
            yield f"-n {prefix}{name} link set dev l{number}{end} up"
    for name, via4, via6 in (
        ("h1", "10.91.1.1", "fd91:1::1"), ("r1", "10.91.2.2", "fd91:2::2"),
        ("r2", "10.91.2.1", "fd91:2::1"), ("h2", "10.91.3.1", "fd91:3::1"),
    ):  # fmt: skip
        yield f"-n {prefix}{name} route add default via {via4}"
        yield f"-n {prefix}{name} -6 route add default via {via6}"


@contextlib.contextmanager
def routed_hosts() -> Iterator[str]:
    """The prefix of the names of the four namespaces, which are gone afterwards."""
    prefix = f"np-way{os.getpid()}-"
    try:
        for name in NAMES:
            _ip(f"netns add {prefix}{name}")
        for name in NAMES:
            _ip(f"-n {prefix}{name} link set dev lo up")
        for command in _commands(prefix):
            _ip(command)
        for name in ("r1", "r2"):
            for key in ("ipv4/ip_forward=1", "ipv6/conf/all/forwarding=1", "ipv4/icmp_ratelimit=0",
                        "ipv6/icmp/ratelimit=0"):  # fmt: skip
                path, _, value = key.partition("=")
                in_namespace(prefix + name, f"echo {value} > /proc/sys/net/{path}")
        middle_mtu(prefix, "both")
        yield prefix
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", prefix + name], check=False, capture_output=True)


def middle_mtu(prefix: str, ends: str) -> None:
    """Make the link between the routers narrow: at both ends, so that r1 says so, or only at the far one, where
    packets then vanish without a word."""
    _ip(f"-n {prefix}r1 link set dev l2a mtu {MIDDLE_MTU if ends == 'both' else 1500}")
    _ip(f"-n {prefix}r2 link set dev l2b mtu {MIDDLE_MTU}")


def in_namespace(name: str, script: str) -> None:
    """Run a line of shell there."""
    subprocess.run(["ip", "netns", "exec", name, "sh", "-c", script], check=True, timeout=20)


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, timeout=20, capture_output=True)

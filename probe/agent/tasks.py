"""The tasks of an agent: the type of a message, the function that does it, and how.

A task is a function ``task(message, resources) -> (answer, samples)``. ``message`` comes from the controller;
``answer`` is a message without its id; ``samples`` are (sequence number, sent at, RTT) in ns for a frame of
their own, or None. ``resources`` is a dictionary that lives as long as the agent, for what outlasts a task
(an open port, a server). An OSError or ValueError it raises is the task's failure, reported to the controller.
A module is imported when its first task comes: an agent with few tasks stays small.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Answer = tuple[dict[str, Any], Any]

TASKS = {
    "open": ("stamp.tasks", "open_port"),
    "probe": ("stamp.tasks", "probe"),
    "audit": ("audit", "audit"),
    "resolve": ("audit", "resolve"),
    "archive": ("archive", "take"),
    "collective_close": ("collective.tasks", "close"),
    "collective_connect": ("collective.tasks", "connect"),
    "collective_load": ("collective.tasks", "load"),
    "collective_open": ("collective.tasks", "open_port"),
    "collective_run": ("collective.tasks", "run"),
    "fping": ("fping", "run"),
    "fping_version": ("fping", "version"),
    "icmp_probe": ("icmp.sender", "probe"),
    "icmp_ready": ("icmp.sender", "ready"),
    "iperf_send": ("goodput.iperf3", "send"),
    "iperf_serve": ("goodput.iperf3", "serve"),
    "iperf_stop": ("goodput.iperf3", "stop"),
    "iperf_version": ("goodput.iperf3", "version"),
    "path": ("path.tasks", "trace"),
    "path_ready": ("path.scapy_probes", "ready"),
    "tcp_clock": ("goodput.tasks", "clock"),
    "tcp_close": ("goodput.tasks", "close"),
    "tcp_collect": ("goodput.tasks", "collect"),
    "tcp_connect": ("tcp_connect", "connect"),
    "tcp_open": ("tcp_connect", "open_port"),
    "tcp_send": ("goodput.tasks", "send"),
    "tcp_serve": ("goodput.tasks", "serve"),
    "tcp_shut": ("tcp_connect", "shut_port"),
}
"""Type of message -> module below this package, function."""

THREADED = frozenset(
    ("collective_run", "fping", "fping_version", "iperf_send", "iperf_version", "tcp_collect", "tcp_send")
)
"""Those that run concurrently with other tasks; all others run one after the other, in the order in which they came."""


def is_threaded(kind: str) -> bool:
    """Whether a task of this type runs in a thread of its own."""
    return kind in THREADED


def find(kind: str) -> Callable[[dict[str, Any], dict[str, Any]], Answer]:
    """The function for a type of message. Raises ValueError for one that this agent does not know."""
    if kind not in TASKS:
        raise ValueError("unknown task %r" % kind)
    module, function = TASKS[kind]
    return getattr(_imported(module), function)  # type: ignore[no-any-return]


def import_all() -> None:
    """Import every task's module, where later the archive will not be there."""
    for module, _function in TASKS.values():
        _imported(module)


def _imported(module: str) -> Any:
    # importlib would cost the agent memory.
    return __import__("%s.%s" % (__package__, module), fromlist=["*"])

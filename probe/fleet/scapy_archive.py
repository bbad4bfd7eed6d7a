"""scapy as a zip that travels to the agents: the part that ICMP and path probes need, from its installation here.

It is read, never imported: that costs a second. Nothing of it is changed.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import importlib.metadata
import importlib.util
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from netprobe.core.errors import PlatformError
from netprobe.core.system.install import install_command
from netprobe.probe.agent.messages import PERMISSION, ProtocolError
from netprobe.probe.fleet.connection import AgentLostError, TaskFailedError
from netprobe.probe.fleet.fleet import Member

PART_BYTES = 192 << 10
AT_ONCE = 16
"""Hosts that are sent the archive at the same time."""
PART_TIMEOUT_S = 30.0
READY_TIMEOUT_S = 120.0
_LAYERS = ("__init__", "inet", "inet6", "l2")
_LEFT_OUT = (
    "libs/manuf.py",
    "libs/bluetoothids.py",
    "libs/winpcapy.py",
    "libs/rfc3961.py",
    "libs/matplot.py",
)
_FOLDERS = ("arch", "libs", "compat")


def scapy_version(wanted_for: str, *, instead: str) -> str:
    """Of the scapy of this machine. Raises PlatformError where there is none."""
    if importlib.util.find_spec("scapy") is None:
        raise PlatformError(
            f"{wanted_for} needs scapy on this machine (the hosts need nothing): {install_command('icmp')}, "
            f"or use {instead}"
        )
    try:
        return importlib.metadata.version("scapy")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.lru_cache(maxsize=1)
def scapy_archive() -> bytes:
    """The zip; the same files give the same bytes. ``scapy_version`` has said that there is a scapy."""
    spec = importlib.util.find_spec("scapy")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(root):
            info = zipfile.ZipInfo(f"scapy/{path.relative_to(root).as_posix()}")
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()


def _files(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("*.py"))
    yield from (root / "layers" / f"{name}.py" for name in _LAYERS)
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if path.relative_to(root).as_posix() not in _LEFT_OUT:
                yield path


async def prepare_scapy(
    members: Sequence[Member], message: dict[str, Any], *, instead: str
) -> dict[int, str]:
    """Send it to the agents that are up, and ask each by ``message`` (its own address is added) whether it is ready.

    Why a host (by index) is not; ``instead`` is what does without.
    """
    up = [member for member in members if member.up]
    limit = asyncio.Semaphore(AT_ONCE)
    reasons = await asyncio.gather(*(_ready(member, message, limit, instead) for member in up))
    return {member.index: reason for member, reason in zip(up, reasons, strict=True) if reason}


async def _ready(
    member: Member, message: dict[str, Any], limit: asyncio.Semaphore, instead: str
) -> str | None:
    assert member.connection is not None
    try:
        await _send(member, limit)
        await member.connection.request(message | {"address": member.address}, READY_TIMEOUT_S)
    except TaskFailedError as error:
        if error.code == PERMISSION:
            return f"it may not open a raw socket (EPERM): give its agent CAP_NET_RAW (root has it), or use {instead}"
        return f"it cannot probe with scapy: {error}"
    except (AgentLostError, ProtocolError) as error:
        return f"it cannot probe with scapy: {error}"
    except TimeoutError:
        return f"its agent was not ready with scapy within {READY_TIMEOUT_S:.0f} s"
    return None


async def _send(member: Member, limit: asyncio.Semaphore) -> None:
    content = scapy_archive()
    assert member.connection is not None
    async with limit:
        for start in range(0, len(content), PART_BYTES):
            part = content[start : start + PART_BYTES]
            message = {
                "type": "archive",
                "name": "scapy",
                "data": base64.b64encode(part).decode("ascii"),
                "last": start + PART_BYTES >= len(content),
            }
            await member.connection.request(message, PART_TIMEOUT_S)

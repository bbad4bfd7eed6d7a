"""What identifies this host, under any name it is reached by."""

from __future__ import annotations

import os


def read_identity() -> dict[str, str]:
    """``boot_id`` (of the running kernel) and ``netns`` (the network namespace's inode); "" where hidden.

    Two agents with both the same and an address in common are on one network stack. Neither alone tells:
    containers share a boot, and every machine's first namespace has the same number.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            boot_id = stream.read(64).strip()
    except (OSError, ValueError):
        boot_id = ""
    try:
        netns = str(os.stat("/proc/self/ns/net").st_ino)
    except OSError:
        netns = ""
    return {"boot_id": boot_id, "netns": netns}

"""The launcher that a ``--via`` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InputError
from netprobe.probe.exec_launcher import DEFAULT_FAN_OUT, ExecLauncher, LocalLauncher
from netprobe.probe.launch import Launcher
from netprobe.probe.ssh import SshLauncher


def parse_via(
    text: str = "ssh",
    *,
    ssh_config: Path | None = None,
    ssh_options: Sequence[str] = (),
    fan_out: int = DEFAULT_FAN_OUT,
) -> Launcher:
    """``ssh``, ``local``, or a template such as ``ip netns exec {target}``. Raises InputError."""
    if text == "ssh":
        return SshLauncher(config=ssh_config, options=ssh_options, fan_out=fan_out)
    if ssh_config is not None or ssh_options:
        raise InputError(f"--ssh-config and --ssh-option go with --via ssh, not with --via {text!r}")
    if text == "local":
        return LocalLauncher(fan_out=fan_out)
    return ExecLauncher(text, fan_out=fan_out)

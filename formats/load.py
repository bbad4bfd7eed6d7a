"""What ``--hosts`` takes: a file, a list, or a source with its format in front (``mpich:FILE``, ``slurm:``)."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from netprobe.core import hosts as core_hosts
from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_FILE_BYTES, Host, parse_hosts_text, read_hosts_file_text
from netprobe.formats.detect import NETPROBE, read_hosts_text, refuse_host_slots
from netprobe.formats.format import Reader
from netprobe.formats.host_lists.ansible_structured import read_inventory
from netprobe.formats.host_lists.lsf import lsf_hosts, read_lsf_list
from netprobe.formats.host_lists.pbs import pbs_hosts
from netprobe.formats.host_lists.slurm import read_slurm_nodelist, slurm_hosts
from netprobe.formats.host_lists.ssh_config import ssh_config_hosts
from netprobe.formats.recognize import HEAD_BYTES, recognize
from netprobe.formats.registry import FORMATS

SSH_CONFIG, STDIN = "ssh-config:", "-"


def load_hosts(argument: str, *, environ: Mapping[str, str] | None = None) -> tuple[Host, ...]:
    """Hosts of a file in a recognised format, of a list such as ``a,b`` or ``gpu[001-064]``, or of a source.

    A source is ``FORMAT:FILE``, ``ansible:FILE:GROUP``, ``slurm:LIST``, ``lsf:LIST``, or the job that netprobe runs in:
    ``slurm:``, ``pbs:``, ``lsf:``; ``ssh-config:PATTERN``; ``-`` is standard input.
    ``environ`` is the job's environment (default: this process's).

    Raises HostsError, with the line, as the likelier format would; InputError outside a job.
    """
    kind, colon, rest = argument.partition(":")
    if colon and (kind in FORMATS or kind == NETPROBE):
        if _is_file(argument):
            raise HostsError(
                f"is a file, and also a source of the format {kind}: write ./{argument} for the file",
                source=argument,
            )
        hosts = _load_source(kind, rest, os.environ if environ is None else environ)
        refuse_host_slots(hosts, source=rest or kind)
        return hosts
    if argument.startswith(SSH_CONFIG) and not _is_file(argument):
        return ssh_config_hosts(argument.removeprefix(SSH_CONFIG), _read_file, home=_home())
    if argument == STDIN:
        return read_hosts_text(_read_stdin(), source="standard input")
    if not _is_file(argument):
        hosts = core_hosts.load_hosts(argument)
        refuse_host_slots(hosts, source="hosts")
        return hosts
    text = _read_file(argument)
    try:
        return read_hosts_text(text, source=argument)
    except HostsError as error:
        found = recognize(text[:HEAD_BYTES].encode())
        if found.command is None or "scan --hosts" in found.command:
            raise
        command = found.command.replace("{}", shlex.quote(argument))
        raise HostsError(
            f"is {found.what}, not a list of hosts: {command} reads it", source=argument
        ) from error


def input_files(argument: str, *, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Files that ``load_hosts`` may read for an argument; some may not be there, and none must be written."""
    environ = os.environ if environ is None else environ
    _kind, _, rest = argument.partition(":")
    named = [
        argument,
        rest,
        rest.rpartition(":")[0],
        environ.get("PBS_NODEFILE"),
        environ.get("LSB_DJOB_HOSTFILE"),
    ]
    return [Path(name) for name in named if name and "\0" not in name]


def _load_source(kind: str, rest: str, environ: Mapping[str, str]) -> tuple[Host, ...]:
    if kind == "slurm":
        return read_slurm_nodelist(rest, source="slurm") if rest.strip() else slurm_hosts(environ)
    if not rest:
        if kind == "pbs":
            return pbs_hosts(environ, _read_file)
        if kind == "lsf":
            return lsf_hosts(environ, _read_file)
        raise HostsError(f"no file behind {kind + ':'!r}: write {kind}:FILE")
    if kind == "lsf" and not _is_file(rest) and re.search(r"[:*]", rest) and "/" not in rest:
        return read_lsf_list(rest, source="lsf")
    if kind == "ansible":
        path, colon, group = rest.rpartition(":")
        if colon and path and not _is_file(rest):
            return read_inventory(_read_file(path), source=path, group=group or None)
    read = _reader(kind)
    return read(_read_file(rest), source=rest)


def _reader(kind: str) -> Reader:
    read = parse_hosts_text if kind == NETPROBE else FORMATS[kind].read
    if read is None:
        raise HostsError(f"format {kind!r} is only written")
    return read


def _read_file(path: str) -> str:
    return read_hosts_file_text(Path(path))


def _read_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise HostsError("nothing is piped into it: ... | netprobe scan --hosts -", source="standard input")
    data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise HostsError(
            f"larger than {MAX_FILE_BYTES} bytes: is this a list of hosts?", source="standard input"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HostsError("not a UTF-8 text", source="standard input") from None


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise HostsError("no home directory is known: write ssh-config:FILE:PATTERN") from None


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):
        return False

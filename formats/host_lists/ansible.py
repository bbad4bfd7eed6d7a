"""Hosts of an Ansible inventory in INI form: groups, children, variables, ranges.

The order is that of ``ansible GROUP --list-hosts``: a group's own hosts first, then those of its children, each
host once; of ``all``, the hosts in no group come first. ``ansible_host``, ``ansible_user`` and ``ansible_port``
make the target, a host's own variables before those of its groups, and the nearest group before its parents.
The address that peers probe is not taken from ``ansible_host``, which is often a public or a management address:
the agents say what they have.

A port becomes ``ssh://USER@HOST:PORT``, which OpenSSH takes as a destination. It does not take an IPv6 address
there, and it decodes special characters, so these are refused in favour of a ``Host`` block in ssh_config. What
ssh_config must hold too: jump hosts, keys and other ssh arguments of the inventory, which are not read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, Host, check_hosts, checked_lines, is_ip_address, make_host
from netprobe.formats.host_lists.ansible_groups import ALL, CONNECTION, Groups
from netprobe.formats.host_lists.ansible_ranges import expand_pattern, split_port

MAX_ENTRIES = 4 * MAX_HOSTS
MAX_VALUE = 1_000
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_GROUP = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
_QUOTED = re.compile(r"""(['"])(.*?)\1\s*(?:#.*)?""")
_NUMBER = re.compile(r"([0-9]+)\s*(?:#.*)?")
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")
_REMOTE = frozenset({"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh"})


def read_ansible_inventory(
    text: str, *, source: str | None = None, group: str | None = None
) -> tuple[Host, ...]:
    """Hosts of ``group`` (default: all) of an INI inventory. Raises HostsError naming the line."""
    groups = Groups(source=source)
    section, kind, entries = "ungrouped", "hosts", 0
    for number, line in checked_lines(text.removeprefix("\ufeff"), source=source):
        content = line.strip()
        if not content or content[0] in "#;":
            continue
        header = _SECTION.fullmatch(content)
        if header:
            section, kind = header[1], header[2] or "hosts"
            if kind not in ("hosts", "children", "vars"):
                fault = f"section [{header[1][:40]}:{kind[:40]}] is not one of hosts, children, vars"
                raise HostsError(fault, source=source, line=number)
            groups.open(section, kind, line=number)
        elif kind == "hosts":
            entries += _read_hosts(content, groups, section, source=source, line=number)
            if entries > MAX_ENTRIES or len(groups.host_lines) > MAX_HOSTS:
                raise HostsError(f"more than {MAX_HOSTS} hosts", source=source)
        elif kind == "children":
            child = _GROUP.fullmatch(content)
            if not child:
                raise HostsError(f"{content[:60]!r} is not a group name", source=source, line=number)
            groups.add_child(section, child[1], line=number)
        else:
            key, equals, value = content.partition("=")
            if not equals:
                raise HostsError(f"{content[:60]!r} is not KEY=VALUE", source=source, line=number)
            groups.set_variable(section, key.strip(), _literal(value), line=number)
    groups.close()
    return chosen_hosts(groups, group, source=source)


def chosen_hosts(
    groups: Groups, group: str | None, *, source: str | None, lines: bool = True
) -> tuple[Host, ...]:
    """Hosts of a group (None: all) of closed groups; ``lines``: whether their lines are known. Raises HostsError."""
    chosen = groups.hosts_of(ALL if group is None else group)
    if not chosen:
        raise HostsError(f"no host in group {(group or ALL)[:60]!r}", source=source)
    hosts = [
        _host(name, groups.variables_of(name), source=source, line=groups.host_lines[name] if lines else None)
        for name in chosen
    ]
    return check_hosts(hosts, source=source)


def _read_hosts(content: str, groups: Groups, section: str, *, source: str | None, line: int) -> int:
    """Take in the hosts of one line; how many they are."""
    if content == "---" or re.fullmatch(r"[\w.-]+:", content):
        raise HostsError(
            f"{content[:60]!r} looks like YAML: give an inventory in INI form", source=source, line=line
        )
    try:
        words = shlex.split(content, comments=True)
    except ValueError:
        raise HostsError(f"unbalanced quotes in {content[:60]!r}", source=source, line=line) from None
    if not words:
        return 0
    pattern, port = split_port(words[0])
    try:
        names = expand_pattern(pattern)
    except HostsError as error:
        raise HostsError(str(error), source=source, line=line) from None
    variables: dict[str, str] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals:
            raise HostsError(f"{word[:60]!r} is not KEY=VALUE", source=source, line=line)
        variables[key] = _literal(value)
    for name in names:
        if name not in groups.host_lines:
            if ":" in name and not is_ip_address(name):
                raise HostsError(
                    f"{name[:60]!r} is neither HOST:PORT nor an address", source=source, line=line
                )
            make_host(name, source=source, line=line)
        # Ansible takes the port of a pattern only on the first line of the host.
        first = {} if port is None or name in groups.host_lines else {"ansible_port": port}
        groups.add_host(section, name, first | variables, line=line)
    return len(names)


def _literal(value: str) -> str:
    """A value as Ansible's literals give it, as far as names and ports go: quotes and comments taken off."""
    value = value.strip()
    if len(value) > MAX_VALUE:
        return value
    quoted = _QUOTED.fullmatch(value)
    number = _NUMBER.fullmatch(value)
    return quoted[2] if quoted else number[1] if number else value


def _host(name: str, variables: Mapping[str, str], *, source: str | None, line: int | None) -> Host:
    def fault(text: str) -> HostsError:
        return HostsError(f"host {name!r}: {text}", source=source, line=line)

    for key, value in variables.items():
        if "{{" in value or "{%" in value:
            raise fault(f"{key}={value[:40]!r} is a template, which only Ansible can fill in")
    connection = variables.get(CONNECTION, "ssh")
    if connection not in _REMOTE:
        raise fault(
            f"{CONNECTION}={connection[:40]!r} is not over ssh: choose a group without it, as in "
            "ansible:FILE:GROUP"
        )
    address = variables.get("ansible_host") or name
    user = variables.get("ansible_user")
    port = variables.get("ansible_port")
    if user is not None and not _USER.fullmatch(user):
        raise fault(
            f"ansible_user={user[:40]!r} is not a valid user name (letters, digits, '.', '_' and '-')"
        )
    make_host(address, source=source, line=line)
    login = address if user is None else f"{user}@{address}"
    if port is None:
        return make_host(name, source=source, line=line, target=login)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise fault(f"ansible_port={port[:20]!r} is not a port of 1 to 65535")
    if ":" in address:
        raise fault(
            f"OpenSSH takes no port with the IPv6 address {address}: put Port {int(port)} and HostName "
            f"{address} under 'Host {name}' in ssh_config, and leave them out here"
        )
    return make_host(name, source=source, line=line, target=f"ssh://{login}:{int(port)}")

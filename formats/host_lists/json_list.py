"""Hosts in JSON: a list of names or of objects, or a document of netprobe's, whose hosts are taken."""

from __future__ import annotations

import json
from typing import Any

from netprobe.core.errors import HostsError
from netprobe.core.hosts import Host, check_hosts, make_host
from netprobe.formats.host_lists.ansible_structured import looks_like_json_inventory, read_json_inventory

_NAMES = ("name", "host", "hostname")
_KEYS = ("target", "address", "launcher_name", "slots", "labels")


def read_json_hosts(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """``["a", "b"]``, ``[{"name": "a", "slots": 8}]``, ``{"hosts": [...]}``, or an inventory of Ansible's.

    The order is that of the list. Other keys of an object are left out. Raises HostsError.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        why = getattr(error, "msg", "it cannot be read")
        raise HostsError(f"is not valid JSON: {why}", source=source, line=line) from None
    if isinstance(data, dict) and isinstance(data.get("hosts"), list):
        data = data["hosts"]
    elif looks_like_json_inventory(data):
        return read_json_inventory(data, source=source)
    if not isinstance(data, list):
        raise HostsError('is JSON without hosts: a list such as ["a", "b"] is needed', source=source)
    return check_hosts([_host(entry, at, source) for at, entry in enumerate(data)], source=source)


def _host(entry: Any, at: int, source: str | None) -> Host:
    if isinstance(entry, str):
        return make_host(entry, source=source)
    name = next((entry[key] for key in _NAMES if key in entry), None) if isinstance(entry, dict) else None
    if not isinstance(name, str):
        raise HostsError(f"entry {at} of the list is neither a name nor an object with a name", source=source)
    fields = {key: entry[key] for key in _KEYS if entry.get(key) is not None}
    return make_host(name, source=source, **fields)

"""Ansible inventories in YAML, and in JSON as ``ansible-inventory --list`` prints them.

Both hold the same as the INI form (ansible.py): groups with hosts, children and variables; the order of hosts and whose
variables win are those of Ansible, by the same ``Groups``. A text is composed, not constructed: no tag makes an object,
and lines are known. Aliases are refused, which could name one node a billion times.
"""

from __future__ import annotations

import json
import re
from typing import Any

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, Host, is_ip_address, make_host
from netprobe.formats.format import Format
from netprobe.formats.host_lists.ansible import chosen_hosts, read_ansible_inventory
from netprobe.formats.host_lists.ansible_groups import ALL, Groups
from netprobe.formats.host_lists.ansible_ranges import expand_pattern, split_port

MOST_DEPTH = 50
_GROUP_KEYS = ("hosts", "children", "vars")
_YAML_GROUP = re.compile(
    r"^[^\s#:\[\]=]+:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*[ \t]+(?:hosts|children|vars):", re.MULTILINE
)


def looks_like_yaml_inventory(text: str) -> bool:
    """Whether a line names a group, and the next one its hosts, children or variables."""
    return _YAML_GROUP.search(text + "\n") is not None


def looks_like_json_inventory(data: Any) -> bool:
    """Whether JSON is an object whose values are groups of Ansible's."""
    if not isinstance(data, dict):
        return False
    groups = [value for key, value in data.items() if key != "_meta"]
    return "_meta" in data or (
        bool(groups) and all(isinstance(group, dict) and set(group) & set(_GROUP_KEYS) for group in groups)
    )


def read_inventory(text: str, *, source: str | None = None, group: str | None = None) -> tuple[Host, ...]:
    """Hosts of ``group`` (default: all) of an inventory in INI, YAML or JSON. Raises HostsError."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{":
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise HostsError("is not valid JSON", source=source) from None
        return read_json_inventory(data, source=source, group=group)
    if looks_like_yaml_inventory(text):
        return _read_yaml(text, source=source, group=group)
    return read_ansible_inventory(text, source=source, group=group)


def read_json_inventory(
    data: Any, *, source: str | None = None, group: str | None = None
) -> tuple[Host, ...]:
    """Hosts of what ``ansible-inventory --list`` prints, or of a YAML inventory written as JSON. Raises HostsError."""
    if not looks_like_json_inventory(data):
        raise HostsError("is not an inventory of Ansible's: no group with hosts or children", source=source)
    groups = Groups(source=source)
    meta = data.get("_meta")
    variables = meta.get("hostvars") if isinstance(meta, dict) else None
    known = variables if isinstance(variables, dict) else {}
    for name, content in data.items():
        if name != "_meta":
            _take_group(groups, name, content, known, 0)
    for name in known:  # what is in no group is listed nowhere else
        if name not in groups.host_lines:
            _take_host(groups, "ungrouped", name, known[name])
    groups.close()
    return chosen_hosts(groups, group, source=source, lines=False)


def _take_group(groups: Groups, name: str, content: Any, hostvars: dict[str, Any], depth: int) -> None:
    source = groups.source
    if depth > MOST_DEPTH:
        raise HostsError("groups nested too deeply", source=source)
    groups.open(name, "hosts", line=0)
    content = {} if content is None else content
    if isinstance(content, list):  # an old form: a group is the list of its hosts
        content = {"hosts": content}
    if not isinstance(content, dict):
        raise HostsError(f"group {name[:60]!r} is not an object of hosts, children and vars", source=source)
    for key in ("hosts", "children", "vars"):
        value = content.get(key)
        if value is not None and not isinstance(value, (dict, list)):
            raise HostsError(f"{key} of group {name[:60]!r} is neither a list nor an object", source=source)
    hosts = content.get("hosts") or {}
    for host in hosts:
        own = (
            hosts[host] if isinstance(hosts, dict) else hostvars.get(host) if isinstance(host, str) else None
        )
        _take_host(groups, name, host, own)
    children = content.get("children") or {}
    for child in children:
        if not isinstance(child, str):
            raise HostsError(f"a child of group {name[:60]!r} is not a name", source=source)
        if child == ALL:
            raise HostsError("group 'all' cannot be a child", source=source)
        if name != ALL or child != "ungrouped":
            groups.add_child(name, child, line=0)
        if isinstance(children, dict):
            _take_group(groups, child, children[child], hostvars, depth + 1)
        else:
            groups.open(child, "hosts", line=0)
    for key, value in _words(content.get("vars")):
        groups.set_variable(name, key, value, line=0)


def _take_host(groups: Groups, group: str, pattern: Any, variables: Any) -> None:
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        pattern = str(pattern)
    if not isinstance(pattern, str):
        raise HostsError(f"a host of group {group[:60]!r} is not a name", source=groups.source)
    bare, port = split_port(pattern)
    try:
        names = expand_pattern(bare)
    except HostsError as error:
        raise HostsError(str(error), source=groups.source) from None
    words = dict(_words(variables))
    for name in names:
        if ":" in name and not is_ip_address(name):
            raise HostsError(f"{name[:60]!r} is neither HOST:PORT nor an address", source=groups.source)
        make_host(name, source=groups.source)
        first = {} if port is None or name in groups.host_lines else {"ansible_port": port}
        groups.add_host(group, name, first | words, line=0)
    if len(groups.host_lines) > MAX_HOSTS:
        raise HostsError(f"more than {MAX_HOSTS} hosts", source=groups.source)


def _words(variables: Any) -> list[tuple[str, str]]:
    """Variables that are text or a number; others do not matter here."""
    if not isinstance(variables, dict):
        return []
    return [
        (key, str(value))
        for key, value in variables.items()
        if isinstance(key, str) and isinstance(value, (str, int)) and not isinstance(value, bool)
    ]


def _read_yaml(text: str, *, source: str | None, group: str | None) -> tuple[Host, ...]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Every value is text, but for maps and lists; an alias or a tag is refused."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not read")
            return super().compose_node(parent, index)

    try:
        # A vault or another tag of Ansible's is a variable that does not matter here: taken as the text it is.
        Loader.add_multi_constructor("!", lambda _loader, _tag, _node: None)
        data = yaml.load(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise HostsError(
            f"is not valid YAML: {error.problem}", source=source, line=None if mark is None else mark.line + 1
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise HostsError(f"is not valid YAML: {str(error)[:80]}", source=source) from None
    return read_json_inventory(data, source=source, group=group)


FORMAT = Format(name="ansible", summary="Ansible inventory in INI, YAML or JSON", read=read_inventory)

"""Groups of an Ansible inventory: who is in which, in which order, and whose variables win."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from netprobe.core.errors import HostsError

ALL = "all"
UNGROUPED = "ungrouped"
CONNECTION = "ansible_connection"
PRIORITY = "ansible_group_priority"
# An older name of the same variable wins, as it does in Ansible.
_ALIASES = {
    "ansible_ssh_host": "ansible_host",
    "ansible_ssh_user": "ansible_user",
    "ansible_ssh_port": "ansible_port",
}
_KEYS = ("ansible_host", "ansible_user", "ansible_port", *_ALIASES, CONNECTION)
_Rank = tuple[int, int, str]


@dataclass(kw_only=True)
class _Group:
    name: str
    line: int
    declared: bool = False
    """Whether a section of its hosts or children was seen: a name in another section does not make a group."""
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    """Line of each child."""
    variables: dict[str, str] = field(default_factory=dict)
    priority: int = 1


class Groups:
    """Built section by section, closed once, and queried afterwards."""

    def __init__(self, *, source: str | None = None) -> None:
        self.source = source
        self.host_lines: dict[str, int] = {}
        """The first line of each host, in that order."""
        self._groups = {name: _Group(name=name, line=0, declared=True) for name in (ALL, UNGROUPED)}
        self._own: dict[str, dict[str, str]] = {}
        self._groups_of: dict[str, list[str]] = {}
        self._best: dict[str, dict[str, tuple[_Rank, str]]] = {}

    def open(self, name: str, kind: str, *, line: int) -> None:
        """A section of that group begins."""
        group = self._groups.setdefault(name, _Group(name=name, line=line))
        group.declared = group.declared or kind != "vars"

    def add_host(self, group: str, host: str, variables: Mapping[str, str], *, line: int) -> None:
        """A host of a group; of its variables those that matter here, the last one winning."""
        self.host_lines.setdefault(host, line)
        own = {key: value for key, value in variables.items() if key in _KEYS}
        if own:
            self._own.setdefault(host, {}).update(own)
        if host not in self._groups[group].hosts:
            self._groups[group].hosts[host] = None
            self._groups_of.setdefault(host, []).append(group)

    def add_child(self, group: str, child: str, *, line: int) -> None:
        """A child of a group, which may be declared further down."""
        if child == ALL:
            raise HostsError("group 'all' cannot be a child", source=self.source, line=line)
        self._groups[group].children.setdefault(child, line)

    def set_variable(self, group: str, key: str, value: str, *, line: int) -> None:
        """A variable of a group; one that does not matter here is dropped."""
        if key == PRIORITY:
            if not (value.isascii() and value.isdigit() and len(value) <= 9):
                raise HostsError(f"{key}={value[:20]!r} is not a number", source=self.source, line=line)
            self._groups[group].priority = int(value)
        elif key in _KEYS:
            self._groups[group].variables[key] = value

    def close(self) -> None:
        """Check the groups and settle whose variables win. Raises HostsError."""
        for group in list(self._groups.values()):
            for child, line in group.children.items():
                if child not in self._groups or not self._groups[child].declared:
                    raise HostsError(
                        f"group {group.name[:60]!r} has the child {child[:60]!r}, which is not a group here",
                        source=self.source,
                        line=line,
                    )
            if not group.declared:
                raise HostsError(
                    f"variables for {group.name[:60]!r}, which is not a group here",
                    source=self.source,
                    line=group.line,
                )
        self._adopt()
        for depth, level in enumerate(self._levels()):
            for name in level:
                self._settle(name, depth)

    def hosts_of(self, name: str) -> list[str]:
        """Hosts of a group: its own, then those of its children, level by level. Raises HostsError."""
        if name not in self._groups:
            known = ", ".join(sorted(self._groups)[:20])
            raise HostsError(f"no group {name[:60]!r}: there are {known}", source=self.source)
        seen, hosts, queue = {name}, dict[str, None](), deque([name])
        while queue:
            group = self._groups[queue.popleft()]
            hosts.update(group.hosts)
            for child in group.children:
                if child not in seen:
                    seen.add(child)
                    queue.append(child)
        return list(hosts)

    def variables_of(self, host: str) -> dict[str, str]:
        """The variables of a host that matter here, under their present names."""
        best: dict[str, tuple[_Rank, str]] = {}
        for group in self._groups_of[host]:
            _improve(best, self._best[group])
        found = {key: value for key, (_, value) in best.items()} | self._own.get(host, {})
        for old, new in _ALIASES.items():
            if old in found:
                found[new] = found.pop(old)
        return found

    def _adopt(self) -> None:
        """Put the hosts of no other group into ``ungrouped``, and the groups of no parent into ``all``."""
        everything, ungrouped = self._groups[ALL], self._groups[UNGROUPED]
        ungrouped.hosts = {
            host: None for host, groups in self._groups_of.items() if set(groups) <= {ALL, UNGROUPED}
        }
        for host, groups in self._groups_of.items():
            self._groups_of[host] = [g for g in groups if g not in (ALL, UNGROUPED)] or [UNGROUPED]
        having = {child for group in self._groups.values() for child in group.children}
        children = {UNGROUPED: 0, **everything.children}
        children |= {name: 0 for name in self._groups if name not in having and name != ALL}
        everything.children = children

    def _levels(self) -> list[list[str]]:
        """Groups by depth, the longest path from ``all``. Raises HostsError for a cycle."""
        waiting = dict.fromkeys(self._groups, 0)
        for group in self._groups.values():
            for child in group.children:
                waiting[child] += 1
        levels, level = [], [ALL]
        while level:
            levels.append(level)
            following = []
            for name in level:
                del waiting[name]
                for child in self._groups[name].children:
                    waiting[child] -= 1
                    if not waiting[child]:
                        following.append(child)
            level = following
        if waiting:
            names = ", ".join(list(waiting)[:5])
            raise HostsError(
                f"groups are children of each other in a circle: {names[:120]}", source=self.source
            )
        return levels

    def _settle(self, name: str, depth: int) -> None:
        """Pass the winning variables of a group, all of whose parents are settled, on to its children."""
        group = self._groups[name]
        rank = (depth, group.priority, name)
        best = self._best.setdefault(name, {})
        _improve(best, {key: (rank, value) for key, value in group.variables.items()})
        for child in group.children:
            _improve(self._best.setdefault(child, {}), best)


def _improve(best: dict[str, tuple[_Rank, str]], other: Mapping[str, tuple[_Rank, str]]) -> None:
    for key, (rank, value) in other.items():
        if key not in best or rank > best[key][0]:
            best[key] = (rank, value)

"""Labels of Kubernetes objects, as a shell script of ``kubectl label`` commands; what is behind the script's name
goes to each kubectl (``sh labels.sh --context C --namespace N``).

A host that came from ``k8s:`` is a pod, and its ``node`` label names the node; any other host is taken for a node.
Names and values are checked as the API server does, so none has a character that a shell would act upon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, check_hosts
from netprobe.core.kubernetes import label_value_fault, subdomain_fault
from netprobe.formats.format import Format, TopologyFormat
from netprobe.formats.host_lists.kubernetes_pods import NODE_LABEL
from netprobe.formats.hostfiles.ranks import comments, slots_of

NODE_RANK, FIRST_RANK, GROUP = "netprobe-node-rank", "netprobe-first-rank", "netprobe-group"
ORDER = (
    f"the program keeps it by taking its node rank from the label {NODE_RANK} and its first rank from {FIRST_RANK} (a "
    "pod: downward API, as a volume, or as a variable of a container that starts later); Kubernetes and its operators "
    "start nothing in the order of labels"
)
PLACES = (
    f"a scheduler configured with the label {GROUP} as its topology level (or a pod's affinity with it as topologyKey) "
    "places by it; the default scheduler does not look at it"
)


def write_rank_labels(hosts: Sequence[Host], *, slots: int | None = None) -> str:
    """Commands that label each host's pod or node with its node rank and the rank of its first slot.

    Raises InputError for a name that no Kubernetes object has.
    """
    check_hosts(hosts)
    lines, first, seen = [], 0, set[tuple[str, str]]()
    for at, (host, count) in enumerate(zip(hosts, slots_of(hosts, slots))):
        place = ("pod", host.target) if NODE_LABEL in host.labels else ("node", host.launcher_name)
        _check(place[1])
        if place in seen:
            raise InputError(f"two hosts are the {place[0]} {place[1]!r}, which can have one rank")
        seen.add(place)
        lines.append(_command(*place, f"{NODE_RANK}={at}", f"{FIRST_RANK}={first}"))
        first += count
    return _script(ORDER, lines)


def write_group_labels(
    groups: Mapping[str, Sequence[Host]],
    unplaced: Sequence[Host] = (),
    *,
    above: Mapping[str, str] | None = None,
) -> str:
    """Commands that label each host's node with its group, and with the groups above it, numbered from the nearest.

    They take the labels from hosts in no group.

    Raises InputError for a group or node name that Kubernetes cannot have, and for a node in two groups.
    """
    group_of: dict[str, str] = {}
    for group, hosts in groups.items():
        fault = label_value_fault(group)
        if fault or not group:
            raise InputError(f"group {fault or 'without a name'}")
        for host in hosts:
            node = _node(host)
            if group_of.setdefault(node, group) != group:
                raise InputError(f"node {node!r} is in the groups {group_of[node]!r} and {group!r}")
    paths = {group: [group, *_above(group, above or {})] for group in groups}
    names = [GROUP, *(f"{GROUP}-{level}" for level in range(1, max(map(len, paths.values()), default=1)))]
    lines = []
    for node, group in group_of.items():
        on = dict(zip(names, paths[group]))
        labels = [f"{name}={on[name]}" if name in on else f"{name}-" for name in names]
        lines.append(_command("node", node, *labels))
    bare = dict.fromkeys(node for node in map(_node, unplaced) if node not in group_of)
    return _script(PLACES, lines + [_command("node", node, *(f"{name}-" for name in names)) for node in bare])


def _above(group: str, above: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    while (at := found[-1] if found else group) in above:
        upper = above[at]
        fault = label_value_fault(upper)
        if fault or len(found) > len(above):
            raise InputError(f"group {fault or repr(group) + ' is its own ancestor'}")
        found.append(upper)
    return found


def _node(host: Host) -> str:
    name = host.labels.get(NODE_LABEL, host.launcher_name)
    _check(name)
    return name


def _check(name: str) -> None:
    fault = subdomain_fault(name)
    if fault:
        raise InputError(
            f"Kubernetes has no object of that name: {fault}: give the host another launcher_name="
        )


def _command(kind: str, name: str, *labels: str) -> str:
    return f'kubectl "$@" label --overwrite {kind} {name} {" ".join(labels)}'


def _script(note: str, lines: Sequence[str]) -> str:
    head = "#!/bin/sh\n" + comments("Kubernetes labels.", note, "sh FILE [kubectl's options]")
    return head + "set -eu\n" + "".join(f"{line}\n" for line in lines)


FORMAT = Format(
    name="kubernetes",
    summary="kubectl commands that label pods or nodes with their ranks",
    write=write_rank_labels,
    order=ORDER,
    file="labels.sh",
)


TOPOLOGY_FORMAT = TopologyFormat(
    name="kubernetes",
    summary="kubectl commands that label nodes with their groups",
    write=write_group_labels,
    places=PLACES,
    file="group-labels.sh",
)

"""Where the hosts of a document really are: by a lab's truth, a Slurm topology, or labels of the hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netprobe.cluster.evaluate.affinity import Position
from netprobe.core.documents.document import parse_document, read_json
from netprobe.core.errors import DocumentError, InputError, SpecError
from netprobe.core.hosts import Host, read_hosts_file_text
from netprobe.core.text import listed
from netprobe.formats.topologies.slurm_topology import looks_like_slurm_topology, read_slurm_topology
from netprobe.formats.topologies.slurm_yaml_reader import looks_like_topology_yaml, read_topology_yaml
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.truth import Truth, rack_id
from netprobe.pipeline.places import refuse_foreign

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Positions by host name, from the outside in. ``levels`` names each level of the longest of them;
    ``not_known`` says why a host that one would look for has none."""

    source: str
    kind: str
    levels: tuple[str, ...]
    positions: Mapping[str, Position]
    not_known: Mapping[str, str]

    def of(self, hosts: Sequence[Host], *, source: str) -> list[Position]:
        """The position of each host, by its name or by what its launcher calls it. Raises DocumentError."""
        found: list[Position] = []
        lost: list[str] = []
        for host in hosts:
            name = host.name if host.name in self.positions else host.launcher_name
            if name in self.positions:
                found.append(self.positions[name])
            else:
                lost.append(host.name)
        if lost:
            why = self.not_known.get(lost[0])
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            reason = f"{self.source} does not say where {lost[0]!r} is{more}{': ' + why if why else ''}"
            raise DocumentError(reason, source=source)
        return found


def read_placement(path: Path) -> Placement:
    """Positions of a truth document of a lab, or of Slurm's topology.conf or topology.yaml.

    Raises InputError for anything else. ``FILE:NAME`` is one of several topologies of a topology.yaml.
    """
    path, name = _file_and_name(path)
    text = read_hosts_file_text(path)
    if text.lstrip().startswith("{"):
        if name is not None:
            raise InputError(
                f"{path}: is a JSON document, and holds no topologies with names: leave :{name} out"
            )
        refuse_foreign(path, "truth")
        return placement_of_truth(
            parse_document(Truth, read_json(path), source=str(path), folder=path.parent), source=str(path)
        )
    if looks_like_topology_yaml(text):
        topology = read_topology_yaml(text, source=str(path), name=name)
    elif looks_like_slurm_topology(text) and name is None:
        topology = read_slurm_topology(text, source=str(path))
    else:
        raise InputError(
            f"{path}: is neither a truth document (truth.json of a lab) nor a topology.conf of Slurm with "
            "SwitchName or BlockName lines, nor a topology.yaml; for labels of the hosts give --labels"
        )
    deepest = max(map(len, topology.positions.values()), default=1)
    return Placement(
        source=str(path) if name is None else f"{path}:{name}",
        kind="slurm",
        levels=(*(f"level {depth}" for depth in range(1, deepest)), "switch"),
        positions=topology.positions,
        not_known={
            host: f"it hangs on {first} and on {second}" for host, (first, second) in topology.twice.items()
        },
    )


def _file_and_name(path: Path) -> tuple[Path, str | None]:
    """A file, or a file and what comes after a colon where only the part before it is a file."""
    file, colon, name = str(path).rpartition(":")
    if colon and name and file and not path.exists() and Path(file).is_file():
        return Path(file), name
    return path, None


def placement_of_truth(truth: Truth, *, source: str) -> Placement:
    """Racks of a lab, and above them the tiers that the delays between its racks make, where they make any."""
    racks = {host.name: host.rack for host in truth.hosts}
    try:
        spec = LabSpec.from_spec(truth.spec)
    except SpecError:
        spec = None  # of a later version: its racks are still known
    tiers = {} if spec is None else _tiers(spec)
    above = {rack: tiers.get(rack, ()) for rack in set(racks.values())}
    depth = max(map(len, above.values()), default=0)
    return Placement(
        source=source,
        kind="lab",
        levels=(*(f"tier {i + 1}" for i in range(depth)), "rack"),
        positions={name: (*above[rack], rack) for name, rack in racks.items()},
        not_known={},
    )


def placement_of_labels(hosts: Sequence[Host], keys: Sequence[str]) -> Placement:
    """Positions by labels, the outermost first (``zone,rack``). Raises InputError for a host without one."""
    if not keys or len(set(keys)) < len(keys) or not all(keys):
        raise InputError("--labels needs different keys of labels, the outermost first, such as zone,rack")
    for key in keys:
        lost = [host.name for host in hosts if not host.labels.get(key)]
        if lost:
            names = listed(lost, _SHOWN)
            known = ", ".join(sorted({key for host in hosts for key in host.labels})[:8]) or "none"
            raise InputError(
                f"no label {key[:40]!r} on {names} (labels there are: {known}): write label.{key[:40]}=.. in a hosts "
                "file and give it as --hosts"
            )
    return Placement(
        source="labels",
        kind="labels",
        levels=tuple(keys),
        positions={host.name: tuple(host.labels[key] for key in keys) for host in hosts},
        not_known={},
    )


def _tiers(spec: LabSpec) -> dict[str, Position]:
    """Tiers above each rack, outermost first; none where the delays between racks make no tree.

    Racks nearer to each other than to the rest are a tier when every delay inside is below every delay out of it.
    """
    count = len(spec.racks)
    delay = {(a, b): spec.one_way_delay_s(a, b) for a in range(count) for b in range(count) if a != b}
    steps = sorted(set(delay.values()), reverse=True)[1:]
    above: list[list[str]] = [[] for _ in range(count)]
    for number, most in enumerate(steps):
        tier_of = list(range(count))
        for (a, b), value in delay.items():
            if value <= most and tier_of[a] != tier_of[b]:
                old, new = max(tier_of[a], tier_of[b]), min(tier_of[a], tier_of[b])
                tier_of = [new if tier == old else tier for tier in tier_of]
        if any(value > most and tier_of[a] == tier_of[b] for (a, b), value in delay.items()):
            return {}
        for rack, tier in enumerate(tier_of):
            above[rack].append(f"tier{number + 1}.{tier}")
    return {rack_id(rack): tuple(place) for rack, place in enumerate(above)}

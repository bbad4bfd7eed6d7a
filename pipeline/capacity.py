"""scan + map -> capacity: what hosts and uplinks carry, and how far each group is oversubscribed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netprobe.core.documents.capacity import Capacity, CapacityTest, Oversubscription, Resource, TestedFlow
from netprobe.core.documents.document import check_same_hosts
from netprobe.core.documents.map import Group, Map
from netprobe.core.documents.scan import DocumentStatus, Scan, ScannedHost
from netprobe.core.errors import DocumentError, NothingMeasuredError
from netprobe.core.hosts import Host
from netprobe.core.system.interrupts import signals_held
from netprobe.core.text import listed
from netprobe.core.units import count, rate_text
from netprobe.pipeline import files
from netprobe.pipeline.mapping.nesting import outer_groups
from netprobe.probe.capacity.estimate import Estimate, Estimates, estimate
from netprobe.probe.capacity.run import CapacityOptions, CapacityOutcome, run_capacity
from netprobe.probe.launchers.launch import Launcher
from netprobe.probe.records.events import OnEvent, ignore
from netprobe.probe.records.options import ScanOptions

ONE_GROUP = "the map has one group: hosts are measured among themselves, and there is no uplink to measure"
KINDS = {"tx": "host_tx", "rx": "host_rx", "up": "group_up", "down": "group_down"}


class NoCapacityError(NothingMeasuredError):
    """No flow gave a reading; ``document`` says of each host why."""

    def __init__(self, document: Capacity) -> None:
        self.document = document
        super().__init__(
            f"no flow gave a reading: {document.reason or 'see the hosts'}",
            nobody_up=all(host.status != "ok" for host in document.hosts),
        )


def measure_capacity(
    scan: Scan,
    map_: Map,
    *,
    launcher: Launcher,
    path: Path | None = None,
    options: ScanOptions | None = None,
    capacity: CapacityOptions | None = None,
    choose_addresses: bool = False,
    on_event: OnEvent = ignore,
) -> Capacity:
    """Measure the hosts of a scan in the groups of its map, and write the document to ``path``.

    On the addresses that the scan probed, or with ``choose_addresses`` on those that ``options`` choose among
    what the hosts have.

    Raises NoCapacityError when no flow ran and InterruptedScanError after Ctrl-C; what was seen is written
    all the same, but for a document without any reading over one that is there.
    """
    options, capacity = options or ScanOptions(), capacity or CapacityOptions()
    check_same_hosts(list(scan.hosts), list(map_.hosts), what="the scan")
    if all(parent.sha256 != scan.parent().sha256 for parent in map_.parents):
        raise DocumentError("the map was made from another scan than the one given")
    hosts = [Host.model_validate({k: getattr(host, k) for k in Host.model_fields}) for host in scan.hosts]
    if choose_addresses:
        hosts = [host.model_copy(update={"address": None}) for host in hosts]
    index = {host.name: i for i, host in enumerate(hosts)}
    groups = [[index[name] for name in group.hosts] for group in map_.groups]
    with signals_held() as late:
        outer = list(outer_groups(map_).values())
        outcome = run_capacity(hosts, groups, launcher, options, capacity, outer=outer, on_event=on_event)
        document = build_capacity(scan, map_, groups, outcome, capacity)
        saved = files.save_measured(document, path) if path is not None else None
    if outcome.interrupted or late:
        tests = count(len(document.tests), "test of capacity", "tests of capacity")
        raise files.interrupted(tests, document.status, saved)
    if document.status == "failed" and len(hosts) > 1:
        raise NoCapacityError(document)
    return document


def build_capacity(
    scan: Scan,
    map_: Map,
    groups: Sequence[Sequence[int]],
    outcome: CapacityOutcome,
    options: CapacityOptions,
) -> Capacity:
    """The document; pure."""
    names = [host.name for host in scan.hosts]
    outer = outer_groups(map_)
    ids = [*(group.id for group in map_.groups), *outer]
    found = estimate(groups, outcome.readings, list(outer.values()))
    uplinks = [*groups, *([host for at in inside for host in groups[at]] for inside in outer.values())]
    resources = _resources(found, groups, uplinks, names, ids)
    known = sum(one.bytes_per_s is not None for one in resources)
    status, reason = _status(outcome, known, len(resources))
    return Capacity(
        status=status,
        reason=reason,
        seed=map_.seed,
        parents=[scan.parent(), map_.parent()],
        hosts=_hosts(scan, outcome),
        groups=list(map_.groups),
        parameters={
            "method": "tcp",
            "seconds": options.seconds,
            "streams": options.streams,
            "repeats": options.repeats,
            "at_once": options.at_once,
        },
        resources=resources,
        oversubscription=[
            oversubscription(group, [found.tx[h] for h in members], found.up.get(place, Estimate()))
            for place, (group, members) in enumerate(zip(map_.groups, groups, strict=True))
        ],
        warnings=([ONE_GROUP] if len(groups) == 1 and len(names) > 1 else [])
        + _warnings(resources)
        + _slower_ones(found, ids),
        tests=_tests(outcome, names, ids, options),
        duration_s=outcome.duration_s,
    )


def _resources(
    found: Estimates,
    groups: Sequence[Sequence[int]],
    uplinks: Sequence[Sequence[int]],
    names: Sequence[str],
    ids: Sequence[str],
) -> list[Resource]:
    """What each host sends and receives, then what each uplink carries either way, by host name and by the id of the
    group or the name of the outer group."""

    def named(reference: str) -> str:
        kind, _, place = reference.partition(":")
        return f"{kind}:{(ids if kind in ('up', 'down') else names)[int(place)]}"

    def resource(kind: str, place: int, one: Estimate, shared: Sequence[int]) -> Resource:
        return Resource(
            id=named(f"{kind}:{place}"),
            kind=KINDS[kind],
            bytes_per_s=one.value,
            low_bytes_per_s=one.low,
            high_bytes_per_s=one.high,
            limited_by=one.limited_by,
            one_of=[named(reference) for reference in one.one_of],
            shared_by=[names[host] for host in shared],
            tests=list(one.tests),
            reason=one.reason,
        )

    hosts = [
        resource(kind, host, getattr(found, kind)[host], [host])
        for members in groups
        for host in members
        for kind in ("tx", "rx")
    ]
    between = [
        resource(kind, place, getattr(found, kind)[place], members)
        for place, members in enumerate(uplinks)
        for kind in ("up", "down")
        if place in getattr(found, kind)
    ]
    return hosts + between


def _hosts(scan: Scan, outcome: CapacityOutcome) -> list[ScannedHost]:
    """The hosts of the scan, as this run found them."""
    return [
        ScannedHost.model_validate(
            host.model_dump()
            | {"address": one.host.address, "status": one.status, "reason": one.reason, "agent": one.agent}
        )
        for host, one in zip(scan.hosts, outcome.hosts, strict=True)
    ]


def _status(outcome: CapacityOutcome, known: int, resources: int) -> tuple[DocumentStatus, str | None]:
    """Of the document, and the reason where it is not ok: ``known`` of the ``resources`` have a reading."""
    faults = [f"{one.host.name}: {one.reason}" for one in outcome.hosts if one.status != "ok"]
    parts = ["interrupted"] if outcome.interrupted else []
    parts += faults[:4]
    parts += [f"and {count(len(faults) - 4, 'more host')}"] if len(faults) > 4 else []
    if known < resources and not faults:
        parts.append(f"{resources - known} of {count(resources, 'resource')} without a reading")
    whole = known == resources and not faults and not outcome.interrupted
    return "ok" if whole else "partial" if known else "failed", "; ".join(parts) or None


def _tests(
    outcome: CapacityOutcome, names: Sequence[str], ids: Sequence[str], options: CapacityOptions
) -> list[CapacityTest]:
    """Every test that ran, with its flows by host name."""
    return [
        CapacityTest(
            kind=reading.experiment.kind,
            group=None if reading.experiment.group is None else ids[reading.experiment.group],
            started_s=started,
            duration_s=options.seconds,
            flows=[
                TestedFlow(
                    src=names[src],
                    dst=names[dst],
                    streams=options.streams,
                    bytes_per_s=None if result.reason else result.bytes_per_s,
                    flags=["cpu_bound"] * result.cpu_bound + ["short"] * result.short,
                    reason=result.reason,
                )
                for (src, dst), result in zip(reading.experiment.flows, results, strict=True)
            ],
        )
        for reading, results, started in zip(outcome.readings, outcome.flows, outcome.started_s, strict=True)
    ]


def oversubscription(group: Group, hosts: Sequence[Estimate], up: Estimate) -> Oversubscription:
    """Sum of the hosts' rates over the uplink's, from the intervals of both."""
    if len(hosts) == 1:
        return Oversubscription(group=group.id, ratio=1.0, low=1.0, high=1.0, text="one host: none")
    if not up.value or any(not host.value for host in hosts):
        text = (
            "cannot tell: a host or the uplink has no reading" if up.reason else "cannot tell: one group only"
        )
        return Oversubscription(group=group.id, text=text)
    together = sum(host.value or 0.0 for host in hosts)
    ratio = together / up.value
    if up.limited_by in ("hosts", "cpu"):
        why = "the hosts were the limit" if up.limited_by == "hosts" else "processors were the limit"
        return Oversubscription(group=group.id, high=ratio, text=f"at most {ratio:.1f}:1 ({why})")
    low = sum(host.low or 0.0 for host in hosts) / (up.high or up.value)
    high = sum(host.high or host.value or 0.0 for host in hosts) / (up.low or up.value)
    return Oversubscription(
        group=group.id, ratio=ratio, low=low, high=high, text=f"{ratio:.1f}:1 ({low:.1f} to {high:.1f})"
    )


def _slower_ones(found: Estimates, ids: Sequence[str]) -> list[str]:
    """Uplinks that carry clearly less than those of as many hosts."""
    slower = [
        f"{kind}:{ids[number]} ({rate_text(one.value)}, where others carry {rate_text(one.below_others)})"
        for kind, into in (("up", found.up), ("down", found.down))
        for number, one in into.items()
        if one.below_others is not None and one.value is not None
    ]
    if not slower:
        return []
    return [
        f"less than the uplinks of as many hosts carry: {listed(slower)}: a slower uplink, or what other traffic "
        "leaves of it, which these tests cannot distinguish; measure again at another time"
    ]


def _warnings(resources: Sequence[Resource]) -> list[str]:
    bound = [one.id for one in resources if one.limited_by == "cpu"]
    if not bound:
        return []
    return [f"a processor was the limit, not the network: {listed(bound)} carry at least what is said"]

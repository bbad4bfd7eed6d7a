"""What is measured on hosts, or on a lab: scans, capacities, plans against each other."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from netprobe.core.documents.capacity import Capacity
from netprobe.core.documents.document import Document
from netprobe.core.documents.map import Map
from netprobe.core.documents.plan import OrderPlan, Plan
from netprobe.core.documents.scan import Scan
from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.documents.verify import Verify
from netprobe.core.errors import InputError, InterruptedScanError, NetprobeError
from netprobe.face import arguments
from netprobe.face.arguments import HostsLike, Place
from netprobe.face.labs import Lab
from netprobe.face.running import OnProgress, Reach, beside_loops, listener, reach_of
from netprobe.formats import load_hosts
from netprobe.pipeline import capacity as capacities
from netprobe.pipeline import files
from netprobe.pipeline.chain import ChainOptions
from netprobe.pipeline.places import NAMES, find_document
from netprobe.pipeline.prepared_chain import ChainRequest, prepare_chain
from netprobe.pipeline.scanning.measuring import parse_measuring
from netprobe.pipeline.verifying.verify_case import Baseline, load_baseline
from netprobe.pipeline.verifying.verify_order import VerifyRequest, verify_order
from netprobe.pipeline.verifying.verify_schedule import Measured, verify_schedule
from netprobe.probe.capacity.run import CapacityOptions
from netprobe.probe.records.journal import read_journal
from netprobe.probe.records.options import ScanOptions
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.run import VerifyOptions

OutPath = str | os.PathLike[str]


class _Made(Protocol):
    """Makes a scan in a folder; ``over`` what netprobe left there."""

    def __call__(self, folder: Path, *, over: bool) -> Scan: ...


def scan(
    hosts: HostsLike | Lab | None = None,
    *,
    via: str | Reach | Lab | None = None,
    out: OutPath | None = None,
    measure: str | Sequence[str] = "rtt",
    force: bool = False,
    options: ScanOptions | None = None,
    progress: OnProgress | None = None,
) -> Scan:
    """Probe every pair of hosts: of a list of names, a hosts file or source, or a lab.

    ``via`` says how they are reached (ssh). ``measure`` is ``rtt`` and any of ``path`` and ``goodput``. The folder
    ``out`` is made for the scan, its raw samples and its journal; without it nothing is left on disk, except that an
    interrupted scan is kept and InterruptedScanError says where. ``force`` puts what netprobe left there before aside.

    Raises InputError, and NothingMeasuredError when no link gave a reading; a scan in which nothing came up does not
    occupy its folder. The result's ``status`` says whether all hosts and links are in it.
    """
    lab = hosts if isinstance(hosts, Lab) else None
    reach = reach_of(via, lab)
    launcher, on_event = reach.launcher(), listener(progress)
    agents = reach.agents(arguments.options(options, ScanOptions, "options"))
    words = measure if isinstance(measure, str) else ",".join(arguments.texts(measure, "measure"))
    measuring = parse_measuring(words)
    source = lab.hosts_file if lab is not None else None if hosts is None else arguments.hosts_text(hosts)
    chain = ChainOptions(scan=agents, measuring=measuring, seed=agents.seed, last="scan", via=reach.via)

    def made_in(folder: Path, *, over: bool) -> Scan:
        request = ChainRequest(
            folder=folder, options=chain, hosts=source, launcher=launcher, via=reach.via, force=over
        )
        prepared = prepare_chain(request)
        return beside_loops(lambda: prepared.run(on_event=on_event)).scan

    if out is None:
        return _in_passing(made_in)
    folder = arguments.place(out, "out")
    before = _names_in(folder)
    try:
        return made_in(folder, over=bool(force))
    except BaseException:
        if not before:
            _tidy(folder, made=before is None)
        raise


def measure_capacity(
    scan: Scan | Place,
    map: Map | Place | None = None,
    *,
    via: str | Reach | Lab | None = None,
    out: OutPath | None = None,
    options: CapacityOptions | None = None,
    progress: OnProgress | None = None,
) -> Capacity:
    """Measure with several flows at once what each host and each group's uplink carries.

    The ``map`` is that of the ``scan``; where the scan is given by its folder, the map there is found. ``out`` is a
    new file, or the folder it goes to. Raises InputError and NothingMeasuredError.
    """
    scanned = arguments.document(Scan, scan, "scan")
    if map is None:
        if isinstance(scan, Document):
            raise InputError("map: its map is needed too, where a scan is not given by its folder")
        mapped = arguments.document(Map, find_document(arguments.place(scan, "scan"), "scan").parent, "map")
    else:
        mapped = arguments.document(Map, map, "map")
    reach = reach_of(via)
    launcher, on_event = reach.launcher(), listener(progress)
    how = arguments.options(options, CapacityOptions, "options")
    launcher.check(scanned.hosts)
    target = _target(out, "capacity")
    return beside_loops(
        lambda: capacities.measure_capacity(
            scanned,
            mapped,
            launcher=launcher,
            path=target,
            options=reach.agents(),
            capacity=how,
            on_event=on_event,
        )
    )


def verify_plan(
    plan: Plan | Place,
    *,
    via: str | Reach | Lab | None = None,
    against: str | os.PathLike[str] | Sequence[str] | None = None,
    size: int | str = "32MB",
    time: float = 60.0,
    map: Map | Capacity | Place | None = None,
    out: OutPath | None = None,
    progress: OnProgress | None = None,
) -> Verify:
    """Run a plan on its hosts in turn with another, all-reduces of ``size`` for ``time`` seconds, and say which is
    faster.

    An order runs ``against`` the original one, ``random`` ones, that of a file, or a list of all its names; a schedule
    against an algorithm or another plan's file (docs/verify.md). ``map``, or capacities in its place,
    predict what the runs then show. ``out`` is a new file, or the folder it goes to.

    Raises InputError and NothingMeasuredError.
    """
    found = arguments.document(Plan, plan, "plan")
    if not isinstance(found, (OrderPlan, SchedulePlan)):
        raise InputError(f"plan is of kind {found.kind}: only rank orders and schedules can be run")
    carried = map if isinstance(map, Capacity) else None
    mapped = None if isinstance(map, Capacity) else arguments.maybe(Map, map, "map")
    reach = reach_of(via)
    launcher, on_event = reach.launcher(), listener(progress)
    comparison = ComparisonOptions(time_s=arguments.number(time, "time"))
    how = VerifyOptions(size_bytes=arguments.size_bytes(size, "size"), comparison=comparison)
    launcher.check(found.hosts)
    if isinstance(found, OrderPlan):
        request = VerifyRequest(against=_baseline(against), options=how)
        target = _target(out, "verify")
        return beside_loops(
            lambda: verify_order(
                found,
                request,
                launcher=launcher,
                map_=mapped,
                capacity=carried,
                path=target,
                options=reach.agents(),
                on_event=on_event,
            )
        )
    if against is not None and not isinstance(against, (str, os.PathLike)):
        raise InputError("against: a schedule runs against an algorithm or another plan's file")
    target = _target(out, "verify")
    return beside_loops(
        lambda: verify_schedule(
            found,
            None if against is None else os.fspath(against),
            launcher=launcher,
            measured=Measured(map_=mapped, capacity=carried),
            path=target,
            options=reach.agents(),
            verify=how,
            on_event=on_event,
        )
    )


def _baseline(against: str | os.PathLike[str] | Sequence[str] | None) -> Baseline:
    if against is None:
        return Baseline()
    if isinstance(against, (str, os.PathLike)):
        return load_baseline(str(arguments.place(against, "against")))
    return Baseline(name="list", hosts=tuple(load_hosts(arguments.hosts_text(against, "against"))))


def _target(out: OutPath | None, kind: str) -> Path | None:
    """The file to write, checked before anything is measured. Raises InputError and OutputExistsError."""
    if out is None:
        return None
    path = arguments.place(out, "out")
    if path.is_dir():
        path = path / NAMES[kind]
    files.prepare_file(path, kind=kind)
    return path


def _in_passing(made_in: _Made) -> Scan:
    """A scan of which nothing is kept on disk; so its raw samples are gone, and it refers to none."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="netprobe-scan-"))
    except OSError as error:
        raise InputError(f"no folder for temporary files can be made: {error.strerror}: give out=") from None
    kept = False
    try:
        return made_in(folder, over=False).model_copy(update={"samples": None})
    except InterruptedScanError:
        kept = True  # it says that it is there
        raise
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _names_in(folder: Path) -> list[str] | None:
    """What is in a folder; None where there is none."""
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ["?"]  # whatever it is, it is not ours to tidy up


def _tidy(folder: Path, *, made: bool) -> None:
    """After a scan that failed: a journal without any reading goes, and so does a folder that was ``made`` for it."""
    journal = folder / files.JOURNAL
    with contextlib.suppress(OSError, NetprobeError):
        if not (folder / files.SCAN).exists() and journal.is_file() and not read_journal(journal).visits:
            journal.unlink()
    if made:
        with contextlib.suppress(OSError):
            folder.rmdir()

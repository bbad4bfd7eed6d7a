"""Documents on disk: names, refusing to overwrite, writing."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from netprobe.core.documents.document import Document, side_path, write_atomically, write_document
from netprobe.core.errors import InputError, InterruptedScanError, OutputExistsError
from netprobe.core.system.interrupts import noted

SCAN, MAP, PLAN = "scan.json", "map.json", "plan.json"
CAPACITY = "capacity.json"
VERIFY = "verify.json"
SAMPLES, JOURNAL, TRUTH = "scan.samples.npz", "scan.journal.jsonl", "truth.json"
_DOCUMENTS = (SCAN, "scan.json.npz", SAMPLES, JOURNAL, MAP, "map.json.npz", CAPACITY, PLAN, TRUTH, VERIFY)
OLD = ".old"
_GO_ON = {"scan": "netprobe map", "map": "netprobe plan"}
_GO_ON_WITH_PLAN = {
    "order": "netprobe export hostfile",
    "schedule": "netprobe export schedule",
    "ds_sync": "netprobe show, or netprobe.runtime.DSSync in a training job",
}
_MOST_OF_NOTHING = 1 << 24
_HEAD_BYTES = 4096
_LONGEST_NAME = 255
_PLAN_KIND = re.compile(rb'^  "kind": "([a-z_]{1,20})"', re.MULTILINE)
_SCHEMA = re.compile(rb'"(?:schema|journal)":\s*"netprobe\.([a-z_]{1,20})/')


def ours() -> tuple[str, ...]:
    """The names of what netprobe writes into a scan's folder.

    Orders in any format are among them: one that an earlier scan left next to a new plan would be another plan's.
    """
    from netprobe.formats import exported_names  # whoever only reads documents does not wait for every format

    return (*_DOCUMENTS, *exported_names())


def check_folder(path: Path, inputs: Sequence[Path]) -> None:
    """Refuse a folder in which one of our own names is a file that was given to be read."""
    taken = {_resolved(given) for given in inputs}
    for name in ours():
        if _resolved(path / name) in taken:
            raise OutputExistsError(
                f"{path / name}: is an input, and would be written: name another --out, or copy the input"
            )


def prepare_folder(path: Path, *, force: bool = False) -> None:
    """Make the output directory. One that holds anything is refused.

    With ``force`` our own files there are kept under their names with ``.old`` behind, one generation, so
    that a scan that fails has cost nothing.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in path.iterdir())
    except FileExistsError:
        raise OutputExistsError(f"{path}: exists and is not a directory: name another --out") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be made: {error.strerror}") from None
    _check_holds(path, found, force=force)
    put_aside(path, set(found) & set(ours()))


def check_out(path: Path, *, force: bool = False) -> None:
    """Refuse what ``prepare_folder`` will refuse, and leave nothing behind. Raises InputError and OutputExistsError."""
    try:
        if path.is_dir():
            found = sorted(entry.name for entry in path.iterdir())
            _check_holds(path, found, force=force)
        elif os.path.lexists(path):
            raise OutputExistsError(f"{path}: exists and is not a directory: name another --out")
        above = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
        if not above.is_dir():
            raise InputError(f"{path}: cannot be made: {above} is not a directory")
        if not os.access(above, os.W_OK | os.X_OK):
            raise InputError(f"{path}: cannot be made: nothing can be written in {above}")
        longest = max(len(os.fsencode(part)) for part in (path.parts or ("",)))
        if longest > _LONGEST_NAME:
            raise InputError(
                f"{path}: cannot be made: a name of {longest} bytes: at most {_LONGEST_NAME} are allowed"
            )
        # Rights are not all: /proc, and a file system mounted to be read, let root try.
        _try_folder(path, above)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be made: {error}") from None


def _try_folder(path: Path, above: Path) -> None:
    try:
        Path(tempfile.mkdtemp(prefix=".netprobe-", dir=above)).rmdir()
    except OSError as error:
        raise InputError(f"{path}: cannot be made: {above} takes no folder: {error.strerror}") from None


def _check_holds(path: Path, found: Sequence[str], *, force: bool) -> None:
    """Refuse a folder that holds anything, unless with ``force`` or where a scan left it that measured nothing."""
    if not found or force or _is_of_a_failed_scan(path, found):
        return
    what = ", ".join(found[:4]) + (" .." if len(found) > 4 else "")
    resume = (
        ", --resume to measure what a scan there still lacks" if SCAN in found or JOURNAL in found else ""
    )
    raise OutputExistsError(
        f"{path}: the directory already holds {what}: name another --out{resume}, or --force to put "
        "netprobe's own files aside (as *.old)"
    )


def _is_of_a_failed_scan(path: Path, found: Iterable[str]) -> bool:
    """Whether a folder holds a scan that measured nothing, and nothing else: the next one may have its place."""
    of_scan = {SCAN, SAMPLES, JOURNAL} | {name + OLD for name in ours()}
    try:
        return SCAN in found and set(found) <= of_scan and is_of_nothing(path / SCAN, "scan")
    except OSError:
        return False


def put_aside(path: Path, names: Iterable[str]) -> None:
    """Keep files of a folder under their names with ``.old`` behind; missing ones are not an error."""
    for name in sorted(names):
        if not (path / name).exists():
            continue
        try:
            (path / name).replace(path / (name + OLD))
        except OSError as error:
            raise InputError(f"{path / name}: cannot be put aside: {error.strerror}") from None


def prepare_file(
    path: Path,
    *,
    kind: str,
    force: bool = False,
    inputs: Sequence[Path] = (),
    ours: Callable[[str], bool] | None = None,
) -> None:
    """Check that a file of a kind (``map``, ``hostfile``) can be written: not there yet (or ``force``), never an
    input, a document of another kind, or a file that others made; folder present.

    ``ours`` tells by its first characters whether a text is one of that kind (None: it has to be a document)."""
    try:
        _check_file(path, kind=kind, force=force, inputs=inputs)
        if path.exists() and not is_of_nothing(path, kind):
            _check_ours(path, kind, ours)
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # a loop of links, a name too long, a folder that is gone
        raise InputError(f"{path}: cannot be written: {error}") from None


def _check_file(path: Path, *, kind: str, force: bool, inputs: Sequence[Path]) -> None:
    if not path.name:
        raise InputError(f"--out {str(path)!r} is not the name of a file: name one")
    taken = {_resolved(place) for given in inputs for place in (given, side_path(given))}
    for place in (path, side_path(path)):
        if place.resolve() in taken:
            raise OutputExistsError(f"{path}: is the input itself: name another --out")
        if place.is_dir():
            raise OutputExistsError(f"{place}: is a directory: name a file")
        if place.exists() and not place.is_file():
            raise OutputExistsError(f"{place}: is not a regular file: name another --out")
        # A run that read nothing left nothing to lose: the next one takes its place.
        if place.exists() and not force and not is_of_nothing(place, kind):
            raise OutputExistsError(f"{place}: exists already: name another --out, or --force to replace it")
    found = kind_of(path)
    if found not in (None, kind):
        raise OutputExistsError(
            f"{path}: is a {found}, which --force does not replace by a {kind}: name another --out"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such directory")
    # Before anything is measured: a link or an older file says nothing, since a new file takes their place.
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path.parent}: nothing can be written there: name another --out")


def plan_path(folder: Path, kind: str, by: str) -> Path:
    """Where a plan goes that was given no name: plan.json, or ``plan-BY.json`` where that is a plan of another kind.

    A scan leaves the plan of an order: a schedule that is planned later must neither fail for it nor replace it.
    """
    usual = folder / PLAN
    try:
        with usual.open("rb") as stream:
            match = _PLAN_KIND.search(stream.read(_HEAD_BYTES))
    except (OSError, ValueError):
        return usual
    return usual if match is None or match[1].decode() == kind else folder / f"plan-{by}.json"


def _check_ours(path: Path, kind: str, ours: Callable[[str], bool] | None) -> None:
    """Raises OutputExistsError for a file of somebody else; an empty one is nobody's."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    if head and kind_of(path) is None and not (ours is not None and ours(head)):
        raise OutputExistsError(
            f"{path}: is not a {kind} of netprobe's, so that --force does not replace it: name another --out, or move "
            "it away"
        )


def is_of_nothing(path: Path, kind: str) -> bool:
    """Whether a document of a kind describes a run that read nothing: another one like it may take its place."""
    if kind_of(path) != kind or path.stat().st_size > _MOST_OF_NOTHING:
        return False
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("status") == "failed"


def kind_of(path: Path) -> str | None:
    """The kind of our document at the path; None for anything else, or if nothing is there."""
    if not path.exists():
        return None
    with path.open("rb") as stream:
        match = _SCHEMA.search(stream.read(_HEAD_BYTES))
    return None if match is None else match[1].decode()


def _resolved(path: Path) -> Path:
    """Where a path leads; itself where that is unknown (a loop of links, a name too long)."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def save(document: Document, path: Path, *, keep: bool = True) -> None:
    """Write a document, turning a full disk or a missing right into one clear line.

    What it took to make is not lost then: with ``keep`` the document goes to a new folder for temporary files,
    and the line says where.
    """
    try:
        write_document(document, path)
    except OSError as error:
        kept = f"; {kept_elsewhere(document, path.name)}" if keep else ""
        raise InputError(f"{path}: cannot be written: {error.strerror}{kept}") from None


def save_measured(document: Document, path: Path) -> Path | None:
    """Write a document of a run; None where it read nothing and a good file of an earlier run is there, and stays."""
    failed = getattr(document, "status", None) == "failed"
    if failed and path.exists() and not is_of_nothing(path, document.KIND):
        return None
    save(document, path)
    return path


def interrupted(made: str, status: str, saved: Path | None) -> InterruptedScanError:
    """What an interrupted run says, of what it ``made`` (``1 run``) and where it ``saved`` that."""
    noted()
    one = made.startswith("1 ")
    kept = f"{'is' if one else 'are'} kept in {saved} (status {status})"
    return InterruptedScanError(
        f"interrupted: {made} {kept if saved is not None else 'was made' if one else 'were made'}"
    )


def kept_elsewhere(document: Document, name: str) -> str:
    """Write a document that its folder did not take into a new one for temporary files; a sentence that says where."""
    kind = document.KIND.replace("_", " ")
    try:
        place = Path(tempfile.mkdtemp(prefix=f"netprobe-{document.KIND}-")) / name
        write_document(document, place)
    except OSError:
        return f"and no folder for temporary files takes it either: the {kind} is lost"
    go_on = _GO_ON.get(document.KIND) or _GO_ON_WITH_PLAN.get(getattr(document, "kind", ""))
    return f"the {kind} is kept in {place}" + (f": go on with {go_on}" if go_on else "")


def save_text(text: str, path: Path) -> None:
    """Write a text file atomically."""
    save_bytes(text.encode(), path)


def save_bytes(content: bytes, path: Path) -> None:
    """Write a file atomically, errors as one clear line."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None

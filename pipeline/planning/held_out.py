"""scan + map -> what the readings behind a map add to it: costs to search on, and folds to judge orders by."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.document import canonical_sha256, load_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix, empty_matrix
from netprobe.core.documents.scan import Scan
from netprobe.core.errors import DocumentError
from netprobe.core.hosts import natural_order
from netprobe.embed import denoise
from netprobe.embed.records import Method
from netprobe.pipeline import files
from netprobe.pipeline.mapping.layers import read_layers
from netprobe.plan import Fold, HeldOutReadings, Links, links_of

RAW_SHARE = 0.1
"""Share of the readings in the costs that are searched, the rest being the denoised distances: enough to break ties."""
SLOW, SLOW_NOISE = 1.3, 4.0
"""A pair is persistently slow when both of its readings exceed its denoised distance by this factor, and by this many
times the noise of a reading."""
MOST_HOSTS = 256
"""Above this, nothing is held out unless requested: each fold denoises another matrix."""
MOST_LACKING = 0.05
"""Largest share of pairs with fewer than two readings; orders are judged on the others."""
MOST_SCANS = 20
"""How many files in the folder of a map are read to find the scan it was made from."""


def is_parent(map_: Map, scan: Scan) -> bool:
    """Whether the map was made from this very scan."""
    return canonical_sha256(scan) in {parent.sha256 for parent in map_.parents}


def readings_of(
    map_: Map, scan: Scan, *, size_bytes: int | None = None, held_out: bool | None = None, seed: int = 0
) -> HeldOutReadings:
    """What orders are searched and judged on, in the order of the map's hosts.

    The round trip of each pair was measured twice, once from each end; each half of a fold takes one of the two
    readings, at random by ``seed``. Goodput has a direction and one reading in each: where it is priced, nothing is
    held out. ``held_out`` None means up to MOST_HOSTS hosts. Raises DocumentError for a scan
    of other hosts.
    """
    if [host.name for host in scan.hosts] != [host.name for host in map_.hosts]:
        raise DocumentError("the scan lists other hosts than the map, or in another order")
    denoised = links_of(map_, size_bytes)
    order = natural_order(map_.hosts)
    raw = {entry.layer: _unordered(entry.raw, order) for entry in read_layers(scan, order)}
    directed = _directed(map_)
    needed = {"beta"} if map_.grouped_by != "rtt" else {"rtt"} if size_bytes is None else {"rtt", "beta"}
    if not needed <= set(raw):
        raise DocumentError(f"the scan has no readings of {' and '.join(sorted(needed - set(raw)))}")
    layers = {name: raw[name] for name in sorted(needed)}
    both = {name: _cells(name, matrix, directed) for name, matrix in layers.items()}
    mixed = {name: _mixed(_distance(map_, name), matrix) for name, matrix in both.items()}
    search = _links(map_, mixed, denoised.size_bytes)
    slow, slow_links = None, None
    if "rtt" in mixed:
        twice = np.where(directed, np.nan, raw["rtt"])  # what has a direction has one reading in each
        slow = _Slow.of(_distance(map_, "rtt"), twice)
        full = slow.full(mixed["rtt"], _distance(map_, "rtt"), twice)
        if not np.array_equal(full, mixed["rtt"], equal_nan=True):
            slow_links = _links(map_, {**mixed, "rtt": full}, denoised.size_bytes)
    placed = [i for i in order if map_.hosts[i].name not in set(map_.unplaced)]
    folds, pairs, text = _folds(map_, layers, placed, denoised.size_bytes, held_out, seed, slow)
    return HeldOutReadings(
        search=search,
        slow=slow_links,
        slow_repeats=slow is not None and slow.repeats,
        raw_share=RAW_SHARE,
        folds=folds,
        pairs=pairs,
        noise=_noise(np.where(directed, np.nan, layers["rtt"]), placed) if folds else (),
        text=text,
    )


def readings_in_folder(
    map_file: Path,
    map_: Map,
    scan_file: Path | None,
    *,
    size_bytes: int | None = None,
    held_out: bool | None = None,
    seed: int = 0,
) -> HeldOutReadings:
    """`readings_of` the scan in ``scan_file``, or of the map's parent in the folder of the map, under any name.

    Raises DocumentError for a scan that was named and cannot be read, or is not the map's.
    """
    if scan_file is not None:
        scan: Scan | None = _parent_in(map_, scan_file)
    else:
        scan, why = _parent_in_folder(map_file, map_)
    if scan is None:
        return HeldOutReadings(text=f"not known: {why}")
    return readings_of(map_, scan, size_bytes=size_bytes, held_out=held_out, seed=seed)


def _parent_in(map_: Map, path: Path) -> Scan:
    scan = load_document(Scan, path)
    if not is_parent(map_, scan):
        raise DocumentError("is not the scan that the map was made from", source=str(path))
    return scan


def _parent_in_folder(map_file: Path, map_: Map) -> tuple[Scan | None, str]:
    """The map's parent by its hash, among the scans in the map's folder and next to it; None and why if none is it."""
    first = map_file.parent / files.SCAN
    why = f"no {files.SCAN} is in the map's folder"
    for path in _scans_near(map_file.parent):
        try:
            return _parent_in(map_, path), ""
        except DocumentError as error:
            why = str(error) if path == first else why
    needed = next(
        (parent.sha256 for parent in map_.parents if parent.schema_.startswith("netprobe.scan/")), ""
    )
    of = f" (canonical sha256 {needed[:12]}..)" if needed else ""
    return (
        None,
        f"{why}, nor is another scan there that it was made from: name the file of that{of} with --scan",
    )


def _scans_near(folder: Path) -> list[Path]:
    """Scans in a folder under any name, ``scan.json`` first, then those of the folders above and below it.

    A map may be written elsewhere than its scan (``--out map2.json`` next to the folder of the scan).
    """
    first = folder / files.SCAN
    near = [folder.parent / files.SCAN, *sorted(folder.glob(f"*/{files.SCAN}"))]
    found: list[Path] = []
    for path in dict.fromkeys([first, *sorted(folder.glob("*.json")), *near]):
        with contextlib.suppress(OSError):
            # Only regular files: reading from a pipe would block.
            if path.is_file() and files.kind_of(path) == "scan":
                found.append(path)
        if len(found) == MOST_SCANS:
            break
    return found


def _folds(
    map_: Map,
    layers: dict[str, FloatMatrix],
    placed: list[int],
    size_bytes: int | None,
    held_out: bool | None,
    seed: int,
    slow: _Slow | None,
) -> tuple[tuple[Fold, ...], int, str]:
    """The folds, the number of pairs with two readings, and the text for the document."""
    count = len(placed)
    total = count * (count - 1) // 2
    if held_out is False:
        return (), 0, "not requested"
    if "beta" in layers:
        # The two cells of a pair are two links: one does not show how well the other was measured.
        return (
            (),
            0,
            "cannot tell: the scan has one reading of the goodput of each link and direction, and it takes two",
        )
    if held_out is None and count > MOST_HOSTS:
        return (
            (),
            0,
            f"not done above {MOST_HOSTS} hosts unless requested (--held-out): it denoises twice more",
        )
    if count < 3:
        return (), 0, "cannot tell: fewer than three hosts have no orders to compare"
    at = np.ix_(placed, placed)
    parts = {name: matrix[at] for name, matrix in layers.items()}
    directed = _directed(map_)[at]
    pairs, why = _two_readings(parts["rtt"], directed)
    if why:
        return (), pairs, why
    pick = np.triu(np.random.default_rng([seed, count]).random((count, count)) < 0.5, 1)
    pick = pick | np.tril(~pick.T, -1)
    folds = []
    for mask in (pick, ~pick):
        halves = {name: _half(part, mask) for name, part in parts.items()}
        unseen = {name: _half(part, ~mask) for name, part in parts.items()}
        if any(_alone(half) for half in halves.values()):
            return (), pairs, "cannot tell: a host would be left without a reading in one of the halves"
        clean = {name: denoise(half, method=_method(map_, name), seed=seed) for name, half in halves.items()}
        # A pair that differs by direction costs what the map says, the same for every order.
        for table in (clean, halves, unseen):
            for name, cells in table.items():
                table[name] = np.where(directed, _distance(map_, name)[at], cells)
        mixed = {name: _mixed(clean[name], half) for name, half in halves.items()}
        # A pair that lacks a reading costs what its own half says, the same for every order.
        for name, cells in unseen.items():
            unseen[name] = np.where(np.isnan(cells), clean[name], cells)
        kinds = [clean, mixed, unseen]
        if slow is not None and slow.repeats:
            # Where slow readings repeat, one of them is enough.
            kinds.append({**mixed, "rtt": slow.full(mixed["rtt"], clean["rtt"], halves["rtt"])})
        links = [
            _links(map_, {k: _placed(m, placed, len(map_.hosts)) for k, m in matrices.items()}, size_bytes)
            for matrices in kinds
        ]
        slow_links = links[3] if len(links) > 3 else None
        folds.append(Fold(denoised=links[0], search=links[1], unseen=links[2], slow=slow_links))
    lacking = f"; {total - pairs} of {total} pairs lack one" if pairs < total else ""
    return (
        tuple(folds),
        pairs,
        f"each pair's two readings, one searched on and one priced, both ways{lacking}",
    )


def _two_readings(part: FloatMatrix, directed: NDArray[np.bool_]) -> tuple[int, str]:
    """How many pairs have two readings of one thing, and why these are too few; "" where they are not."""
    total = len(part) * (len(part) - 1) // 2
    twice = ~(np.isnan(part) | np.isnan(part.T) | directed)
    pairs, differ = (int(np.triu(mask, 1).sum()) for mask in (twice, directed))
    if differ > MOST_LACKING * total:
        why = f"{differ} of {total} pairs differ by direction, and have one reading in each: it takes two"
    elif same := _one_number(part, twice):
        why = f"both directions are one number in {same} of {pairs} pairs, and it takes two readings"
        pairs = 0
    elif total - pairs > MOST_LACKING * total:
        why = f"{total - pairs} of {total} pairs have one reading or none, and it takes two"
    else:
        return pairs, ""
    return pairs, f"cannot tell: {why}"


def _one_number(part: FloatMatrix, twice: NDArray[np.bool_]) -> int:
    """How many pairs have one number for both directions, where that is more than chance; otherwise 0.

    Two readings of a pair are hardly ever equal, unless they are coarse: of differences spread about 0 as widely as
    the others are, a grid as wide as the least of them makes so many equal, at the most.
    """
    difference = np.abs(part - part.T)[np.triu(twice, 1)]
    same = int((difference == 0).sum())
    if same <= MOST_LACKING * len(difference):
        return 0
    others = difference[difference > 0]
    if not len(others):
        return same
    by_chance = float(others.min() / np.median(others)) / 2
    return 0 if same <= by_chance * len(difference) else same


def _noise(raw: FloatMatrix, placed: list[int]) -> tuple[float, ...]:
    """By how much the two readings of each pair differ, in the logarithm, sorted."""
    part = raw[np.ix_(placed, placed)]
    both = np.triu((part > 0) & (part.T > 0), 1)
    return tuple(np.sort(np.abs(np.log(part[both] / part.T[both]))).tolist())


def _half(part: FloatMatrix, mask: NDArray[np.bool_]) -> FloatMatrix:
    """(N, N) symmetric: of each pair the one cell that ``mask`` picks, NaN where that one is missing."""
    chosen = np.where(mask, part, np.nan)
    half: FloatMatrix = np.where(np.isnan(chosen), chosen.T, chosen)
    np.fill_diagonal(half, 0.0)
    return half


def _alone(half: FloatMatrix) -> bool:
    known = ~np.isnan(half)
    return bool((known.sum(axis=1) < 2).any())


def _directed(map_: Map) -> NDArray[np.bool_]:
    """(N, N) the pairs whose two round trips differ on the map: their readings are of two things."""
    rtt = map_.layers.rtt
    if rtt is None or not map_.is_directed:
        return np.zeros((len(map_.hosts), len(map_.hosts)), dtype=bool)
    distance = np.asarray(rtt.distance_s)
    return ~(np.isclose(distance, distance.T, rtol=1e-6, atol=0.0) | np.isnan(distance))


def _cells(name: str, raw: FloatMatrix, directed: NDArray[np.bool_]) -> FloatMatrix:
    """The readings that a search may use.

    Both readings of a round trip are of the same path, and a delay of only one of them was transient: the lower
    one counts, unless the pair is ``directed``. Goodput has a direction, and is used as directed.
    """
    if name == "rtt":
        return np.where(directed, raw, np.fmin(raw, raw.T))
    return np.where(np.isnan(raw), raw.T, raw)


def _mixed(distance: FloatMatrix, raw: FloatMatrix) -> FloatMatrix:
    """The denoised distances and RAW_SHARE of the readings, scaled to the same mean; a missing reading adds nothing."""
    off = ~np.eye(len(distance), dtype=bool)
    known = off & ~np.isnan(raw) & ~np.isnan(distance)
    mean = float(raw[known].mean()) if known.any() else 0.0
    if mean <= 0:
        return distance.copy()
    scaled = raw * (float(distance[known].mean()) / mean)
    return np.where(np.isnan(scaled), distance, (distance + RAW_SHARE * scaled) / (1 + RAW_SHARE))


@dataclass(frozen=True, kw_only=True)
class _Slow:
    """Readings above ``limit`` times their denoised distance are slow for their place; ``usual`` times it is usual."""

    usual: float
    limit: float
    repeats: bool
    """At least half of the slow readings are of pairs whose other reading is slow too."""

    @classmethod
    def of(cls, distance: FloatMatrix, raw: FloatMatrix) -> _Slow:
        """From the two readings of each pair, visited in rounds far apart."""
        known = ~np.eye(len(raw), dtype=bool) & (raw > 0) & (raw.T > 0) & (distance > 0)
        if not known.any():
            return cls(usual=1.0, limit=np.inf, repeats=False)
        above = np.log(np.where(known, raw, 1.0) / np.where(known, distance, 1.0))
        usual = float(np.median(np.minimum(above, above.T)[known]))
        # Medians are robust to slow ones; of a standard normal |x| has 0.6745, and two readings differ by sqrt(2).
        noise = float(np.median(np.abs(above - above.T)[known])) / (0.6745 * np.sqrt(2.0))
        limit = usual + max(float(np.log(SLOW)), SLOW_NOISE * noise)
        slow = known & (above > limit)
        repeats = bool(slow.any() and (slow & slow.T).sum() >= slow.sum() / 2)
        return cls(usual=float(np.exp(usual)), limit=float(np.exp(limit)), repeats=repeats)

    def full(self, mixed: FloatMatrix, distance: FloatMatrix, raw: FloatMatrix) -> FloatMatrix:
        """``mixed``, with the lower reading of each pair that is slow in both: that delay is not transient."""
        if not np.isfinite(self.limit):
            return mixed
        known = (raw > 0) & (raw.T > 0) & (distance > 0)
        low = np.where(known, np.minimum(raw, raw.T), 0.0)
        slow = known & (low > self.limit * distance)
        return np.where(slow, np.maximum(mixed, low / self.usual), mixed)


def _links(map_: Map, layers: dict[str, FloatMatrix], size_bytes: int | None) -> Links:
    beta, rtt = layers.get("beta"), map_.layers.rtt
    share = 1.0 if rtt is not None and rtt.one_way else 0.5
    alpha = layers["rtt"] * share if "rtt" in layers else layers["beta"] * 0.0
    return Links(alpha_s=alpha, beta_s_per_byte=beta, size_bytes=size_bytes)


def _distance(map_: Map, name: str) -> FloatMatrix:
    return np.array(map_.layers.named()[name].distance)


def _method(map_: Map, name: str) -> Method:
    found = map_.layers.named()[name].method
    # A method of a later version, or of a test: the default one.
    return found if found in get_args(Method) else "ensemble"  # type: ignore[return-value]


def _unordered(matrix: FloatMatrix, order: list[int]) -> FloatMatrix:
    back = np.argsort(order)
    return matrix[np.ix_(back, back)]


def _placed(part: FloatMatrix, placed: list[int], size: int) -> FloatMatrix:
    whole = empty_matrix(size)
    whole[np.ix_(placed, placed)] = part
    return whole

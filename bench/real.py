"""Maps of real matrices: PlanetLab-490 (one slice against the others) and WonderProxy (hidden links)."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _real import (
    CHOOSING_SLICES,
    REPORTED_SLICES,
    by_means,
    by_paths,
    hidden_error,
    hide,
    levelled_by_truth,
    planetlab,
    repeat_errors,
    soft_impute,
    vivaldi,
    wonderproxy,
)
from _tables import heading, table
from map import Matrix, Method, average_linkage, classical, fitted, scaled

from netprobe.core.errors import InputError
from netprobe.embed.estimates.kriging import direction_noise
from netprobe.embed.prepare import check_matrix, prepare

# The wide-area methods were chosen on seeds from the first on, and are reported from the second on.
CHOOSING_SEEDS, REPORTED_SEEDS = 1000, 0
HIDDEN = 0.2


def smacof(matrix: Matrix, seed: int) -> Matrix:
    """scikit-learn's metric MDS, in the matrix's unit."""
    return np.asarray(scaled(metric=True)(matrix, seed) * np.median(matrix))


def linkage(matrix: Matrix, seed: int) -> Matrix:
    """Average linkage of the logarithms, in the matrix's unit; zero diagonal."""
    least = np.min(matrix[np.triu_indices(len(matrix), 1)])
    found = average_linkage(matrix, seed) * least
    np.fill_diagonal(found, 0.0)
    return found


def on_filled(method: Method, fill: Method) -> Method:
    """A method that needs a complete matrix, on one that ``fill`` completed."""
    return lambda matrix, seed: method(fill(matrix, seed), seed)


OURS: dict[str, Method] = {
    f"netprobe {name}": fitted(method=name) for name in ("ensemble", "block", "ultrametric", "huber")
}
PUBLISHED: dict[str, Method] = {
    "eq. 4.1, alpha 1": fitted(method="plink", held_out=0.0),
    "eq. 4.1, alpha 1, heights": fitted(method="plink", held_out=0.0, heights=True),
}
DENOISERS: dict[str, Method] = {
    "raw": lambda matrix, _seed: matrix,
    **PUBLISHED,
    "MDS (scikit-learn)": smacof,
    "classical MDS": classical,
    "average linkage": linkage,
    **OURS,
}
COMPLETERS: dict[str, Method] = {
    "row means": by_means,
    "shortest path": by_paths,
    **PUBLISHED,
    "MDS, filled by row means": on_filled(smacof, by_means),
    "MDS, filled by paths": on_filled(smacof, by_paths),
    "classical MDS, filled by means": on_filled(classical, by_means),
    "Soft-Impute": soft_impute,
    "Vivaldi, 3-D and heights": vivaldi,
    **OURS,
}


def repeats(folder: Path, numbers: Sequence[int], names: Sequence[str]) -> None:
    """Print the table of PlanetLab."""
    found = planetlab(folder)
    slices = list(found.values())
    errors: dict[str, list[tuple[float, ...]]] = {}
    seconds: dict[str, float] = {}
    for number in numbers:
        at = list(found).index(number)
        known = np.where(np.eye(len(slices[at]), dtype=bool), 0.0, slices[at])
        for name in names:
            began = time.process_time()
            distance = DENOISERS[name](known, number)
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - began
            errors.setdefault(name, []).append(repeat_errors(slices, at, distance))
        bound = levelled_by_truth(slices, at)
        errors.setdefault("(raw, each host levelled by the truth)", []).append(
            repeat_errors(slices, at, bound)
        )
    raw = np.mean(errors["raw"], axis=0)
    rows = []
    for name, values in errors.items():
        mean = np.mean(values, axis=0)
        rows.append(
            (
                name,
                f"{mean[0]:.1f}",
                f"{mean[0] / raw[0] - 1:+.1%}",
                f"{mean[1]:.2%}",
                f"{mean[2]:.2f}",
                f"{mean[2] / raw[2] - 1:+.1%}",
                f"{mean[3]:.2%}",
                f"{seconds[name] / len(numbers):.0f}" if name in seconds else "-",
            )
        )
    print(
        f"PlanetLab-490, slices {', '.join(map(str, numbers))}, each against the median of the other four\n"
    )
    columns = ("varying tenth: error, ms", "to raw", "median", "all links: error, ms", "to raw", "median")
    table(("method", *columns, "CPU s"), rows)


def completed(folder: Path, seeds: range, names: Sequence[str]) -> None:
    """Print the table of WonderProxy."""
    matrix = wonderproxy(folder)
    errors: dict[str, list[float]] = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    for seed in seeds:
        known, both, hidden = hide(matrix, share=HIDDEN, seed=seed)
        for name in names:
            began = time.process_time()
            distance = COMPLETERS[name](known, seed)
            seconds[name] += time.process_time() - began
            errors[name].append(hidden_error(distance, both, hidden))
    rows = [
        (
            name,
            f"{np.mean(values):.2%}",
            f"{min(values):.2%} to {max(values):.2%}",
            f"{seconds[name] / len(values):.0f}",
        )
        for name, values in errors.items()
    ]
    noise = direction_noise(check_matrix(matrix))
    scale = prepare(check_matrix(matrix), larger_direction=False).scale_s
    print(
        f"WonderProxy, {len(matrix)} hosts, {HIDDEN:.0%} of the pairs hidden, seeds {seeds[0]} to {seeds[-1]}; "
        f"median {scale:.0f} ms, the two directions differ by {noise:.1%}\n"
    )
    table(("method", "median relative error", "range", "CPU s"), rows)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the data sets (default: the variable NETPROBE_DATA)")
    parser.add_argument("--choosing", action="store_true", help="the slices and seeds methods were chosen on")
    parser.add_argument("--seeds", type=int, default=3, help="choices of hidden links (default 3)")
    parser.add_argument("--only", choices=("planetlab", "wonderproxy"))
    parser.add_argument("--methods", nargs="+", default=[""], help="words; methods whose names hold one")
    options = parser.parse_args()
    name = options.data or os.environ.get("NETPROBE_DATA")
    if not name or not Path(name).is_dir():
        parser.error(
            f"no folder of data sets ({name or 'none named'}): name one with --data or NETPROBE_DATA"
        )
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least 1")
    folder = Path(name)
    slices = CHOOSING_SLICES if options.choosing else REPORTED_SLICES
    first = CHOOSING_SEEDS if options.choosing else REPORTED_SEEDS
    heading(
        f"Real matrices. Methods were chosen on the slices {CHOOSING_SLICES} and on seeds from {CHOOSING_SEEDS} on."
    )
    wanted = [name for name in DENOISERS if name == "raw" or any(w in name for w in options.methods)]
    try:
        if options.only != "wonderproxy":
            repeats(folder, slices, wanted)
        wanted = [name for name in COMPLETERS if any(word in name for word in options.methods)]
        if options.only != "planetlab":
            completed(folder, range(first, first + options.seeds), wanted)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

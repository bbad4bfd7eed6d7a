"""Matrices of links as tables of pandas and data sets of xarray, where these are installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import PlatformError
from netprobe.core.system.install import package_command

if TYPE_CHECKING:
    import pandas
    import xarray


def links_frame(
    names: Sequence[str], columns: Mapping[str, FloatMatrix], *, labels: Mapping[str, Sequence[str]]
) -> pandas.DataFrame:
    """A row for each directed link, in the order of ``names``: ``src``, ``dst``, and a column for each matrix.

    columns: (N, N) each, ``[src, dst]``, NaN where nothing was read. ``labels``: texts of the hosts, each of which
    makes two columns, ``src_KEY`` and ``dst_KEY``. Raises PlatformError without pandas.
    """
    pandas = _found("pandas")
    size = len(names)
    src, dst = np.nonzero(~np.eye(size, dtype=bool))
    hosts = np.array(names, dtype=object)
    data: dict[str, Any] = {"src": hosts[src], "dst": hosts[dst]}
    for key, texts in labels.items():
        of = np.array(texts, dtype=object)
        data |= {f"src_{key}": of[src], f"dst_{key}": of[dst]}
    data |= {key: np.asarray(matrix)[src, dst] for key, matrix in columns.items()}
    return pandas.DataFrame(data)


def links_dataset(
    names: Sequence[str],
    columns: Mapping[str, FloatMatrix],
    *,
    labels: Mapping[str, Sequence[str]],
    attributes: Mapping[str, str],
) -> xarray.Dataset:
    """A variable for each matrix, on the dimensions ``src`` and ``dst``; ``labels`` are coordinates of both.

    The unit of a variable, which its name ends with, is its attribute ``units``. Raises PlatformError without xarray.
    """
    xarray = _found("xarray")
    coordinates: dict[str, Any] = {"src": list(names), "dst": list(names)}
    for key, texts in labels.items():
        coordinates |= {f"{end}_{key}": (end, list(texts)) for end in ("src", "dst")}
    variables = {
        key: (("src", "dst"), np.array(matrix), {"units": unit_of(key)}) for key, matrix in columns.items()
    }
    return xarray.Dataset(variables, coords=coordinates, attrs=dict(attributes))


def unit_of(key: str) -> str:
    """Of a column: ``s``, ``s/B``, ``B/s``, or ``1``."""
    name = key.partition(":")[0]
    units = {"_s_per_byte": "s/B", "_bytes_per_s": "B/s", "_ratio": "1", "_s": "s"}
    return next((unit for end, unit in units.items() if name.endswith(end)), "1")


def _found(package: str) -> Any:
    """Raises PlatformError where a package is not there, or does not load."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise PlatformError(f"{package} cannot be loaded ({error}): {package_command(package)}") from None

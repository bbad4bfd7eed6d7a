"""Which array library a fit runs on: numpy, or torch where it is installed. The one module that names torch.

The fit itself is written over the array API standard (Consortium for Python Data API Standards, 2023) with
array-api-compat, so one code runs on both, and a map needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from netprobe.core.errors import PlatformError
from netprobe.core.system.install import install_command

Backend = Literal["auto", "numpy", "torch"]
BACKENDS: tuple[Backend, ...] = ("auto", "numpy", "torch")


def resolve(backend: Backend) -> Literal["numpy", "torch"]:
    """The library to run on. ``auto`` is numpy: quicker than torch on a processor up to thousands of hosts.

    Raises PlatformError when torch was requested and is not installed.
    """
    if backend != "torch":
        return "numpy"
    try:
        import torch  # noqa: F401
    except ImportError:
        raise PlatformError(
            f"this fit needs torch, which is not installed: {install_command('map')}"
        ) from None
    return "torch"


@contextmanager
def arrays(library: Literal["numpy", "torch"]) -> Iterator[Any]:
    """A function from numpy arrays to the library's own, in a setting without gradients.

    torch runs on the first CUDA device where there is one; otherwise on one thread, so that the result does
    not depend on how many it has. The caller's setting is put back.
    """
    if library == "numpy":
        yield np.asarray
        return
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield lambda array: torch.from_numpy(np.array(array)).to(device)
    finally:
        torch.set_num_threads(threads)


def to_numpy(array: Any) -> NDArray[Any]:
    """A numpy copy of an array of either library, of its shape and type."""
    return np.array(array.cpu().numpy() if hasattr(array, "cpu") else array)

"""NumPy's .npy: a square array of numbers. Nothing in it is ever unpickled, and stated sizes are checked."""

from __future__ import annotations

import io
import math

import numpy as np

from netprobe.core.errors import InputError
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix, check_size, of_matrix

MAGIC = b"\x93NUMPY"


def read_npy(content: bytes, *, zeros: str) -> ForeignMatrix:
    """The matrix of a file's bytes. Raises InputError for objects, complex numbers, other shapes or sizes."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, kind = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, kind = np.lib.format.read_array_header_2_0(stream)
        else:
            raise InputError(f"is an .npy of version {version[0]}.{version[1]}: 1.0 and 2.0 are read")
    except InputError:
        raise
    except Exception as error:  # foreign bytes: errors of all kinds, up to those of the parser of the header
        raise InputError(f"is not a readable .npy: {type(error).__name__}") from None
    if kind.hasobject or kind.kind not in "iuf":
        raise InputError(f"holds {'objects' if kind.hasobject else kind}, not numbers")
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"holds an array of shape {shape}: a square matrix is needed")
    check_size(shape[0])
    left = len(content) - stream.tell()
    if left != math.prod(shape) * kind.itemsize:
        raise InputError(f"has {left} bytes for {shape[0]} x {shape[1]} numbers of {kind}: is it truncated?")
    array = np.frombuffer(content, dtype=kind, offset=stream.tell()).reshape(
        shape, order="F" if fortran else "C"
    )
    return of_matrix(array.astype(np.float64), None, zeros=zeros)

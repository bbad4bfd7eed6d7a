"""Other people's matrices of latencies or bandwidths. A format is one file of pure functions.

read.py        the one entry: bytes of a file to a ForeignMatrix, by format or by what it looks like
foreign_matrix.py   what every reader gives: names, and the readings of each link
cells.py       a number, a missing cell, or neither

table.py       a square table: CSV or white space, with or without names
npy.py         NumPy's .npy
long.py        a line a reading: source, destination, value
mpigraph.py    the output of mpiGraph
nccl.py        a CSV of nccl-tests on each pair of hosts
goldpinger.py  the JSON of goldpinger's /check_all
"""

from netprobe.formats.matrix.foreign_matrix import ForeignMatrix
from netprobe.formats.matrix.read import FORMATS, ReadOptions, read_matrix

__all__ = ["FORMATS", "ForeignMatrix", "ReadOptions", "read_matrix"]

"""Other people's matrices of latencies or bandwidths. A format is one file of pure functions.

read.py        the one entry: bytes of a file to a ForeignMatrix, by format or by what it looks like
foreign_matrix.py   what every reader gives: names, and the readings of each link
decode.py      bytes as text: UTF-8, UTF-16
cells.py       a cell: a number, also with a unit or a decimal comma, a missing one, or neither
numbers.py     the cells of a table as numbers of one unit; what a comma means
summaries.py   rows and columns that are the mean, the total .. of the others

table.py       a square table: CSV or white space, with or without names
npy.py         NumPy's .npy
names.py       names of tables as names of hosts
triangle.py    a table of which only half was printed
long.py        one line per reading: source, destination, value
markup.py      tables of Markdown, HTML and terminals, as rows of cells
nested.py      JSON, as rows of cells
mpigraph.py    the output of mpiGraph
nccl.py        a CSV of nccl-tests on each pair of hosts
goldpinger.py  the JSON of goldpinger's /check_all
"""

from netprobe.formats.matrix.foreign_matrix import ForeignMatrix
from netprobe.formats.matrix.read import FORMATS, ReadOptions, read_matrix

__all__ = ["FORMATS", "ForeignMatrix", "ReadOptions", "read_matrix"]

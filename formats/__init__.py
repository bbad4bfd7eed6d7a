"""Other people's formats, in and out. A format is one file of pure functions, text in and text out.

registry.py   names to writers and readers
openmpi.py    hostfiles of Open MPI's mpirun, and its command line
plain.py      one host a line
load.py       hosts from a file of any of these formats, or of netprobe's own
"""

from netprobe.formats.load import load_hosts, read_hosts_text
from netprobe.formats.openmpi import (
    openmpi_command,
    openmpi_ranks,
    read_openmpi_hostfile,
    write_openmpi_hostfile,
)
from netprobe.formats.plain import read_plain_list, write_plain_list
from netprobe.formats.registry import FORMATS, Format, format_named

__all__ = [
    "FORMATS",
    "Format",
    "format_named",
    "load_hosts",
    "openmpi_command",
    "openmpi_ranks",
    "read_hosts_text",
    "read_openmpi_hostfile",
    "read_plain_list",
    "write_openmpi_hostfile",
    "write_plain_list",
]

"""Runs ``-B -c CODE`` as Python would, on a machine that calls itself b for rank 0 and a for rank 1."""

import os
import socket
import sys

socket.gethostname = lambda: "ba"[int(os.environ["OMPI_COMM_WORLD_RANK"])]
exec(sys.argv[-1])

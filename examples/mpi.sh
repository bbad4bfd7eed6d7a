#!/bin/sh
# Measures the hosts of a hostfile (Open MPI's, or one host a line), then starts an MPI program on them, in the order found.
#
#     examples/mpi.sh hostfile ./program --its options
#
#   OUT=first                        the folder of the scan
set -eu

hosts=$1
shift
out=${OUT:-first}

# Exit code 3: a host or a link is missing. The order has all hosts that were measured.
[ -e "$out/plan.json" ] || netprobe scan "$hosts" --out "$out" || [ $? -eq 3 ]

# Without --map-by seq mpirun fills hosts in an order of its own.
exec mpirun --hostfile "$out/hostfile" -np "$(grep -vc '^#' "$out/hostfile")" --map-by seq --bind-to none "$@"

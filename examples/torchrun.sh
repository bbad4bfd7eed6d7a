#!/bin/sh
# Measures the hosts of a file (one host a line, any name that ssh knows), then starts a PyTorch job on them by torchrun,
# in the order found. The folder of a scan is kept: the next start takes the order from it.
#
#     examples/torchrun.sh hosts train.py --epochs 3
#
#   OUT=first                        the folder of the scan
#   PER_HOST=8                       processes a host, one for each GPU
#   SETUP='. venv/bin/activate'      what a host's shell runs before torchrun
#   INTERFACE=eth0                   the interface for Gloo and NCCL, where hosts have several networks
set -eu

hosts=$1
shift
out=${OUT:-first}

# Exit code 3: a host or a link is missing. The order has all hosts that were measured.
[ -e "$out/plan.json" ] || netprobe scan "$hosts" --out "$out" || [ $? -eq 3 ]

if [ -n "${INTERFACE:-}" ]; then
    export GLOO_SOCKET_IFNAME="$INTERFACE" NCCL_SOCKET_IFNAME="$INTERFACE"
    exec netprobe launch "$out" --env GLOO_SOCKET_IFNAME --env NCCL_SOCKET_IFNAME --setup "${SETUP:-:}" \
        -- torchrun --nproc-per-node="${PER_HOST:-1}" "$@"
fi
exec netprobe launch "$out" --setup "${SETUP:-:}" -- torchrun --nproc-per-node="${PER_HOST:-1}" "$@"

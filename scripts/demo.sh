#!/usr/bin/env bash
# The whole chain on a lab: 16 hosts in racks of 6, 6 and 4 under shuffled names, uplinks oversubscribed 4:1, are
# probed with real packets, grouped and ordered; the groups are held against the truth, and the order is run
# against the given one. scripts/demo.sh [SEED]
#
# Succeeds when the found groups equal the racks (ARI 1.00) and the ring crosses between racks no more
# often than there are racks, within three attempts.
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${1:-1}
attempts=3
lab=oversubscribed-6-6-4
out=demo-out

say() { printf 'demo: %s\n' "$*"; }
fail() {
    say "$*" >&2
    exit 1
}

[[ $seed =~ ^[0-9]+$ ]] || fail "SEED is a whole number, not '$seed'"

as_root=()
if [ "$(id -u)" != 0 ]; then
    if unshare -Urnmp --fork --mount-proc true 2>/dev/null; then
        : # netprobe makes the lab in namespaces of this user's own, and says what that costs
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    elif command -v sudo >/dev/null && [ -t 0 ] && [ -t 2 ]; then
        say "this machine lets only root make the lab's network namespaces: sudo may ask for your password"
        as_root=(sudo)
    else
        fail "this machine lets only root make the lab's network namespaces, and sudo does not work here: run it as root"
    fi
fi

# What an earlier demo left is the demo's own.
rm -rf "$out" "$out"-attempt-* || fail "cannot remove an earlier $out (whose is it?): remove it, then try again"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Files that root wrote go to the user who asked for them.
hand_over() {
    if [ ${#as_root[@]} -gt 0 ] && [ -d "$out" ]; then
        "${as_root[@]}" chown -R "$(id -u):$(id -g)" "$out"
    fi
}

settings=(PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1)
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    # The output passes through tee, and is still for a terminal.
    settings+=(FORCE_COLOR=1 "COLUMNS=$(tput cols 2>/dev/null || echo 100)")
fi

for ((attempt = 1; attempt <= attempts; attempt++)); do
    command=(.venv/bin/netprobe scan --lab "$lab" --seed "$seed" --out "$out")
    say "attempt $attempt of $attempts: netprobe ${command[*]:1}"
    status=0
    "${as_root[@]}" env "${settings[@]}" "${command[@]}" | tee -i "$log" || status=$?
    hand_over
    case $status in
    2) fail "netprobe refused its input (exit code 2)" ;;
    130 | 143) exit "$status" ;;
    esac

    # "against the lab's truth: ARI 1.00, 3 crossings of the ring for 3 racks"
    verdict=$(grep -oE 'ARI .* crossings? of the ring for [0-9]+ racks?' "$log" | tail -n 1) || true
    read -r _ ari crossings _ _ _ _ _ racks _ <<<"${verdict//,/}" || true
    if [ "$status" = 0 ] && [ "${ari:-}" = 1.00 ] && [ "${crossings:-0}" -le "${racks:-0}" ]; then
        say "the files are in $PWD/$out:"
        for file in "$out"/*; do
            say "  ${file##*/}"
        done
        printf 'ARI %s on attempt %d of %d\n' "$ari" "$attempt" "$attempts"
        exit 0
    fi
    say "attempt $attempt gave ${verdict:-no verdict} (exit code $status)" >&2
    if [ -d "$out" ]; then
        mv "$out" "$out-attempt-$attempt"
        say "its files are in $out-attempt-$attempt" >&2
    fi
done
fail "the racks were not found in $attempts attempts"

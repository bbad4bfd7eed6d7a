#!/bin/sh
# Run the tests. scripts/test.sh all|fast|long [PYTEST ARGUMENT...]
#
# all: tests without a lab in parallel, then labs one at a time (a second lab on the same cores, or a busy
# neighbour, would spoil their timing). fast: of the first part those that take less than a second each. long: both parts, with the tests marked `long`.
# With arguments for pytest, all and long are one plain run. Fails when either part fails.
set -u
cd "$(dirname "$0")/.." || exit 1
which=${1:-all}
[ $# = 0 ] || shift
case $which in
all | fast) ;;
long) export NETPROBE_TESTS=long ;;
*)
    echo "usage: scripts/test.sh [all|fast|long] [PYTEST ARGUMENT...]" >&2
    exit 2
    ;;
esac

# Workers wait for processes and timeouts half of the time: one more than there are cores.
workers=$(($(getconf _NPROCESSORS_ONLN) + 1))
[ "$workers" -le 8 ] || workers=8
pytest=.venv/bin/pytest

if [ "$which" = fast ]; then
    exec "$pytest" -n "$workers" -m "not lab and not slow" "$@"
elif [ $# -gt 0 ]; then
    exec "$pytest" "$@"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
color=no
[ ! -t 1 ] || color=yes

# part NAME PYTEST ARGUMENT...: leaves the exit status and pytest's closing line in $folder.
part() {
    name=$1
    shift
    {
        "$pytest" --color="$color" "$@"
        echo $? >"$folder/$name.status"
    } | tee "$folder/$name.log"
    tail -n 1 "$folder/$name.log" >"$folder/$name.last"
    return "$(cat "$folder/$name.status")"
}

status=0
part parallel -n "$workers" -m "not lab" || status=1
part labs -m lab || status=1

# Both closing lines at the end; a failure stands last.
printf '\ntests without a lab, then labs:\n'
if [ "$(cat "$folder/parallel.status")" = 0 ]; then
    cat "$folder/parallel.last" "$folder/labs.last"
else
    cat "$folder/labs.last" "$folder/parallel.last"
fi
exit "$status"

#!/bin/sh
# Run the tests. scripts/test.sh all|fast|long [PYTEST ARGUMENT...]
#
# all: tests without a lab in parallel, and at the same time, one by one, the labs that wait more than they work; then,
# alone, the labs whose timing a busy neighbour would spoil (marked `quiet`); a table says where the time went. fast: of
# the tests without a lab those that take less than a second each. long: all parts, with the tests marked `long` and new
# random examples, whose seed is printed. With arguments for pytest, all and long are one plain run. Fails when any part
# fails.
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

# One more than there are cores: many tests wait for processes that they started. Neighbours stay with one worker
# (worksteal), for they share fixtures, until one has nothing left and takes from another.
workers=$(($(getconf _NPROCESSORS_ONLN) + 1))
[ "$workers" -le 8 ] || workers=8
spread="--dist worksteal"
pytest=.venv/bin/pytest

if [ "$which" = fast ]; then
    # shellcheck disable=SC2086
    exec "$pytest" -n "$workers" $spread -m "not lab and not slow" "$@"
fi

if [ "$which" = long ]; then
    case " $* " in
    *" --hypothesis-seed="*) ;;
    *)
        seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
        echo "random examples of the seed $seed; again: make test-long PYTEST_ARGS=--hypothesis-seed=$seed"
        [ $# = 0 ] || exec "$pytest" --hypothesis-seed="$seed" "$@"
        set -- --hypothesis-seed="$seed"
        ;;
    esac
    [ "$#" = 1 ] || exec "$pytest" "$@"
elif [ $# -gt 0 ]; then
    exec "$pytest" "$@"
fi

# Arguments that are left, a seed at most, are for each part.

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
        NETPROBE_TEST_TIMES="$folder/$name.times" "$pytest" --color="$color" "$@"
        echo $? >"$folder/$name.status"
    } | tee "$folder/$name.log"
    tail -n 1 "$folder/$name.log" >"$folder/$name.last"
}

NETPROBE_TEST_TIMES="$folder/labs.times" "$pytest" --color="$color" "$@" -m "lab and not quiet" >"$folder/labs.log" 2>&1 &
labs=$!
trap 'kill "$labs" 2>/dev/null; rm -rf "$folder"' EXIT
# shellcheck disable=SC2086
part parallel -n "$workers" $spread -m "not lab" "$@"
wait "$labs"
echo $? >"$folder/labs.status"
trap 'rm -rf "$folder"' EXIT
cat "$folder/labs.log"
tail -n 1 "$folder/labs.log" >"$folder/labs.last"
part quiet -m quiet "$@"

echo
.venv/bin/python scripts/test_times.py "without a lab=$folder/parallel.times" \
    "labs beside=$folder/labs.times" "labs alone=$folder/quiet.times"

# The closing lines at the end; those of failures are last.
printf '\ntests without a lab, labs at the same time, labs alone:\n'
status=0
for wanted in passed failed; do
    for name in parallel labs quiet; do
        case $(cat "$folder/$name.status") in
        0) [ $wanted = failed ] || cat "$folder/$name.last" ;;
        *)
            status=1
            [ $wanted = passed ] || cat "$folder/$name.last"
            ;;
        esac
    done
done
exit "$status"

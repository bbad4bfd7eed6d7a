#!/bin/sh
# Print one table of the README, or list the tables. scripts/bench.sh NAME [OPTION...] runs bench/NAME.py.
set -eu
cd "$(dirname "$0")/.."
table=${1:-}

if [ -n "$table" ] && [ -f "bench/$table.py" ]; then
    scripts/setup.sh test
    shift
    exec .venv/bin/python "bench/$table.py" "$@"
fi

[ -z "$table" ] || printf 'bench: there is no table %s\n' "$table" >&2
echo "tables, each with \`make bench TABLE=name\`:"
for file in bench/*.py; do
    name=${file##*/}
    name=${name%.py}
    case $name in _* | '*') continue ;; esac
    # The first line of the script's docstring says what its table shows.
    printf '  %-20s %s\n' "$name" "$(sed -n '/^"""/{s/^"""//;s/"""$//;p;q;}' "$file")"
done
[ -z "$table" ] || exit 2

#!/bin/sh
# Every check of the code that is not a test. Runs them all, then says which failed.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=

# check NAME COMMAND...
check() {
    name=$1
    shift
    printf '== %s\n' "$name"
    "$@" || failed="$failed, $name"
}

check "ruff check" .venv/bin/ruff check .
check "ruff format" .venv/bin/ruff format --check .
check "mypy" .venv/bin/mypy
# A script finds what lies next to it.
check "mypy, scripts and bench" env MYPYPATH=bench .venv/bin/mypy --explicit-package-bases scripts bench
check "layers" .venv/bin/lint-imports
check "imports" .venv/bin/python scripts/check_imports.py
check "sizes" .venv/bin/python scripts/check_sizes.py
check "the agent on Python 3.8" .venv/bin/vermin --quiet --target=3.8- --no-tips --violations probe/agent
check "published schemas" .venv/bin/python scripts/check_schemas.py
if command -v shellcheck >/dev/null 2>&1; then
    check "shellcheck" shellcheck scripts/*.sh .ci/run
fi

if [ -n "$failed" ]; then
    printf 'check: failed: %s\n' "${failed#, }" >&2
    exit 1
fi
echo "check: all good"

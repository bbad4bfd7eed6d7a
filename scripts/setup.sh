#!/bin/sh
# All the set-up netprobe needs from a bare clone on Debian or Ubuntu: system packages, the virtual
# environment .venv, the Python packages. Idempotent, and quick when there is nothing to do.
#
#   scripts/setup.sh demo     what `make demo` needs: Python, a C compiler, iproute2, util-linux
#   scripts/setup.sh test     everything, for the tests, the checks and the benchmarks (the default)
#
# Environment:
#   PYTHON=/path/to/python3   the interpreter for .venv (3.10 or later; python3 by default)
#   TORCH_INDEX=URL           where to get torch, instead of pip's own settings
#   NO_APT=1                  install no system package, only say what is missing
#
# System packages are listed before anything is installed. No system service is started or enabled.
set -eu

# An ordinary user's PATH has no sbin on Debian, and sshd and ip live there.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

say() { printf 'setup: %s\n' "$*"; }
warn() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    warn "$*"
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# ---------------------------------------------------------------- as root: install system packages
# Runs in a process of its own (under sudo where needed), so that its trap covers the whole install.

POLICY=/usr/sbin/policy-rc.d
POLICY_ASIDE=/usr/sbin/policy-rc.d.before-netprobe
POLICY_MARK='# netprobe set-up: no service starts during this install'

restore_policy() {
    if [ -e "$POLICY" ] && grep -qxF "$POLICY_MARK" "$POLICY"; then
        rm -f "$POLICY"
    fi
    if [ -e "$POLICY_ASIDE" ] || [ -L "$POLICY_ASIDE" ]; then
        mv -f "$POLICY_ASIDE" "$POLICY"
    fi
}

deny_services() {
    restore_policy # what an install that was killed has left
    if [ -e "$POLICY" ] || [ -L "$POLICY" ]; then
        mv "$POLICY" "$POLICY_ASIDE"
    fi
    printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" >"$POLICY"
    chmod 755 "$POLICY"
}

# Everything that would start at boot: systemd's links, and the start links of System V.
boot_links() {
    find /etc/systemd/system /etc/systemd/user /etc/rc[2345S].d -type l ! -lname /dev/null \
        \( -path '/etc/systemd/*' -o -name 'S[0-9][0-9]*' \) 2>/dev/null | LC_ALL=C sort
}

# A package enables its service when it is configured. Undo that for what was not enabled before.
disable_new_services() {
    boot_links >"$scratch/after"
    LC_ALL=C comm -13 "$scratch/before" "$scratch/after" >"$scratch/new"
    while IFS= read -r link; do
        name=${link##*/}
        case $link in
        /etc/rc*)
            name=${name#S[0-9][0-9]}
            # Only for a script that had no start link at all: a runlevel of its own is its owner's.
            if ! grep -q "/S[0-9][0-9]$name\$" "$scratch/before" && have update-rc.d; then
                update-rc.d "$name" disable >/dev/null 2>&1 || true
            fi
            ;;
        *)
            # The links are all that "enabled" means; taken away by hand, they stay away on upgrades.
            rm -f "$link"
            case $link in *.wants/* | *.requires/*) rmdir "${link%/*}" 2>/dev/null || true ;; esac
            ;;
        esac
    done <"$scratch/new"
    if [ -d /run/systemd/system ] && [ -s "$scratch/new" ]; then
        systemctl daemon-reload >/dev/null 2>&1 || true
    fi
}

leave_as_found() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM
    restore_policy || true
    disable_new_services || true
    rm -rf "$scratch"
    exit "$status"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 UCF_FORCE_CONFFOLD=1 \
        apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends --no-remove "$@" \
        </dev/null >"$scratch/log" 2>&1
}

install_packages() {
    scratch=$(mktemp -d)
    boot_links >"$scratch/before"
    trap leave_as_found EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    deny_services
    apt-get -o DPkg::Lock::Timeout=300 -qq update </dev/null >"$scratch/log" 2>&1 ||
        warn "apt-get update failed; trying with the package lists at hand"
    for package; do
        if [ "$package" = iperf3 ] && have debconf-set-selections; then
            echo 'iperf3 iperf3/start_daemon boolean false' | debconf-set-selections || true
        fi
    done
    if ! apt_install "$@"; then
        # One name that this release lacks must not cost the others.
        for package; do
            apt_install "$package" || {
                warn "apt-get could not install $package:"
                tail -n 3 "$scratch/log" >&2
            }
        done
    fi
}

if [ "${1:-}" = --install ]; then
    shift
    install_packages "$@"
    exit 0
fi

# ---------------------------------------------------------------------------------- what is missing

case ${1:-test} in
demo | test) target=${1:-test} ;;
*) fail "usage: scripts/setup.sh [demo|test]" ;;
esac

cd "$(dirname "$0")/.."
root=$(pwd -P)
venv_python=$root/.venv/bin/python
nl='
'

# One set-up of a clone at a time; the script itself is the lock.
if have flock; then
    exec 9<scripts/setup.sh
    flock 9
fi

recent_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }
makes_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# The first interpreter that can make a virtual environment, or else the first that is recent enough.
choose_python() {
    python=
    if [ -n "${PYTHON:-}" ]; then
        have "$PYTHON" || fail "PYTHON=$PYTHON is not a command"
        recent_enough "$PYTHON" || fail "PYTHON=$PYTHON is not Python 3.10 or later"
        python=$PYTHON
        return
    fi
    for wanted in makes_venvs recent_enough; do
        for candidate in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10 python3.14; do
            if have "$candidate" && recent_enough "$candidate" && "$wanted" "$candidate"; then
                python=$candidate
                return
            fi
        done
    done
}

compiles() {
    compiler=cc
    have cc || compiler=gcc
    have "$compiler" &&
        printf '#include <stdio.h>\n#include <linux/if_packet.h>\nint main(void) { return 0; }\n' |
        "$compiler" -fsyntax-only -x c - >/dev/null 2>&1
}

# lack PACKAGE LEVEL WITHOUT: note that PACKAGE is missing, and what does not work without it.
lack() {
    missing="$missing $1"
    [ "$2" = optional ] || required="$required $1"
    reasons="$reasons  $1: $3$nl"
}

# need PACKAGE LEVEL WITHOUT COMMAND...
need() {
    package=$1 level=$2 without=$3
    shift 3
    for command; do
        if ! have "$command"; then
            lack "$package" "$level" "$without"
            return
        fi
    done
}

find_missing() {
    missing='' required='' reasons=''
    choose_python
    if [ -z "$python" ]; then
        lack python3 required "nothing runs without Python 3.10 or later"
        lack python3-venv required "no virtual environment"
    elif ! makes_venvs "$python"; then
        # Only Debian's own interpreters come without venv, and each has a package of its own for it.
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        lack "python$version-venv" required "no virtual environment"
    fi
    lab=optional
    [ "$target" = test ] || lab=required
    if ! compiles; then
        lack gcc "$lab" "no lab (its switch is compiled when the lab comes up)"
        lack libc6-dev "$lab" "no lab (its switch is compiled when the lab comes up)"
    fi
    need iproute2 "$lab" "no lab" ip
    need util-linux "$lab" "no lab" nsenter unshare chrt
    [ "$target" = test ] || return 0
    need procps optional "tests that look for left-over processes are skipped" ps pgrep
    need openssh-client optional "no --via ssh; its tests are skipped" ssh ssh-keygen
    need openssh-server optional "no sshd in a lab; the ssh tests are skipped" sshd
    need iperf3 optional "no goodput probe by iperf3; its tests are skipped" iperf3
    need fping optional "no fping method; its tests and its column in the tables are skipped" fping
    need tmux optional "no terminal is recorded; the tests of what it shows are skipped" tmux
    need groff-base optional "manual pages are not set by the tests" groff
    need iputils-ping optional "no ping to compare with in the tables" ping
    need openmpi-bin optional "the tests that start a job with mpirun are skipped" mpirun
    need slurm-wlm optional "the tests that start agents with srun are skipped" srun slurmctld slurmd
    need munge optional "the tests that start agents with srun are skipped" munged
}

# How to become root, in $sudo; false when there is no way.
find_sudo() {
    sudo=''
    [ "$(id -u)" != 0 ] || return 0
    have sudo || return 1
    if sudo -n true 2>/dev/null; then
        sudo='sudo -n'
    elif [ -t 0 ] && [ -t 2 ]; then
        sudo=sudo
    else
        return 1
    fi
}

add_system_packages() {
    find_missing
    [ -n "$missing" ] || return 0
    # What could not be had last time is not tried again by every `make`.
    if [ "$missing" = "$(cat .venv/.setup-missing 2>/dev/null)" ] && [ -z "$required" ]; then
        say "still missing (as after the last set-up):$missing"
        return 0
    fi
    say "missing system packages:"
    printf '%s' "$reasons" | sed 's/:.*//'
    cannot=
    if [ -n "${NO_APT:-}" ]; then
        cannot="NO_APT is set"
    elif ! have apt-get; then
        cannot="there is no apt-get here"
    elif ! find_sudo; then
        cannot="this user is not root and sudo does not work here"
    fi
    if [ -z "$cannot" ]; then
        say "installing them with ${sudo:+$sudo }apt-get; no service is started or enabled"
        # shellcheck disable=SC2086 # a list of package names, and a command with its option
        $sudo sh scripts/setup.sh --install $missing 9<&- ||
            warn "the install of system packages did not finish"
        find_missing
    else
        warn "cannot install them: $cannot"
    fi
    [ -n "$missing" ] || return 0
    if [ -n "$required" ]; then
        fail "cannot go on without:$required (on Debian or Ubuntu, as root: apt-get install$required)"
    fi
    warn "going on without:"
    printf '%s' "$reasons" >&2
}

# ------------------------------------------------------------------------- the virtual environment

# Is .venv usable, made for this very path (a moved or copied clone has another's in its scripts)?
venv_stands() {
    recent_enough "$venv_python" || return 1
    grep -qF "$root/.venv/bin/" .venv/bin/pip 2>/dev/null || return 1
    [ -n "${PYTHON:-}" ] || return 0
    asks='import sys; print(sys.version_info[:3], sys.base_prefix)'
    [ "$("$venv_python" -c "$asks")" = "$("$PYTHON" -c "$asks")" ]
}

make_venv() {
    if [ -e .venv ] && [ ! -e .venv/pyvenv.cfg ] && ! rmdir .venv 2>/dev/null; then
        fail "$root/.venv is not a virtual environment: move it away"
    fi
    # The interpreter behind a shim or behind an active environment, which may be the one replaced.
    base=$("$python" -c 'import sys; print(getattr(sys, "_base_executable", "") or sys.executable)')
    say "making .venv with $base"
    # Through a link, --clear would empty the environment of another checkout.
    [ ! -L .venv ] || rm .venv
    "$base" -m venv --clear .venv || fail "$base could not make .venv"
}

pip() { "$venv_python" -m pip "$@"; }

# On Linux on x86-64 the index's plain torch is the CUDA build, of several GB with its libraries; a wheel
# marked +cpu (from pip's own settings) is not. uv knows where the CPU build is.
torch_is_cuda() {
    [ "$(uname -sm)" = "Linux x86_64" ] || return 1
    pip install --quiet --dry-run --no-deps --report "$scratch/report" -c constraints.txt torch \
        >/dev/null 2>&1 || return 1
    "$venv_python" -c 'import json, sys
with open(sys.argv[1]) as file:
    versions = [item["metadata"]["version"] for item in json.load(file)["install"]]
sys.exit(not versions or any("+cpu" in version for version in versions))' "$scratch/report"
}

install_cpu_torch() {
    uv=uv
    if ! have uv; then
        pip install --quiet --target "$scratch/uv" uv >/dev/null 2>&1 || return 1
        uv=$scratch/uv/bin/uv
    fi
    "$uv" pip install --quiet --python "$venv_python" --torch-backend cpu -c constraints.txt torch
}

install_torch() {
    pin=$(sed -n 's/^torch==//p' constraints.txt)
    ! "$venv_python" -c 'import importlib.metadata as m, sys
sys.exit(m.version("torch").split("+")[0] != sys.argv[1])' "$pin" 2>/dev/null || return 0
    say "installing torch, alone and first: 1 GB on the disk, and minutes to download"
    if [ -z "${TORCH_INDEX:-}" ] && torch_is_cuda; then
        ! install_cpu_torch || return 0
        warn "no CPU build of torch was found, so the CUDA build of several GB is taken; to stop that, set"
        warn "TORCH_INDEX to the CPU index that PyTorch's own installation page gives"
    fi
    # shellcheck disable=SC2086 # $quiet is one option or none
    pip install $quiet --no-compile -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch ||
        fail "pip could not install torch (see above)"
}

# Git on a system without symbolic links leaves small text files in their place.
links_work() { [ -d netprobe/core ] && [ -d netprobe/cli ]; }

add_python_packages() {
    want="$(cat pyproject.toml setup.py constraints.txt scripts/setup.sh | cksum) $root"
    if venv_stands; then
        for done in test "$target"; do
            [ "$(cat ".venv/.setup-$done" 2>/dev/null)" != "$want" ] || return 0
        done
    else
        make_venv
    fi
    rm -f .venv/.setup-test .venv/.setup-demo
    extras=
    [ "$target" = demo ] || extras=map,icmp,fast,dev
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    quiet=-qq
    [ ! -t 1 ] || quiet=
    [ "$target" = demo ] || install_torch
    editable=--editable
    links_work || editable=
    say "installing netprobe${extras:+ with its extras: $extras}"
    # shellcheck disable=SC2086 # each is one option or none
    pip install $quiet --no-compile -c constraints.txt $editable ".${extras:+[$extras]}" ||
        fail "pip could not install netprobe's packages (see above)"
    # pip compiles on one core, and an import would for each process again where root runs in a user's clone.
    "$venv_python" -m compileall -qq -j 0 -x '/tests?/' .venv/lib || true
    if links_work; then
        printf '%s\n' "$want" >".venv/.setup-$target"
    else
        say "this clone has no symbolic links, so a copy was installed: set up again after a change"
    fi
    say "ready"
}

# The caller's Python and pip settings for other projects must not reach into .venv.
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV || true
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
export PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT

add_system_packages
add_python_packages
if [ "$missing" != "$(cat .venv/.setup-missing 2>/dev/null)" ]; then
    printf '%s\n' "$missing" >.venv/.setup-missing
fi

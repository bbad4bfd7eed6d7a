"""Node lists of Slurm, and the hosts of the job that netprobe runs in.

An expression is a list of names with ranges: ``rack[0-1]-n[08-10],c1a-s[11,17]``. What scontrol of Slurm 22.05
does with one, tried with it, is what happens here: the order and repeated names are kept, the last bracket runs
fastest, leading zeros count (``n1`` is not ``n01``), and a reversed range is an error. Two things differ.
Slurm refuses text behind the last bracket (``x[1-2]-ib``), which is read here; and it makes something of
broken brackets and of blanks inside them (``n[1-``, ``n[1, 2]``), which are refused here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from netprobe.core.errors import HostsError, InputError
from netprobe.core.hosts import MAX_HOSTS, MAX_SLOTS, Host, check_hosts, make_host
from netprobe.core.naming import MAX_EXPRESSION_LENGTH, expand_ranges, split_list
from netprobe.formats.format import Format

LIST_VARIABLES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
TASKS_VARIABLE = "SLURM_TASKS_PER_NODE"
_DIGITS = 9
_BLANK_INSIDE = re.compile(r"\[[^\[\]]*\s")
_TASKS = re.compile(r"([0-9]{1,7})(?:\(x([0-9]{1,7})\))?")


def expand_nodelist(expression: str, *, source: str | None = None) -> tuple[str, ...]:
    """Names of an expression, in its order, with repeated names repeated. Raises HostsError."""
    names: list[str] = []
    try:
        if len(expression) > MAX_EXPRESSION_LENGTH:
            raise HostsError(f"node list of {len(expression)} characters is too long")
        if _BLANK_INSIDE.search(expression):
            raise HostsError(f"blank inside the brackets of {expression[:60]!r}")
        for item in split_list(expression):
            names += expand_ranges(item)
            if len(names) > MAX_HOSTS:
                raise HostsError(f"the node list names more than {MAX_HOSTS} hosts")
    except HostsError as error:
        raise HostsError(str(error), source=source) from None
    return tuple(names)


def write_nodelist(names: Sequence[str]) -> str:
    """The expression for ``names``, from which ``expand_nodelist`` gives the same names in the same order.

    Neighbours that count up by one, in as many digits, become a range.
    """
    runs: list[tuple[str, str, str]] = []
    for name in names:
        prefix, digits = _prefix_and_digits(name)
        if runs and digits and prefix and runs[-1][0] == prefix:
            _, first, last = runs[-1]
            if last and len(last) == len(digits) and int(last) + 1 == int(digits):
                runs[-1] = (prefix, first, digits)
                continue
        runs.append((prefix, digits, digits))
    return ",".join(p + (a if a == b else f"[{a}-{b}]") for p, a, b in runs)


def _prefix_and_digits(name: str) -> tuple[str, str]:
    prefix = name.rstrip("0123456789")
    # Numbers of Slurm's have so many digits and no more.
    return (prefix, name[len(prefix) :]) if len(name) - len(prefix) <= _DIGITS else (name, "")


def read_slurm_nodelist(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Hosts of an expression, in its order. Raises HostsError, also for a host that it names twice."""
    names = expand_nodelist(text.removeprefix("\ufeff"), source=source)
    return check_hosts([make_host(name, source=source) for name in names], source=source)


def read_tasks_per_node(text: str, *, source: str | None = None) -> tuple[int, ...]:
    """Tasks of each host: ``2(x3),1`` is 2, 2, 2, 1. Raises HostsError."""
    tasks: list[int] = []
    for item in text.split(","):
        match = _TASKS.fullmatch(item.strip())
        number, times = (int(match[1]), int(match[2] or 1)) if match else (0, 0)
        if not (1 <= number <= MAX_SLOTS and 1 <= times <= MAX_HOSTS - len(tasks)):
            raise HostsError(f"{item[:30]!r} is not a number of tasks such as 4 or 2(x3)", source=source)
        tasks += [number] * times
    return tuple(tasks)


def slurm_hosts(environ: Mapping[str, str]) -> tuple[Host, ...]:
    """Hosts of the Slurm job whose environment this is, with the job's tasks as their slots.

    Slots stay None where the job says none, and in a job step, whose own number of tasks is in the same
    variable. Raises InputError outside a job, and HostsError for variables that contradict each other.
    """
    variable = next((name for name in LIST_VARIABLES if environ.get(name, "").strip()), None)
    if variable is None:
        raise InputError(
            f"no Slurm job here (neither {' nor '.join(LIST_VARIABLES)} is set): run inside salloc or "
            "sbatch, or give the list, as in slurm:n[01-16]"
        )
    if environ.get("SLURM_HET_SIZE", "").strip():
        raise HostsError(
            "the job is heterogeneous, and this list is only its first component: give the whole list, as "
            "in slurm:a[1-4],b[1-2]",
            source=variable,
        )
    names = expand_nodelist(environ[variable], source=variable)
    tasks = _tasks(environ, len(names), variable)
    hosts = [
        make_host(name, source=variable, **({} if count is None else {"slots": count}))
        for name, count in zip(names, tasks)
    ]
    return check_hosts(hosts, source=variable)


def _tasks(environ: Mapping[str, str], hosts: int, variable: str) -> list[int | None]:
    text = environ.get(TASKS_VARIABLE, "").strip()
    if not text:
        return [None] * hosts
    tasks = read_tasks_per_node(text, source=TASKS_VARIABLE)
    if len(tasks) == hosts:
        return list(tasks)
    if environ.get("SLURM_STEP_ID", "").strip():
        return [None] * hosts
    raise HostsError(
        f"speaks of {len(tasks)} hosts and {variable} of {hosts}: unset {TASKS_VARIABLE} to go without slots",
        source=TASKS_VARIABLE,
    )


FORMAT = Format(name="slurm", summary="node list of Slurm", read=read_slurm_nodelist)

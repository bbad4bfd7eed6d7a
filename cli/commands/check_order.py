"""``netprobe check-order``: do the ranks run where the plan puts them?"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netprobe.cli.options.documents import PlanArgument
from netprobe.cli.options.launching import Reach
from netprobe.cli.output import JsonOption, Output, QuietOption
from netprobe.core.units import count

if TYPE_CHECKING:
    from netprobe.formats.rank_output.rank_lines import RankLog
    from netprobe.pipeline.ranks.checking_order import OrderCheck, PlannedRanks

_SHOWN = 20
_BY_MPIRUN = ("openmpi", "rankfile")
_AGENT = re.compile(r"plm_(rsh|ssh)_(agent|args)$")


def check_order(
    ctx: typer.Context,
    plan: PlanArgument,
    extra: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="Arguments for the launcher, as they are.")
    ] = None,
    launcher: Annotated[
        str, typer.Option("--launcher", "-l", help="openmpi, rankfile, mpich, slurm, torchrun, or horovod.")
    ] = "openmpi",
    read: Annotated[
        list[str] | None,
        typer.Option("--read", metavar="FILE", help="What the command printed (- is standard input)."),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Run the command here, and check.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, max=86400, help="Seconds that --run waits.")
    ] = 120.0,
    file: Annotated[
        Path | None, typer.Option("--file", help="The exported file (its usual name in the plan's folder).")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Slots of each host, as they were exported.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="Hosts as they were exported: slots and launcher names.")
    ] = None,
    by_node: Annotated[bool, typer.Option("--by-node", help="The ranks were exported by node.")] = False,
    ssh_config: Annotated[
        Path | None,
        typer.Option(
            "--ssh-config", metavar="FILE", help="For the ssh that mpirun or, for torchrun, netprobe starts."
        ),
    ] = None,
    via: Annotated[
        str | None,
        typer.Option("--via", help="How torchrun's hosts are reached (as the scan did, or ssh)."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Print a command whose ranks say where they run; with --read or --run, compare that with the plan."""
    from netprobe.core.errors import EXIT_OK, EXIT_PARTIAL, InputError
    from netprobe.formats import format_named, load_hosts
    from netprobe.formats.rank_output.rank_program import rank_commands, rank_launcher
    from netprobe.pipeline.ranks.checking_order import check_order as compare
    from netprobe.pipeline.ranks.checking_order import exported_fault, planned_ranks
    from netprobe.pipeline.ranks.rank_output import read_logs, run_for_log
    from netprobe.plan import load_plan

    output = Output(json=json, quiet=quiet)
    ranks_by = rank_launcher(launcher)
    if read and run:
        raise InputError("--read and --run are two sources of the same output: give one of them")
    _check_unused(ctx, reading=bool(read), running=run, extra=extra)
    extra = _launcher_words(extra or [], launcher, via, ssh_config, reading=bool(read), running=run)
    given = load_hosts(hosts) if hosts is not None else None
    planned = planned_ranks(load_plan(plan), hosts=given, slots=slots, by_node=by_node)
    if read:
        log = read_logs(read)
    elif launcher == "torchrun":
        reach = Reach(via=via, ssh_config=ssh_config)
        if not run:
            return _print_torchrun(plan, output, reach, extra, _as_exported(slots, hosts, by_node=False))
        log = _ask_torchrun(planned, plan, reach, extra, slots, timeout, output)
    else:
        path = file or plan.parent / format_named(ranks_by.format).file
        same = _as_exported(slots, hosts, by_node=by_node)
        export = ["netprobe", "export", "hostfile", str(plan), "--format", ranks_by.format, *same]
        export += ["--out", str(file)] if file is not None else []
        fault = exported_fault(planned, ranks_by.format, path, shlex.join(export))
        if not run:
            commands = rank_commands(ranks_by, str(path), planned.hosts, slots=slots, extra=extra)
            return _print_commands(plan, output, launcher, commands, same, fault)
        if fault is not None:
            raise InputError(fault)
        _announce(output, planned, launcher, timeout)
        log = run_for_log(ranks_by, str(path), planned, slots=slots, extra=extra, timeout_s=timeout)
    found = compare(planned, log)
    _show(output, found, ranks_by.name if run else (found.launchers or (launcher,))[0])
    return EXIT_OK if found.good else EXIT_PARTIAL


def _launcher_words(
    extra: list[str],
    launcher: str,
    via: str | None,
    ssh_config: Path | None,
    *,
    reading: bool,
    running: bool,
) -> list[str]:
    """The arguments for the launcher itself. Raises InputError for a way in that it does not take.

    An mpirun that is run here gives its ssh as long to connect as netprobe does: without that it waits for minutes for
    a host that is gone, and says nothing.
    """
    from netprobe.core.errors import InputError
    from netprobe.probe.launchers.ssh import CONNECT_TIMEOUT_S

    if via is not None and (launcher != "torchrun" or reading):
        raise InputError(
            "--via goes with --launcher torchrun, which netprobe starts on each host: leave it out"
        )
    if launcher == "torchrun":
        return extra
    by_ssh = running and launcher in _BY_MPIRUN and not _of_another_agent(extra)
    return [*ssh_arguments(ssh_config, launcher, CONNECT_TIMEOUT_S if by_ssh else None), *extra]


def _of_another_agent(extra: list[str]) -> bool:
    """Whether mpirun is told which program logs in, or with which arguments: then ssh's may not be its."""
    import os

    return any(_AGENT.search(word) for word in [*extra, *os.environ])


def _print_commands(
    plan: Path, output: Output, launcher: str, commands: list[str], same: list[str], fault: str | None
) -> int:
    """Commands for a shell on standard output, and on standard error what to do with them."""
    if fault is not None:
        output.note(f"warning: {fault}")
    output.say("\n".join(commands))
    then = shlex.join(["netprobe", "check-order", str(plan), *same, "--read", "-"])
    output.note(f"then: ... | {then} (or a file of what it printed)")
    output.result({"launcher": launcher, "commands": commands, "warning": fault})
    return 0


def _torchrun_words(extra: list[str]) -> list[str]:
    return ["torchrun", *extra, "--no-python"]


def _print_torchrun(plan: Path, output: Output, reach: Reach, extra: list[str], same: list[str]) -> int:
    """One command for a shell, which starts torchrun on every host."""
    from netprobe.pipeline.launching.asking import ASK

    way = ["--via", reach.via] if reach.via is not None else []
    way += ["--ssh-config", str(reach.ssh_config)] if reach.ssh_config is not None else []
    words = ["netprobe", "launch", str(plan), *same, *way, "--", *_torchrun_words(extra), *ASK]
    return _print_commands(plan, output, "torchrun", [shlex.join(words)], same, None)


def _ask_torchrun(
    planned: PlannedRanks,
    plan: Path,
    reach: Reach,
    extra: list[str],
    slots: int | None,
    time_s: float,
    output: Output,
) -> RankLog:
    """Start torchrun on every host. Raises InputError for a way in that starts all hosts by one command."""
    from netprobe.core.errors import InputError
    from netprobe.pipeline.launching.asking import ask_ranks
    from netprobe.pipeline.launching.running import JobOptions
    from netprobe.pipeline.launching.way_in import way_in
    from netprobe.probe.launchers.exec_launcher import ChildLauncher

    way = way_in(reach.via, plan.parent)
    started_by = replace(reach, via=way).launcher()
    if not isinstance(started_by, ChildLauncher):
        raise InputError(f"--via {way} starts all hosts by one command: give --launcher slurm or openmpi")
    words = _torchrun_words(extra)
    _announce(output, planned, "torchrun", time_s)
    return ask_ranks(planned.hosts, started_by, JobOptions(), slots=slots, time_s=time_s, before=words)


def _announce(output: Output, planned: PlannedRanks, launcher: str, time_s: float) -> None:
    """Launchers say nothing while they connect."""
    ranks, hosts = count(len(planned.places), "rank"), count(len(planned.hosts), "host")
    output.note(f"asking {ranks} on {hosts} by {launcher} where they run, for at most {time_s:g} s")


def _check_unused(ctx: typer.Context, *, reading: bool, running: bool, extra: list[str] | None) -> None:
    """Refuse options that would do nothing. Raises InputError."""
    from netprobe.cli.options.probing import given_on_command_line
    from netprobe.core.errors import InputError

    if extra and not extra[0].startswith("-"):
        raise InputError(
            f"{extra[0]!r} is not an argument for a launcher: give what it printed as --read FILE"
        )
    if not running and given_on_command_line(ctx, "timeout"):
        raise InputError("--timeout is how long --run waits: give --run too, or leave it out")
    useless = [
        f"--{word.replace('_', '-')}" for word in ("file", "by_node") if given_on_command_line(ctx, word)
    ]
    if useless and ctx.params["launcher"] == "torchrun" and not reading:
        raise InputError(
            f"{' and '.join(useless)} cannot go with --launcher torchrun, which reads no file and numbers the ranks of "
            "a host one after another: leave it out"
        )
    idle = [
        f"--{word.replace('_', '-')}" for word in ("file", "ssh_config") if given_on_command_line(ctx, word)
    ]
    idle += ["arguments behind --"] if extra else []
    if reading and idle:
        raise InputError(f"{' and '.join(idle)} go with the command, and --read runs none: leave them out")


def _as_exported(slots: int | None, hosts: str | None, *, by_node: bool) -> list[str]:
    """The options that say how the file was exported."""
    same = ["--slots", str(slots)] if slots is not None else []
    same += ["--hosts", hosts] if hosts is not None else []
    return same + (["--by-node"] if by_node else [])


def ssh_arguments(config: Path | None, launcher: str, connect_s: int | None = None) -> list[str]:
    """mpirun's arguments for its ssh, under both names that versions have for them. Raises InputError."""
    from netprobe.core.errors import InputError

    words = []
    if config is not None:
        if launcher not in _BY_MPIRUN:
            raise InputError(
                f"--ssh-config is for mpirun, and --launcher {launcher} does not use it: give it to that launcher "
                "itself"
            )
        if not config.is_file():
            raise InputError(f"{config}: no such file")
        if any(c.isspace() for c in str(config)):
            raise InputError(
                f"--ssh-config {str(config)!r}: mpirun splits it at blanks: give a path without any"
            )
        words.append(f"-F {config}")
    if connect_s is not None:
        words.append(f"-oConnectTimeout={connect_s}")
    given = " ".join(words)
    return ["--mca", "plm_rsh_args", given, "--mca", "plm_ssh_args", given] if given else []


def _show(output: Output, found: OrderCheck, launcher: str) -> None:
    from netprobe.pipeline.ranks.checking_order import hint_of, lines_of

    lines = lines_of(found)
    hint = hint_of(found, launcher)
    for line in lines[:_SHOWN]:
        output.say(line)
    if len(lines) > _SHOWN:
        output.say(f".. and {len(lines) - _SHOWN} more lines of this kind (--json has all)")
    runs = "runs" if found.size == 1 else "run"
    output.say(f"{found.confirmed} of {count(found.size, 'rank')} {runs} where the plan puts them")
    for note in found.notes:
        output.note(f"note: {note}")
    for line in hint:
        output.say(line)
    output.result(_summary(found, launcher, hint))


def _summary(found: OrderCheck, launcher: str, hint: list[str]) -> dict[str, Any]:
    """What ``--json`` says (docs/ranks.md lists the keys)."""
    from dataclasses import asdict

    return {
        "good": found.good,
        "launcher": launcher,
        "ranks": found.size,
        "confirmed": found.confirmed,
        "displaced": [asdict(entry) for entry in found.displaced],
        "ambiguous": [asdict(entry) | {"hosts": list(entry.hosts)} for entry in found.ambiguous],
        "job_sizes": list(found.job_sizes),
        "missing": list(found.missing),
        "surplus": [{"rank": rank, "actual": host} for rank, host in found.surplus],
        "contradictory": list(found.contradictory),
        "other_local_rank": [
            {"rank": rank, "planned": planned, "actual": actual} for rank, planned, actual in found.local
        ],
        "cause": found.cause,
        "hint": hint,
        "notes": list(found.notes),
    }

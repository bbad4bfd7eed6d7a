"""``netprobe launch``: a job on the plan's hosts, in the plan's order."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netprobe.cli.options.documents import PlanArgument
from netprobe.cli.options.groups import grouped
from netprobe.cli.options.launching import Reach, hinting
from netprobe.cli.output import Output, QuietOption

if TYPE_CHECKING:
    from netprobe.pipeline.launching.running import JobOptions
    from netprobe.pipeline.ranks.checking_order import PlannedRanks
    from netprobe.probe.launchers.exec_launcher import ChildLauncher

ASK_S = 60.0
NOT_FOUND = 127
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is run, and how it ends."""

    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME[=VALUE]", help="Pass this variable on, with its value here or another."
        ),
    ] = None
    check: Annotated[
        bool, typer.Option("--check", help="Ask the ranks where they run first; start only if as planned.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands, and start nothing.")] = False
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Ranks on each host (as the hosts file says, or 1).")
    ] = None
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="The plan's hosts again, with slots and addresses.")
    ] = None
    chdir: Annotated[
        str | None,
        typer.Option("--chdir", metavar="DIR", help="Run there (this folder, on hosts that have it)."),
    ] = None
    master_port: Annotated[
        int, typer.Option("--master-port", min=1, max=65535, help="Port of rank 0, free on its host.")
    ] = 29500
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0, max=86400, help="From SIGTERM to SIGKILL."),
    ] = 10.0

    def options(self, reach: Reach) -> JobOptions:
        """Of a run by our own supervisors."""
        from netprobe.pipeline.launching.running import JobOptions

        return JobOptions(
            grace_s=self.grace,
            start_timeout_s=reach.start_timeout,
            python=reach.python,
            setup=reach.setup,
            folder=self.chdir or here(),
            folder_needed=self.chdir is not None,
        )


@grouped
def launch(
    *,
    plan: PlanArgument,
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGS]", help="What every rank runs, as it is.")
    ] = None,
    job: Job,
    reach: Reach,
    quiet: QuietOption = False,
) -> int:
    """Start a program as the ranks of a plan, on its hosts and in its order."""
    from netprobe.core.errors import EXIT_PARTIAL
    from netprobe.formats import load_hosts
    from netprobe.pipeline.launching.lines import command_lines
    from netprobe.pipeline.launching.parts import check_program, environment_of, parts_of
    from netprobe.pipeline.launching.running import run_job
    from netprobe.pipeline.launching.way_in import way_in
    from netprobe.pipeline.ranks.checking_order import planned_ranks
    from netprobe.plan import load_plan
    from netprobe.probe.launchers.exec_launcher import ChildLauncher

    check_program(program or [])
    output = Output(quiet=quiet)
    way = way_in(reach.via, plan.parent)
    launcher = replace(reach, via=way).launcher()
    given = load_hosts(job.hosts) if job.hosts is not None else None
    planned = planned_ranks(load_plan(plan), hosts=given, slots=job.slots)
    ranked = planned.hosts
    env = environment_of(job.env or [])
    if not isinstance(launcher, ChildLauncher):
        return by_engine(way, plan.parent, planned, program or [], env, job, reach, output)
    parts = parts_of(ranked, program or [], env=env, slots=job.slots, port=job.master_port)
    launcher.check(ranked)
    if job.dry_run:
        named = {word for word in job.env or [] if "=" not in word}
        print("\n".join(command_lines(parts, launcher, named)))
        return 0
    options = job.options(reach)
    with hinting(reach.via is None):
        if job.check and not as_planned(planned, launcher, options, job.slots, output):
            return EXIT_PARTIAL
        end = run_job(
            parts,
            launcher,
            options,
            on_output=lambda part, stream, line: print_line(part.host.name, stream, line),
            on_note=lambda text: output.note(f"netprobe: {text}"),
        )
    if end.failed is not None and not end.signals:
        output.note(f"netprobe: {failure_text(end.failed, end.code)}")
    return end.code


def failure_text(host: str, code: int) -> str:
    """The last line of a job that failed: the others' lines, which were ended, stand between its cause and its end."""
    text = f"{host} failed first, with exit code {code}: lines that begin with '{host}:' say why"
    if code == NOT_FOUND:
        text += (
            "; a program that is not on a host's path: give its whole path, or --setup '. venv/bin/activate'"
        )
    return text


def by_engine(
    way: str,
    folder: Path,
    planned: PlannedRanks,
    program: list[str],
    env: dict[str, str],
    job: Job,
    reach: Reach,
    output: Output,
) -> int:
    """The job by one srun or mpirun. Raises InputError for what only a job of netprobe's own processes has."""
    from netprobe.core.errors import EXIT_PARTIAL
    from netprobe.formats.rank_output.rank_program import rank_launcher
    from netprobe.pipeline.launching.engine import ENGINES, EngineJob, hosts_file, place_of_file, run_engine
    from netprobe.pipeline.ranks.checking_order import check_order, lines_of
    from netprobe.pipeline.ranks.rank_output import run_for_log
    from netprobe.probe.launchers.mpi import mca_words

    started = EngineJob(
        engine=ENGINES[way],
        ranked=planned.hosts,
        program=tuple(program),
        passed=env,
        slots=job.slots,
        port=job.master_port,
        setup=reach.setup,
        folder=job.chdir,
        extra=tuple(mca_words(reach.mca or [])),
    )
    if job.dry_run:
        path, is_there = place_of_file(started, folder)
        if not is_there:
            slots = [] if started.slots_in_file is None else ["--slots", str(started.slots_in_file)]
            hosts = [] if job.hosts is None else ["--hosts", job.hosts]
            written = ["export", str(folder), "--format", started.engine.format, *slots, *hosts]
            print(shlex.join(["netprobe", *written, "--out", path, "--force"]))
        named = {word for word in job.env or [] if "=" not in word}
        shown = [f"{name}={value}" for name, value in started.environment().items() if name not in named]
        print(shlex.join(["env", *shown, *started.argv(path)]))
        return 0
    if job.check:
        ask = replace(started, program=("true",))
        ranks_by = rank_launcher(started.engine.launcher)
        with hosts_file(ask) as file:
            found = check_order(
                planned,
                run_for_log(ranks_by, file, planned, slots=job.slots, extra=started.extra, timeout_s=ASK_S),
            )
        for line in lines_of(found)[:SHOWN]:
            output.note(line)
        output.note(f"{found.confirmed} of {found.size} ranks run where the plan puts them")
        if not found.good:
            output.note("nothing was started (without --check it is)")
            return EXIT_PARTIAL
    return run_engine(started, grace_s=job.grace, on_line=print_line)


def as_planned(
    planned: PlannedRanks, launcher: ChildLauncher, options: JobOptions, slots: int | None, output: Output
) -> bool:
    """Whether the ranks say that they run where the plan puts them; what differs goes to stderr."""
    from netprobe.pipeline.launching.asking import ask_ranks
    from netprobe.pipeline.ranks.checking_order import check_order, lines_of

    log = ask_ranks(planned.hosts, launcher, options, slots=slots, time_s=ASK_S)
    found = check_order(planned, log)
    lines = lines_of(found)
    for line in lines[:SHOWN]:
        output.note(line)
    more = f" ({len(lines) - SHOWN} more lines)" if len(lines) > SHOWN else ""
    output.note(f"{found.confirmed} of {found.size} ranks run where the plan puts them{more}")
    if not found.good:
        output.note("nothing was started (without --check it is)")
    return found.good


def print_line(host: str | None, stream: int, line: bytes) -> None:
    """A line on our stream of that number, before it the name of the host that it comes from, if one is known."""
    target = sys.stdout if stream == 1 else sys.stderr
    target.flush()
    target.buffer.write((b"" if host is None else host.encode() + b": ") + line + b"\n")
    target.buffer.flush()


def here() -> str | None:
    """This folder; None where it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return None

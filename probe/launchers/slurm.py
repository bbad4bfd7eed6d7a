"""The launcher for inside a Slurm allocation: one ``srun`` starts all agents, one a node, and they dial back."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from netprobe.core.errors import HostsError, InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.core.naming import expand_ranges, split_list
from netprobe.probe.launchers.dial_back import DialBackLauncher
from netprobe.probe.launchers.listen_address import ListenAt

HELP_S = 20.0
_ENDED = re.compile(r"^srun: error: (\S+): tasks? ([\d,-]+): (?:Exited|Killed|Terminated|Aborted|Seg)", re.M)
_LABELLED = re.compile(r"^\s*(\d+): (.*)$", re.M)
_NOT_LAUNCHED = re.compile(r"failed on node (\S+?): ")
_ABORTED = ("Application launch failed", "Job step aborted", "Unable to create step")


class SlurmLauncher(DialBackLauncher):
    """One ``srun`` in the allocation that this process runs in. A host's node is its ``launcher_name``.

    srun copies its standard input to every task (the secret travels there), and leaves the other agents
    alone when one ends. ``environment`` replaces the process's own.
    """

    variables = ("SLURMD_NODENAME",)

    def __init__(
        self,
        *,
        listen: ListenAt | None = None,
        environment: Mapping[str, str] | None = None,
        program: str = "srun",
    ) -> None:
        super().__init__(listen=listen)
        self.program = program
        self._environment = os.environ if environment is None else environment

    def nodes(self) -> list[str]:
        """The nodes of the allocation. Raises InputError outside of one."""
        job, listed = (self._environment.get(f"SLURM_JOB_{key}") for key in ("ID", "NODELIST"))
        if not job or not listed:
            raise InputError(
                "--via slurm works inside an allocation (sbatch, salloc), and SLURM_JOB_ID is not set here; "
                "from elsewhere give --via 'srun -w {target}' or --via ssh"
            )
        try:
            return [name for item in split_list(listed) for name in expand_ranges(item)]
        except HostsError as error:
            raise InputError(f"the node list of Slurm job {job} cannot be read: {error}") from None

    def check(self, hosts: Sequence[Host]) -> None:
        """There must be an allocation, ``srun``, and a node for each host."""
        nodes = set(self.nodes())
        if shutil.which(self.program) is None:
            raise PlatformError(
                f"no program {self.program!r} on this machine: --via slurm needs Slurm's srun"
            )
        strange = [host.name for host in hosts if host.launcher_name not in nodes]
        if strange:
            raise InputError(
                f"host {strange[0]!r} is not a node of Slurm job {self._environment['SLURM_JOB_ID']} (its "
                "launcher_name, or else its name, must be one): leave --hosts out to scan the job's nodes"
            )

    def argv(self, hosts: Sequence[Host], command: Sequence[str]) -> list[str]:
        """One task a node, next to the other steps of the job; the end of one task does not end the others."""
        argv = [self.program, f"--nodelist={','.join(host.launcher_name for host in hosts)}"]
        argv += [f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}", "--ntasks-per-node=1"]
        argv += ["--kill-on-bad-exit=0", "--wait=0", "--no-kill", "--input=all", "--mpi=none"]
        # Labels tell whose line a line of an agent's standard error is.
        argv += ["--chdir=/", "--job-name=netprobe", "--export=ALL", "--label"]
        if has_overlap(self.program):
            argv.append("--overlap")
        return [*argv, *command]

    def identify(self, names: Mapping[str, str], hosts: Sequence[Host]) -> Host | None:
        """By the name under which slurmd knows its node."""
        node = names.get("SLURMD_NODENAME")
        return next((host for host in hosts if host.launcher_name == node), None)

    def gone(self, output: str, hosts: Sequence[Host]) -> list[Host]:
        """Hosts of which srun says that their task has ended, unless it is ending all of them."""
        if any(words in output for words in _ABORTED):
            return []
        ended = _ended(output)
        return [host for host in hosts if host.launcher_name in ended]

    def lines_about(self, output: str, host: Host) -> list[str]:
        """What names the host, and what its task printed, as far as srun has said which task that is."""
        task = _ended(output).get(host.launcher_name)
        printed = [text for number, text in _LABELLED.findall(output) if number == task]
        return [*super().lines_about(output, host), *printed]

    def blamed(self, output: str, hosts: Sequence[Host]) -> list[Host]:
        """Nodes on which the launch failed; srun then ends the tasks of all others, and says so."""
        failed = set(_NOT_LAUNCHED.findall(output))
        named = [host for host in hosts if host.launcher_name in failed]
        return named or super().blamed(output, hosts)


def _ended(output: str) -> dict[str, str]:
    """Nodes whose tasks have ended, with the task's number."""
    ended: dict[str, str] = {}
    for nodes, tasks in _ENDED.findall(output):
        try:
            names = [name for item in split_list(nodes) for name in expand_ranges(item)]
            numbers = expand_ranges(f"[{tasks}]")
        except HostsError:
            continue
        ended.update(zip(names, numbers))
    return ended


@functools.lru_cache(maxsize=4)
def has_overlap(program: str) -> bool:
    """Whether this srun knows ``--overlap`` (20.11 and later); before, steps shared their nodes anyway."""
    try:
        done = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=HELP_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--overlap" in done.stdout

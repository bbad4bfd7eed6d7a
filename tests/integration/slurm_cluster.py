"""A private Slurm cluster on a lab: its own munged, slurmctld on the controller, a slurmd on every host.

Nothing of the machine's own Slurm or munge is read, started or changed. Every daemon stays in the
foreground of a process of ours and is ended by its process id.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from netprobe.core.hosts import make_host
from netprobe.formats import topology_format_named
from netprobe.lab import Lab

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "sinfo", "setpriv")
READY_S = 100.0
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def slurm_is_missing() -> str | None:
    """Why there can be no Slurm here; None when there can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"Slurm, munge or util-linux is not installed (no {missing[0]})" if missing else None


class SlurmCluster:
    """Slurm's commands on the lab's controller; the nodes are called as the lab's hosts."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.env = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def argv(self, command: Sequence[str]) -> list[str]:
        """The argv that runs a command on the controller."""
        return self.lab.exec_argv(None, command)

    def impatient_env(self) -> dict[str, str]:
        """For a command that meets a dead slurmd: Slurm tries a refused connection again for MessageTimeout.

        The daemons keep their own, so that a busy machine delays their messages and loses none.
        """
        path = self.folder / "impatient.conf"
        path.write_text(self._config().replace("MessageTimeout=10", "MessageTimeout=2"), encoding="ascii")
        return {**self.env, "SLURM_CONF": str(path)}

    def in_allocation(self, command: Sequence[str], *options: str) -> list[str]:
        """The argv that runs a command on the controller inside an allocation of all hosts."""
        salloc = ["salloc", "--quiet", "--no-shell"] if not command else ["salloc", "--quiet"]
        return self.argv([*salloc, f"--nodes={len(self.lab.hosts)}", *options, *command])

    def start(self) -> None:
        """Bring everything up; all nodes are idle when this returns."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        (self.folder / "slurm.conf").write_text(self._config(), encoding="ascii")
        (self.folder / "topology.conf").write_text(self._topology(), encoding="ascii")
        munged = [
            "munged",
            "--foreground",
            "--force",
            "--num-threads=2",
            f"--socket={self.folder}/munge.sock",
        ]
        munged += [f"--key-file={key}", f"--pid-file={self.folder}/munge.pid"]
        munged += [f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munge.log"]
        self._spawn("munged", munged)
        self._wait("munged", lambda: (self.folder / "munge.sock").exists())
        config = str(self.folder / "slurm.conf")
        self._spawn("slurmctld", self.argv(["slurmctld", "-D", "-c", "-f", config]))
        for host in self.lab.hosts:
            self._start_slurmd(host.name)
        self._wait("slurmctld and slurmd", self._all_idle)

    def daemon_pid(self, node: str) -> int:
        """The process of a node's slurmd."""
        return self._daemons[f"slurmd-{node}"].pid

    def restart(self, node: str) -> None:
        """Start a node's slurmd again after it was killed."""
        self._daemons[f"slurmd-{node}"].wait(10)
        self._start_slurmd(node)
        self._wait(f"slurmd of {node}", self._all_idle)

    def _start_slurmd(self, node: str) -> None:
        daemon = ["slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf")]
        self._spawn(f"slurmd-{node}", self.lab.exec_argv(node, daemon))

    def stop(self) -> None:
        """End every daemon, the last one started first."""
        for daemon in reversed(self._daemons.values()):
            with suppress(ProcessLookupError):
                daemon.terminate()
        for daemon in reversed(self._daemons.values()):
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _all_idle(self) -> bool:
        asked = subprocess.run(
            self.argv(["sinfo", "--noheader", "--Node", "--format=%T"]),
            env=self.env, capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
        return asked.stdout.split() == ["idle"] * len(self.lab.hosts)

    def _spawn(self, name: str, argv: Sequence[str]) -> None:
        # A run of the tests that is killed gets to no fixture's end: the kernel ends the daemons with it.
        argv = ["setpriv", "--pdeathsig", "TERM", *argv]
        with (self.folder / f"{name}.out").open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait(self, what: str, ready: object) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if callable(ready) and ready():
                return
            ended = [d for d in self._daemons.values() if d.poll() is not None]
            if ended:
                break
            time.sleep(0.05)
        logs = {path.name: path.read_text(errors="replace")[-600:] for path in self.folder.glob("*.out")}
        raise AssertionError(f"{what} did not come up: {logs}")

    def _topology(self) -> str:
        """The racks, as netprobe exports groups."""
        named = {host.name: make_host(host.name) for host in self.lab.hosts}
        racks = {group.id: [named[name] for name in group.hosts] for group in self.lab.truth().groups}
        return topology_format_named("slurm-conf").write(racks)

    def _config(self) -> str:
        folder, controller = self.folder, self.lab.layout.controller
        lines = [
            "ClusterName=netprobe-test",
            f"SlurmctldHost={controller.name}({controller.address})",
            "SlurmctldPort=6817",
            "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge.sock", "CredType=cred/munge",
            "MpiDefault=none", "ProctrackType=proctrack/pgid", "TaskPlugin=task/none",
            "SchedulerType=sched/builtin",
            "SchedulerParameters=builtin_interval=1,batch_sched_delay=0,sched_interval=1",
            "SelectType=select/cons_tres", "TopologyPlugin=topology/tree", "ReturnToService=2",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd-%n.pid",
            "SlurmdParameters=config_overrides", "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none", "SlurmdTimeout=300", "InactiveLimit=0",
            "KillWait=2", "MessageTimeout=10", "TCPTimeout=4",
        ]  # fmt: skip
        for number, host in enumerate(self.lab.hosts):
            lines.append(
                f"NodeName={host.name} NodeHostname={host.name} NodeAddr={host.address} "
                f"Port={17000 + number} CPUs=2 RealMemory=500 State=UNKNOWN"
            )
        lines.append("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES State=UP")
        return "\n".join(lines) + "\n"


@contextmanager
def slurm_on(lab: Lab) -> Iterator[SlurmCluster]:
    """A cluster that is always gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="netprobe-slurm-", dir="/run"))
    folder.chmod(0o755)
    (folder / "state").mkdir()
    cluster = SlurmCluster(lab, folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)

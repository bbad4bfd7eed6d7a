"""Ways into a lab's hosts, as files in its directory: a hosts file, an agent for mpirun, and sshd.

The ssh keys are made for one lab and thrown away with it. Every sshd listens on its host's address inside
the lab's namespace only; nothing of the machine's own ssh is read or changed.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

from netprobe.core.errors import PlatformError
from netprobe.lab.kernel import enter_argv, find_program, run
from netprobe.lab.spec.layout import LabHost, Layout
from netprobe.lab.state import Process, process

HOSTS_FILE = "hosts"
RSH_AGENT_FILE = "rsh-agent"
SSH_CONFIG_FILE = "ssh_config"
SSH_DIRECTORY = "ssh"
HOSTNAMES_DIRECTORY = "hostnames"
SSH_PORT = 2222
# Where sshd on Debian keeps its unprivileged child; it does not start without.
RUN_SSHD = Path("/run/sshd")
_START_WAIT_S = 15.0
_STARTS_AT_ONCE = 8


def hosts_text(layout: Layout) -> str:
    """The hosts file of a lab: one line per host, in the lab's shuffled order."""
    lines = ["# NAME target= (namespace and ssh alias) address= (inside the lab) launcher_name= slots="]
    lines += [
        f"{host.name} target={host.target} address={host.address}"
        f" launcher_name={host.name} slots={host.slots}"
        for host in layout.hosts
    ]
    return "\n".join(lines) + "\n"


def rsh_agent_text(layout: Layout, hostnames: Path) -> str:
    """A shell script that replaces ssh: ``sh rsh-agent HOST COMMAND...`` runs a command on a host.

    As with ssh, the words of the command are joined and given to a shell there. HOST is a name, a target or
    an address.
    """
    cases = []
    for host in layout.hosts:
        enter = " ".join(enter_argv(host.target, hostnames))
        cases.append(f'{host.name}|{host.target}|{host.address}) exec {enter} /bin/sh -c "$*" ;;')
    body = "\n".join(cases)
    return (
        "#!/bin/sh\n"
        "# Usage: rsh-agent HOST COMMAND... (what ssh would do, through the lab's namespaces)\n"
        'host=$1\nshift\ncase "$host" in\n'
        f"{body}\n"
        '*) echo "rsh-agent: $host is not a host of this lab" >&2; exit 255 ;;\nesac\n'
    )


def write_ssh_files(layout: Layout, directory: Path, *, lock: int) -> None:
    """Write keys, one sshd_config a host, known_hosts and the client's ssh_config. Raises PlatformError."""
    ssh = directory / SSH_DIRECTORY
    ssh.mkdir(mode=0o700)
    keygen = find_program("ssh-keygen")
    for key, comment in (("id_ed25519", "netprobe lab user"), ("host_ed25519", "netprobe lab host")):
        run([keygen, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(ssh / key)], lock=lock)
    (ssh / "authorized_keys").write_bytes((ssh / "id_ed25519.pub").read_bytes())
    host_key = " ".join((ssh / "host_ed25519.pub").read_text(encoding="ascii").split()[:2])
    known = [f"[{host.address}]:{SSH_PORT} {host_key}\n" for host in layout.hosts]
    (ssh / "known_hosts").write_text("".join(known), encoding="ascii")
    use_pam = "yes" if _root_is_locked() else "no"
    for host in layout.hosts:
        (ssh / f"{host.target}.conf").write_text(_sshd_config(host, ssh, use_pam), encoding="ascii")
    (directory / SSH_CONFIG_FILE).write_text(
        "".join(_client_entry(host, ssh) for host in layout.hosts), encoding="ascii"
    )


def start_sshds(layout: Layout, directory: Path, *, lock: int) -> tuple[Process, ...]:
    """Start an sshd on every host; all of them accept connections when this returns. Raises PlatformError."""
    sshd = find_program("sshd")
    ssh = directory / SSH_DIRECTORY
    for begin in range(0, len(layout.hosts), _STARTS_AT_ONCE):
        starters = []
        for host in layout.hosts[begin : begin + _STARTS_AT_ONCE]:
            options = ["-f", str(ssh / f"{host.target}.conf"), "-E", str(ssh / f"{host.target}.log")]
            starters.append(
                subprocess.Popen(
                    [*enter_argv(host.target, directory / HOSTNAMES_DIRECTORY), sshd, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    pass_fds=(lock,),
                    start_new_session=True,
                )
            )
        complaints = [starter.communicate()[1].strip() for starter in starters]
        for starter, complaint in zip(starters, complaints, strict=True):
            if starter.returncode != 0:
                raise PlatformError(f"sshd does not start: {complaint[:200] or 'it does not say why'}")
    return tuple(_started(ssh / f"{host.target}.pid", host) for host in layout.hosts)


def make_run_sshd() -> None:
    """Make the directory that sshd needs, if it is not there."""
    RUN_SSHD.mkdir(mode=0o755, exist_ok=True)


def remove_run_sshd() -> None:
    """Remove that directory, unless an sshd still runs on this machine."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text(encoding="utf-8", errors="replace").startswith("sshd"):
                return
    with suppress(OSError):
        RUN_SSHD.rmdir()


def _started(pid_file: Path, host: LabHost) -> Process:
    # sshd listens, goes to the background, and writes its id last: a process by that id is a ready one.
    deadline = time.monotonic() + _START_WAIT_S
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            found = process(int(pid_file.read_text(encoding="ascii")))
            if found is not None:
                return found
        time.sleep(0.005)
    raise PlatformError(f"sshd on {host.name} is not ready after {_START_WAIT_S:.0f} s")


def _sshd_config(host: LabHost, ssh: Path, use_pam: str) -> str:
    return (
        f"Port {SSH_PORT}\nListenAddress {host.address}\nHostKey {ssh / 'host_ed25519'}\n"
        f"PidFile {ssh / (host.target + '.pid')}\nAuthorizedKeysFile {ssh / 'authorized_keys'}\n"
        f"UsePAM {use_pam}\nUseDNS no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nAllowUsers root\n"
        "X11Forwarding no\nPrintMotd no\nPrintLastLog no\n"
        # The whole fleet is reached at once, and many times over in tests.
        "MaxStartups 200:30:400\nMaxSessions 64\n"
        # bash under sshd reads .bashrc in a first-level shell, which may be slow or noisy.
        "SetEnv SHLVL=5\n"
    )


def _client_entry(host: LabHost, ssh: Path) -> str:
    return (
        f"Host {host.target} {host.name}\n  HostName {host.address}\n  Port {SSH_PORT}\n  User root\n"
        f"  IdentityFile {ssh / 'id_ed25519'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {ssh / 'known_hosts'}\n  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n  PasswordAuthentication no\n\n"
    )


def _root_is_locked() -> bool:
    """Whether root's password is locked: sshd then turns root away unless PAM decides."""
    try:
        lines = Path("/etc/shadow").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("root:!") for line in lines)

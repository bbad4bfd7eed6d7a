"""One clear line out of what a launcher's program said before it gave up."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netprobe.core.text import one_line


@dataclass(frozen=True)
class Diagnosis:
    """Why a launch failed; ``retry`` when another attempt may well succeed."""

    reason: str
    retry: bool = False


_DROPPED = (
    r"kex_exchange_identification|ssh_exchange_identification|Connection reset by|"
    r"Connection closed by|Broken pipe|banner exchange|MaxStartups|Not allowed at this time"
)

_BEHIND_PROXY = r"UNKNOWN port 65535"
"""What ssh calls the far end when it is a ProxyCommand (or a jump host) that has ended."""
_ON_THE_WAY = r"(?s)(?:ssh: connect to host|stdio forwarding failed).*exchange_identification"
"""A connection that failed, and then one that was open to somebody: the same at every LogLevel of ssh."""
_PEER = r"(?:Connection (?:closed|reset) by|reset by) (?!UNKNOWN|remote host|peer)\S+ port \d+"
_AFTERMATH = (
    r"exchange_identification|Connection (?:closed|reset) by|Killed by signal|^\*\*|^Warning: Permanently"
)

ROOT_BANNER = "mpirun has detected an attempt to run as root"
ROOT_REFUSED = (
    "mpirun refuses to run as root: be another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
)

_RULES: tuple[tuple[str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed since the last login: find out why, then remove the old one with "
        "'ssh-keygen -R {target}' and log in once",
    ),
    (
        r"Host key verification failed|No \S+ host key is known",
        "its host key is unknown: log in once by ssh and compare the fingerprint, or add it with "
        "'ssh-keyscan HOST' to known_hosts",
    ),
    (
        r"Permission denied \(|Too many authentication failures|No more authentication methods",
        "permission denied: ssh must log in without a password (a key, or an agent)",
    ),
    (r"Could not resolve hostname ([^\s:]+)", "its name {0} cannot be resolved"),
    (r"Connection refused", "connection refused: does sshd run there, and on this port?"),
    (r"(?:Connection|Operation) timed out|timed out", "no answer: the connection timed out"),
    (r"No route to host|Network is unreachable", "no route to it"),
    (
        r"Bad configuration option: (\S+)|(command-line line \d+: .*)|(.* terminating, \d+ bad conf.*)",
        "ssh refuses an option: {0}",
    ),
    (r"Can't open user config file (\S+):", "the ssh configuration {0} cannot be read"),
    (
        r'Cannot open network namespace "([^"]*)"|cannot open \S*/netns/(\S+): No such file',
        "there is no network namespace {0}",
    ),
    (r"Unknown option: -I", "its Python is version 2: the agent needs 3.8 or later (--python PATH)"),
    (
        r"netprobe: the set-up lines failed with exit code (\d+)",
        "the set-up lines (--setup) failed on the host with exit code {0}",
    ),
    (ROOT_BANNER, ROOT_REFUSED),
    (
        r"this is (Python \d+\.\d+), and 3\.8 or later is needed",
        "its {0} is too old: the agent needs 3.8 or later (give another one with --python)",
    ),
)

_NO_PYTHON = (
    r"{python}['\"]?: (?:command )?not found|{python}: No such file|"
    r"exec of ['\"]{python}['\"] failed: No such file|['\"]{python}['\"]: executable file not found|"
    r"{python}.*No such file or directory|Unknown command.*{python}|{python}: inaccessible or not found"
)


def no_python(python: str) -> Diagnosis:
    """The host has no Python, or not under this name."""
    return Diagnosis(f"no Python on the host ({python} not found): install python3 or give --python PATH")


def explain(*, stderr: str, stdout: str, code: int | None, target: str, python: str, cause: str) -> Diagnosis:
    """Why the program that should have started an agent ended.

    ``code`` is its exit code, None while it runs on; ``cause`` is what to say when nothing better is known.
    """
    said = stderr + "\n" + stdout
    if code == 127 or re.search(_NO_PYTHON.replace("{python}", re.escape(python)), said):
        return no_python(python)
    by_proxy = bool(re.search(_BEHIND_PROXY, stderr)) and not re.search(_PEER, stderr)
    for pattern, text in _RULES:
        match = re.search(pattern, stderr)
        if match:
            found = [group for group in match.groups() if group] or [""]
            whose = (
                "seen from its jump host: " if "open failed: connect failed" in stderr else "its jump host: "
            )
            text = (whose if by_proxy or re.search(_ON_THE_WAY, stderr) else "") + text.replace(
                "{target}", target
            ).replace("{0}", found[0])
            return Diagnosis(one_line(text))
    if by_proxy:
        said_before = [
            line for line in stderr.splitlines() if line.strip() and not re.search(_AFTERMATH, line)
        ]
        if said_before:
            return Diagnosis(one_line(f"its ProxyCommand or jump host failed: {said_before[-1]}"))
        return Diagnosis("its ProxyCommand or jump host ended before sshd answered", retry=True)
    if re.search(_DROPPED, stderr):
        return Diagnosis(
            "the connection was dropped during login, each time it was tried: sshd limits logins at once "
            "(MaxStartups), so a smaller fan-out may help",
            retry=True,
        )
    last = _telling(stderr) or _telling(stdout)
    how = "" if code is None else f" (exit code {code})" if code >= 0 else f" (killed by signal {-code})"
    return Diagnosis(one_line(f"{cause}{how}" + (f": {last}" if last else "")))


def _telling(said: str) -> str:
    """The last line; of a banner between rules, as mpirun's, the first one, which has the gist."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    is_rule = [re.fullmatch(r"([-=*#_~+])\1{3,}", line) is not None for line in lines]
    if not lines or all(is_rule):
        return ""
    if not is_rule[-1]:
        return lines[-1]
    end = max(i for i, rule in enumerate(is_rule) if not rule)
    start = max((i for i in range(end) if is_rule[i]), default=-1)
    return lines[start + 1 if start >= 0 else end]

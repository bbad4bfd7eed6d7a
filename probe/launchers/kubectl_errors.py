"""What kubectl says when it cannot start an agent, as one line that says what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from netprobe.core.text import one_line
from netprobe.probe.launchers.diagnose import Diagnosis

_CONTEXT = r"""context was not found for specified context: (\S+)|context "([^"]+)" does not exist"""
_FORBIDDEN = r'User "([^"]+)" cannot (\S+) resource "([^"]+)"'

_RULES: tuple[tuple[str, str, bool], ...] = (
    (_CONTEXT, "kubectl has no context {0}: see 'kubectl config get-contexts', and give --context", False),
    (
        r"error loading config file|invalid configuration|unable to load root certificates|"
        r"error: stat \S+: no such file",
        "kubectl cannot use its configuration: {line}",
        False,
    ),
    (
        r"must be logged in to the server|\(Unauthorized\)|Please enter Username",
        "the API server does not know this user: renew kubectl's credentials, or give another --context",
        False,
    ),
    (
        r"""namespaces "([^"]+)" not found""",
        "there is no namespace {0} (--namespace, --context)",
        False,
    ),
    (
        r"""pods? "([^"]+)" not found|error: pod (\S+) not found|pod does not exist""",
        "there is no pod {target} in {namespace} (--namespace, --context)",
        False,
    ),
    (
        _FORBIDDEN,
        "user {0} is not allowed to {1} {2} in {namespace}: a Role needs get and list of pods, and create of pods/exec",
        False,
    ),
    (
        r"\(Forbidden\)|is forbidden",
        "the API server forbids it: {line}",
        False,
    ),
    (
        r"""container (\S+) is not valid for pod|container "?([^"\s]+)"? not found in pod|"""
        r"""container "([^"]+)" (?:in pod \S+ )?is not valid""",
        "its pod has no container {0} (--container)",
        False,
    ),
    (
        r"""container not found \("([^"]+)"\)|container (\S+) is not (?:running|created)""",
        "its container {0} is not running: see 'kubectl describe pod {target}'",
        True,
    ),
    (
        r"completed pod; current phase is (\w+)",
        "its pod has ended ({0})",
        False,
    ),
    (
        r"does not have a host assigned|pod \S+ is not running|in phase Pending",
        "its pod is not running yet: see 'kubectl describe pod {target}'",
        True,
    ),
    (
        r"error dialing backend",
        "the API server does not reach the kubelet of its node: {line}",
        True,
    ),
    (
        r"(?:exec: |executable file )[\"'`]sh[\"'`][: ].*not found",
        "its container has no sh, which --setup needs",
        False,
    ),
    (
        r"The connection to the server (\S+) was refused|no such host|no route to host|network is unreachable|"
        r"x509: |Unable to connect to the server",
        "the API server cannot be reached: {line}",
        False,
    ),
    (
        r"TLS handshake timeout|i/o timeout|TooManyRequests|etcdserver: |the server is currently unable",
        "the API server does not answer in time: {line}",
        True,
    ),
    (
        r"unknown flag: (\S+)",
        "this kubectl is too old: it does not know {0}",
        False,
    ),
)

_NOISE = re.compile(
    r"Defaulted container |Defaulting container |[EWIF]\d{4} \d\d:\d\d:\d\d|Warning: |"
    r"command terminated with exit code"
)
_DEFAULTED = re.compile(r'Defaulted container "?([a-z0-9-]+)"? out of: (.*)')
_NO_PROGRAM = re.compile(r"not found in \$PATH|no such file or directory", re.IGNORECASE)
_PLACE = re.compile(r"\{(\w+)\}")


def explain_kubectl(stderr: str, *, target: str, namespace: str | None) -> Diagnosis | None:
    """The rule that what kubectl wrote to standard error falls under; None when none does."""
    lines = [line for line in (without_noise(stderr) or stderr).splitlines() if line.strip()]
    where = f"namespace {namespace}" if namespace else "the context's namespace"
    for pattern, text, retry in _RULES:
        for line in lines:
            match = re.search(pattern, line)
            if match is None:
                continue
            values = {"target": target, "namespace": where, "line": one_line(line, 200)}
            values |= {str(place): group for place, group in enumerate(filter(None, match.groups()))}
            return Diagnosis(one_line(_filled(text, values)), retry=retry)
    return None


def in_container(found: Diagnosis, stderr: str, container: str | None) -> Diagnosis:
    """The diagnosis that there is no Python, with the container that lacks it and the others, as kubectl names them."""
    if container is not None:
        return Diagnosis(f"{found.reason}; it was looked for in the container {container}")
    match = _DEFAULTED.search(stderr)
    # "(init)" and "(ephem)" follow the names of containers that have ended, or that are for debugging.
    names = [name.strip() for name in match[2].split(",")[:8]] if match else []
    others = [name for name in names if match and name != match[1] and re.fullmatch(r"[a-z0-9-]+", name)]
    if match is None or not others:
        return Diagnosis(f"{found.reason}; if its pod has several containers, say which: --container NAME")
    return Diagnosis(
        f"{found.reason}; it was looked for in {match[1]}, the default container: give --container "
        f"{' or '.join(others)}"
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values.get(place[1], ""), text)


def lacks_python(stderr: str, python: str) -> bool:
    """Whether the container's runtime found no program of that name, in the words of any runtime."""
    return any(python in line and _NO_PROGRAM.search(line) for line in without_noise(stderr).splitlines())


def without_noise(stderr: str) -> str:
    """The lines that say why: without kubectl's notes on its own choices and its log."""
    return "\n".join(line for line in stderr.splitlines() if line.strip() and not _NOISE.match(line))

"""The launcher for pods: ``kubectl exec``, one client a pod, and the list of the pods of a label."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host
from netprobe.core.kubernetes import label_fault, selector_fault, subdomain_fault
from netprobe.core.text import one_line
from netprobe.probe.launchers.bootstrap import Payload
from netprobe.probe.launchers.child import signal_group
from netprobe.probe.launchers.diagnose import Diagnosis, no_python
from netprobe.probe.launchers.exec_launcher import DEFAULT_FAN_OUT, ChildLauncher
from netprobe.probe.launchers.kubectl_errors import explain_kubectl, in_container, lacks_python, without_noise
from netprobe.probe.launchers.launch import Channel, LaunchFailure

MAX_LIST_BYTES = 64 << 20
"""A pod takes about 8 kB of the list."""
LIST_TIMEOUT_S = 60


class KubectlLauncher(ChildLauncher):
    """``kubectl exec -i POD -- ...``, with the user's own configuration. A host's target is its pod.

    ``not_running`` are pods that are known not to run, with the reason: they are not tried.
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        namespace: str | None = None,
        container: str | None = None,
        kubeconfig: Path | None = None,
        fan_out: int = DEFAULT_FAN_OUT,
        program: str = "kubectl",
    ) -> None:
        super().__init__(fan_out=fan_out)
        self.namespace = namespace
        self.container = container
        self.program = program
        self.not_running: Mapping[str, str] = {}
        for what, value in (("--namespace", namespace), ("--container", container)):
            if value is not None and (fault := label_fault(value)):
                raise InputError(f"{what} {fault}")
        if context is not None and (not context or not context.isprintable() or len(context) > 253):
            raise InputError(f"--context {one_line(context, 60)!r} is not a valid name of a context")
        if kubeconfig is not None and not kubeconfig.is_file():
            raise InputError(f"--kubeconfig {str(kubeconfig)!r}: no such file")
        self._global = [] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"]
        self._global += [] if context is None else [f"--context={context}"]
        self._global += [] if namespace is None else [f"--namespace={namespace}"]
        self._container = [] if container is None else [f"--container={container}"]

    def check(self, hosts: Sequence[Host]) -> None:
        """Every target must be a pod's name, and kubectl must be there."""
        for host in hosts:
            if fault := subdomain_fault(host.target):
                raise InputError(f"host {host.name!r}: its target must be a pod's name, and {fault}")
        if shutil.which(self.program) is None:
            raise PlatformError(f"no program {self.program!r} on this machine: --via kubectl needs it")

    def argv(self, host: Host, command: Sequence[str]) -> list[str]:
        """No shell reads any of it, here or there."""
        return [self.program, *self._global, "exec", "-i", host.target, *self._container, "--", *command]

    async def launch(
        self, hosts: Sequence[Host], payload: Payload, timeout_s: float
    ) -> AsyncGenerator[Channel | LaunchFailure, None]:
        """As any launcher, but for the pods that are known not to run."""
        for host in hosts:
            if host.target in self.not_running:
                yield LaunchFailure(host=host, reason=self.not_running[host.target])
        running = [host for host in hosts if host.target not in self.not_running]
        async with contextlib.aclosing(super().launch(running, payload, timeout_s)) as outcomes:
            async for outcome in outcomes:
                yield outcome

    def explain(
        self, host: Host, *, stderr: str, stdout: str, code: int | None, python: str, cause: str
    ) -> Diagnosis:
        """kubectl's own errors first; what is left of its words is what the host said."""
        found = no_python(python) if lacks_python(stderr, python) else self._known(stderr, host.target)
        found = found or super().explain(
            host, stderr=without_noise(stderr), stdout=stdout, code=code, python=python, cause=cause
        )
        return in_container(found, stderr, self.container) if found == no_python(python) else found

    def _known(self, stderr: str, target: str) -> Diagnosis | None:
        return explain_kubectl(stderr, target=target, namespace=self.namespace)

    def list_pods(self, selector: str) -> bytes:
        """``kubectl get pods`` of a label selector, as JSON. Raises InputError, also for too much of it."""
        if fault := selector_fault(selector):
            raise InputError(f"label selector {fault}")
        self.check(())
        argv = [self.program, *self._global, "get", "pods", f"--selector={selector}", "--output=json"]
        code, out, err = _run_bounded([*argv, "--request-timeout=30s"], MAX_LIST_BYTES, LIST_TIMEOUT_S)
        if code == 0:
            return out
        known = self._known(err, "of that label")
        last = [line for line in without_noise(err).splitlines() or err.splitlines() if line.strip()][-1:]
        why = known.reason if known is not None else one_line(last[0]) if last else f"exit code {code}"
        raise InputError(f"kubectl cannot list the pods of {selector!r}: {why}")


def _run_bounded(argv: Sequence[str], limit: int, timeout_s: float) -> tuple[int, bytes, str]:
    """Exit code, standard output and the end of standard error. Raises InputError beyond the bounds."""
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None and child.stderr is not None
    deadline = time.monotonic() + timeout_s
    parts: list[bytes] = []
    size, err = 0, b""
    streams = {child.stdout.fileno(), child.stderr.fileno()}
    try:
        while streams:
            ready, _, _ = select.select(list(streams), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise InputError(f"{argv[0]} did not end within {timeout_s:.0f} s, and was ended")
            for descriptor in ready:
                part = os.read(descriptor, 1 << 16)
                if not part:
                    streams.discard(descriptor)
                elif descriptor == child.stderr.fileno():
                    err = (err + part)[-8192:]
                else:
                    size += len(part)
                    parts.append(part)
            if size > limit:
                raise InputError(f"{argv[0]} printed more than {limit >> 20} MiB: choose fewer pods")
        code = child.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise InputError(f"{argv[0]} did not end within {timeout_s:.0f} s, and was ended") from None
    finally:
        signal_group(child, signal.SIGKILL)  # its credential plugins too
        child.wait()
        child.stdout.close()
        child.stderr.close()
    return code, b"".join(parts), err.decode("utf-8", "replace")

"""The switch of a lab: compiled, started, and sent commands while it runs. main.c says what it does."""

from __future__ import annotations

import math
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from netprobe.core.errors import InputError, InternalError, PlatformError
from netprobe.lab.kernel import find_program, namespace_path, port_interface, run
from netprobe.lab.spec.faults import fault_commands, flow_command, host_index
from netprobe.lab.spec.layout import Layout
from netprobe.lab.spec.queues import DEFAULT_QUEUE, QueueLength
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.state import Process, process

SOURCES = tuple(sorted(Path(__file__).parent.glob("*.c")))
"""Compiled together, in one command."""

SOCKET_FILE = "switch.sock"
PID_FILE = "switch.pid"
# What the switch calls itself, at most 15 characters (PR_SET_NAME).
SWITCH_COMMAND = "netprobe-switch"
COMPILE_FLAGS = ("-O2", "-Wall", "-Wextra")
_ANSWER_WAIT_S = 5.0


REMEDY = "install a C compiler (on Debian: apt-get install gcc libc6-dev)"


def find_compiler() -> str:
    """The path of a C compiler. Raises PlatformError when there is none."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise PlatformError(
            f"the lab's switch is written in C, and this machine has no cc, gcc or clang: {REMEDY}"
        )
    return compiler


def compile_switch(directory: Path, *, lock: int) -> Path:
    """Compile the switch into a directory. Raises PlatformError when that is not possible here."""
    compiler = find_compiler()
    program = directory / "switch"
    try:
        run([compiler, *COMPILE_FLAGS, "-o", str(program), *map(str, SOURCES)], lock=lock)
    except PlatformError as error:
        raise PlatformError(f"the lab's switch cannot be compiled: {REMEDY}; {error}") from error
    return program


def switch_config(spec: LabSpec, layout: Layout, *, seed: int = 0) -> str:
    """The lines that the switch reads first. The controller is alone in a last rack, without delay or rate."""
    racks = len(spec.racks)
    lines = [f"racks {racks + 1}", f"seed {seed % 2**63}", *(["routers"] if spec.routers else [])]
    for index, host in enumerate(layout.everyone):
        rack = racks if host.rack is None else host.rack
        lines.append(f"port {port_interface(index)} {host.name} {rack} {host.hardware_address}")
        if host.rack is not None:
            ends = ("rx",) if spec.host_shaping == "interface" else ("tx", "rx")
            lines += rate_commands("host", host.name, ends, spec.host_rate_bytes_per_s(host.rack))
            lines += _queues(spec, "host", host.name, ends, spec.host_queue_length(host.rack))
    for src in range(racks):
        lines += rate_commands("uplink", str(src), ("up", "down"), spec.uplink_rate_bytes_per_s(src))
        lines += _queues(spec, "uplink", str(src), ("up", "down"), spec.uplink_queue_length(src))
        lines += [delay_command(src, dst, spec.one_way_delay_s(src, dst)) for dst in range(racks)]
    names = {
        text: layout.at(*host_index(text)).name
        for text in {*(one for fault in spec.faults for one in fault.hosts), *_ends(spec)}
    }
    for fault in spec.faults:
        lines += fault_commands(fault, names)
    lines += [flow_command(names[flow.src], names[flow.dst], flow.rate) for flow in spec.background]
    return "".join(f"{line}\n" for line in lines)


def _queues(spec: LabSpec, kind: str, name: str, directions: Sequence[str], queue: QueueLength) -> list[str]:
    """What the switch does not have by itself."""
    lines = [] if queue == DEFAULT_QUEUE else queue_commands(kind, name, directions, queue)
    if spec.ecn_mark is not None:
        lines += [
            f"mark {line.removeprefix('queue ')}"
            for line in queue_commands(kind, name, directions, spec.ecn_mark)
        ]
    return lines


def _ends(spec: LabSpec) -> list[str]:
    return [end for flow in spec.background for end in (flow.src, flow.dst)]


def rate_commands(kind: str, name: str, directions: Sequence[str], bytes_per_s: float) -> list[str]:
    """The switch's commands for a rate; infinity takes the limit off."""
    value = 0 if math.isinf(bytes_per_s) else round(bytes_per_s)
    return [f"{kind} {name} {direction} {value}" for direction in directions]


def queue_commands(kind: str, name: str, directions: Sequence[str], queue: QueueLength) -> list[str]:
    """The switch's commands for the length of a queue."""
    return [f"queue {kind} {name} {direction} {queue.words}" for direction in directions]


def delay_command(src_rack: int, dst_rack: int, seconds: float) -> str:
    """The switch's command for a one-way delay."""
    return f"delay {src_rack} {dst_rack} {round(seconds * 1e9)}"


def start_switch(program: Path, directory: Path, config: str, fabric_target: str, *, lock: int) -> Process:
    """Start the switch inside the fabric's namespace; it works when this returns. Raises PlatformError."""
    # Executed from memory: /run, where the lab's directory is, is often mounted noexec.
    descriptor = os.memfd_create("netprobe-switch", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(program.read_bytes())
        path = f"/proc/self/fd/{descriptor}"
        argv = [find_program("nsenter"), f"--net={namespace_path(fabric_target)}", "--", path]
        run(
            [*argv, str(directory / SOCKET_FILE), str(directory / PID_FILE)],
            lock=lock,
            text=config,
            keep=(descriptor,),
        )
    finally:
        os.close(descriptor)
    started = process(int((directory / PID_FILE).read_text(encoding="ascii")))
    if started is None:
        raise PlatformError("the lab's switch ended as soon as it had started")
    return started


def tell_switch(directory: Path, commands: Sequence[str]) -> list[str]:
    """Send commands to a running switch; its answers, without the leading ``ok``.

    Raises PlatformError when it does not answer, InputError when it has no room, InternalError when it refuses
    a command.
    """
    answers = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_WAIT_S)
            connection.connect(str(directory / SOCKET_FILE))
            with connection.makefile("rw", encoding="ascii", newline="\n") as lines:
                for command in commands:
                    lines.write(f"{command}\n")
                    lines.flush()
                    answers.append(lines.readline().strip())
    except OSError as error:
        raise PlatformError(
            f"the lab's switch does not answer ({error}): take the lab down and up again"
        ) from error
    for command, answer in zip(commands, answers, strict=True):
        if answer.startswith("error no room"):
            raise InputError(
                f"the lab's switch can keep no more of these ({answer[6:]}): take others away first"
            )
        if answer.split(" ")[0] != "ok":
            raise InternalError(f"the lab's switch refused {command!r}: {answer or 'no answer'}")
    return [answer[3:] for answer in answers]

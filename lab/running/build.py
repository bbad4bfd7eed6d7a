"""Making and removing a lab. If anything fails in between, the next command can finish the removal.

Order matters: the lock, then the intent on disk, then the things themselves; on the way back the things,
then the intent, then the lock.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timezone

from netprobe.core.documents.document import write_document
from netprobe.core.errors import InputError, OutputExistsError, PlatformError
from netprobe.core.system.namespaces import is_one_user_world
from netprobe.lab.kernel import (
    congestion_controls,
    end_processes,
    find_program,
    make_hostnames,
    make_namespaces,
    namespace_path,
    remove_namespaces,
    require_root,
    set_tcp,
    shape_interface,
    unmount_below,
)
from netprobe.lab.running import access
from netprobe.lab.running.fleet import TRUTH_FILE, Lab, find, unknown_lab
from netprobe.lab.running.orphans import names_without_directory, namespaces_by_name, switches_by_name
from netprobe.lab.spec.fields import check_name
from netprobe.lab.spec.layout import Layout, lay_out
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.state import (
    LOCK_WAIT_S,
    STATE_FILE,
    LabState,
    Process,
    directory_of,
    forgotten_locks,
    lab_names,
    locked,
    this_process,
)
from netprobe.lab.switch.control import compile_switch, find_compiler, start_switch, switch_config
from netprobe.lab.truth import make_truth


def up(spec: LabSpec, *, seed: int = 0, name: str | None = None, sshd: bool | None = None) -> Lab:
    """Make a lab and leave it running.

    ``name`` and ``sshd`` override the spec's. What is left of a lab of that name that was never finished, or
    lost its switch, are removed first. Raises PlatformError when this machine cannot hold a lab (not root,
    no compiler, ...), OutputExistsError when a lab of that name runs; for anything it raises, Ctrl-C included,
    nothing is left behind.
    """
    return _up(spec, seed=seed, name=name, sshd=sshd, owner=None)


def down(name: str) -> None:
    """Remove a lab, whole or half-built, and everything that runs in it.

    Raises InputError, listing the labs there are, when no lab has that name.
    """
    require_root()
    _sweep(but=name)
    if name not in (*lab_names(), *names_without_directory()):
        raise unknown_lab(name)
    with locked(name) as lock:
        _remove(name, lock)


def down_all() -> list[str]:
    """Remove every lab on this machine; their names."""
    require_root()
    names = sorted({*lab_names(), *names_without_directory()})
    for name in names:
        with locked(name) as lock:
            _remove(name, lock)
    return names


def check_machine(*, sshd: bool = False) -> None:
    """Raise PlatformError, before anything is made, when this machine cannot hold a lab."""
    require_root()
    if sshd and is_one_user_world():
        raise PlatformError(
            "sshd on a lab's hosts needs root: run the same command with sudo, or without sshd"
        )
    for program in ("ip", "nsenter", *(("sshd", "ssh-keygen") if sshd else ())):
        find_program(program)
    find_compiler()


@contextmanager
def temporary(
    spec: LabSpec, seed: int = 0, *, name: str | None = None, sshd: bool | None = None
) -> Iterator[Lab]:
    """A lab for the length of a ``with`` block: removed at its end, also after an error.

    Without ``name`` it gets one that no other process uses. Should this process be killed, the next ``up``
    or ``down`` on this machine removes the lab.
    """
    owner = this_process()
    chosen = name or f"{spec.name[:14].rstrip('-')}-{os.getpid()}"
    try:
        yield _up(spec, seed=seed, name=chosen, sshd=sshd, owner=owner)
    finally:
        if chosen in lab_names() and _is_owned_by(chosen, owner):
            with locked(chosen) as lock:
                _remove(chosen, lock)


def _up(spec: LabSpec, *, seed: int, name: str | None, sshd: bool | None, owner: Process | None) -> Lab:
    with_sshd = spec.sshd if sshd is None else sshd
    check_machine(sshd=with_sshd)
    _check_congestion_control(spec)
    chosen = spec.name if name is None else name
    try:
        check_name(chosen)
    except ValueError as error:
        raise InputError(str(error)) from error
    layout = lay_out(spec, seed=seed, name=chosen)
    _sweep(but=chosen)
    with locked(chosen) as lock:
        if chosen in lab_names():
            if _is_up(chosen):
                raise OutputExistsError(
                    f"lab {chosen} is up already: take it down first, or give another name"
                )
            _remove(chosen, lock)
        elif chosen in names_without_directory():
            raise OutputExistsError(
                f"the directory of lab {chosen} was deleted while it ran: netprobe lab down {chosen} removes the rest"
            )
        for namespace in layout.namespaces:
            if namespace_path(namespace).exists():
                raise OutputExistsError(
                    f"a network namespace {namespace} is there already, and no lab's: remove it"
                )
        intent = LabState(
            name=chosen,
            seed=seed,
            status="building",
            created_at=datetime.now(timezone.utc),
            spec=spec.as_spec(),
            sshd=with_sshd,
            namespaces=layout.namespaces,
            builder=this_process(),
            owner=owner,
        )
        try:
            _build(spec, layout, intent, lock)
        except BaseException:
            _remove(chosen, lock)
            raise
    return find(chosen)


def _build(spec: LabSpec, layout: Layout, state: LabState, lock: int) -> None:
    directory = directory_of(state.name)
    directory.mkdir(mode=0o700)
    state.save(directory)
    with ThreadPoolExecutor(1) as pool:
        compiling = pool.submit(compile_switch, directory, lock=lock)
        make_namespaces(layout, lock=lock)
    _set_tcp(spec, layout)
    _shape_interfaces(spec, layout, lock)
    program = compiling.result()
    hostnames = directory / access.HOSTNAMES_DIRECTORY
    hostnames.mkdir(mode=0o700)
    make_hostnames(layout.everyone, hostnames)
    switch = start_switch(
        program, directory, switch_config(spec, layout, seed=state.seed), layout.fabric_target, lock=lock
    )
    program.unlink()
    (directory / access.HOSTS_FILE).write_text(access.hosts_text(layout), encoding="ascii")
    truth = make_truth(spec, layout, lab=state.name, seed=state.seed)
    write_document(truth, directory / TRUTH_FILE)
    agent = directory / access.RSH_AGENT_FILE
    agent.write_text(access.rsh_agent_text(layout, hostnames), encoding="ascii")
    agent.chmod(0o700)
    daemons: tuple[Process, ...] = ()
    if state.sshd:
        state = state.model_copy(update={"made_run_sshd": _makes_run_sshd()})
        state.save(directory)
        access.make_run_sshd()
        access.write_ssh_files(layout, directory, lock=lock)
        daemons = access.start_sshds(layout, directory, lock=lock)
    state.model_copy(update={"status": "up", "switch": switch, "daemons": daemons}).save(directory)


def _set_tcp(spec: LabSpec, layout: Layout) -> None:
    values = {} if spec.ecn_mark is None else {"tcp_ecn": "1"}
    if spec.congestion_control is not None:
        values["tcp_congestion_control"] = spec.congestion_control
    if values:
        set_tcp([host.target for host in layout.hosts], values)


def _shape_interfaces(spec: LabSpec, layout: Layout, lock: int) -> None:
    if spec.host_shaping != "interface":
        return
    for host in layout.hosts:
        rate = spec.host_rate_bytes_per_s(host.rack or 0)
        if not math.isinf(rate):
            queue = spec.host_queue_length(host.rack or 0)
            shape_interface(host.target, rate, queue.at_rate_bytes(rate), lock=lock)


def _check_congestion_control(spec: LabSpec) -> None:
    there = congestion_controls()
    if spec.congestion_control is not None and spec.congestion_control not in there:
        raise PlatformError(
            f"the hosts of a lab cannot have the TCP congestion control {spec.congestion_control!r} here: the sysctl "
            f"net.ipv4.tcp_allowed_congestion_control has {', '.join(there) or 'none'}"
        )


def _remove(name: str, lock: int) -> None:
    """Remove all that exists of a lab. The caller holds its lock."""
    directory = directory_of(name)
    state = LabState.load(directory)
    known = switches_by_name(name)
    # Of a state that somebody damaged or deleted the name is left. Of a lab that was only begun, nothing.
    namespaces = namespaces_by_name(name)
    if state is not None:
        known += [one for one in (state.switch, *state.daemons) if one is not None]
        namespaces = state.namespaces
        state.model_copy(update={"status": "removing"}).save(directory)
    end_processes(namespaces, known, hostnames=directory / access.HOSTNAMES_DIRECTORY)
    remove_namespaces(namespaces, lock=lock)
    if directory.exists():
        unmount_below(directory)
        shutil.rmtree(directory)
    if state is not None and state.made_run_sshd:
        access.remove_run_sshd()


def _sweep(*, but: str) -> None:
    """Remove what killed commands left: half-built labs, and temporary ones whose process is gone."""
    for name in forgotten_locks():
        with suppress(InputError), locked(name, wait_s=0):
            pass
    for name in lab_names():
        if name == but:
            continue
        state = LabState.load(directory_of(name))
        if not _is_left_over(name, state):
            continue
        # A child of a killed builder may hold the lock a moment longer; a builder that lives may hold it long.
        wait_s = LOCK_WAIT_S if state is not None and not state.builder.is_alive() else 0
        # Somebody else's trouble must not stop this command: `down` of that lab will tell of it.
        with suppress(InputError), locked(name, wait_s=wait_s) as lock:
            # Again, now that nobody else is at it.
            if _is_left_over(name, LabState.load(directory_of(name))):
                _remove(name, lock)


def _is_left_over(name: str, state: LabState | None) -> bool:
    if state is None:
        # A state that this version cannot read is somebody's all the same, and only `down` removes it.
        return not (directory_of(name) / STATE_FILE).exists()
    return state.status != "up" or (state.owner is not None and not state.owner.is_alive())


def _makes_run_sshd() -> bool:
    """Whether /run/sshd is a lab's, to be removed with the last of them, and not the machine's."""
    states = [LabState.load(directory_of(name)) for name in lab_names()]
    return not access.RUN_SSHD.exists() or any(state.made_run_sshd for state in states if state is not None)


def _is_up(name: str) -> bool:
    try:
        return find(name).status == "up"
    except InputError:
        return False


def _is_owned_by(name: str, owner: Process) -> bool:
    state = LabState.load(directory_of(name))
    return state is not None and state.owner == owner

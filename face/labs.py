"""A lab for the length of a ``with`` block: a fleet of network namespaces on this machine."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from types import TracebackType

from netprobe import lab as lab_
from netprobe.core.errors import InputError
from netprobe.core.text import one_line
from netprobe.face import arguments


class Lab:
    """A fleet on this machine, of a shipped spec (``racks-6-6-4``) or a spec's file; needs root on Linux.

    ``with netprobe.Lab("racks-6-6-4") as lab: netprobe.scan(lab)``. It is made when the block begins, and removed
    when that ends, also after an error. Raises SpecError, and PlatformError where this machine can hold no lab.
    """

    def __init__(self, spec: str | os.PathLike[str] = "racks-6-6-4", *, seed: int = 0) -> None:
        self._spec = lab_.load_spec(str(arguments.place(spec, "spec", "the name of a shipped lab")))
        self._seed = arguments.whole(seed, "seed")
        self._context: AbstractContextManager[lab_.Lab] | None = None
        self._lab: lab_.Lab | None = None

    def __enter__(self) -> Lab:
        if self._context is not None:
            raise InputError(f"the lab {self._spec.name} is up already: make another netprobe.Lab")
        context = lab_.temporary(self._spec, seed=self._seed)
        self._lab = context.__enter__()
        self._context = context
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        context, self._context, self._lab = self._context, None, None
        if context is not None:
            context.__exit__(kind, error, trace)

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts, in the order of the hosts file."""
        return [host.name for host in self._up().hosts]

    @property
    def hosts_file(self) -> str:
        """The path of the hosts file."""
        return str(self._up().hosts_path)

    @property
    def via(self) -> str:
        """The launcher's template that reaches the hosts."""
        return self._up().via_template

    @property
    def racks(self) -> list[list[str]]:
        """Where the hosts really are: names, rack by rack."""
        found: dict[int, list[str]] = {}
        for host in self._up().hosts:
            found.setdefault(host.rack or 0, []).append(host.name)
        return [found[rack] for rack in sorted(found)]

    def set(self, what: str, key: str, value: str) -> None:
        """Change it while it runs (docs/lab.md): ``lab.set("rack0:rack1", "delay", "2ms")``. Raises InputError."""
        lab_.set_value(self._up(), str(what), str(key), str(value))

    def _up(self) -> lab_.Lab:
        if self._lab is None:
            raise InputError(f"the lab {self._spec.name} is not up: with netprobe.Lab(...) as lab: makes it")
        return self._lab

    def __repr__(self) -> str:
        state = "not up" if self._lab is None else f"{len(self._lab.hosts)} hosts, up"
        return f"<Lab {one_line(self._spec.name, 80)}: {state}>"

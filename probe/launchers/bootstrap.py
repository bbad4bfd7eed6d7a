"""How the agent gets to a host: a small command, and everything else through standard input.

The command says that it is ready, and only then is anything sent: a login whose start-up file runs another shell in
its place would read the code as commands. The command's one argument then reads a length and that many bytes of
Python, the loader; the loader reads the agent's archive into an anonymous file in memory (memfd_create) and imports
it from there, what a task needs when the task comes, so nothing is left on the remote disk. Nonce and token travel in
the stream and are never in an argument vector, where every user of the host could read them.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import marshal
import secrets
import shlex
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from netprobe.core.errors import InputError
from netprobe.probe.agent import messages

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PACKAGE = "netprobe_agent"
LOADER_TIMEOUT_S = 60

READY = b"\nnetprobe-ready\n"
"""What the command prints before it reads. It is in no argument in this form, which a shell may print too."""

_SAY_READY = 'l=os.linesep.encode();os.write(1,l+b"netprobe-"+b"ready"+l);'

_STAGE0 = (
    'r=lambda n,b=b"":b if len(b)==n else r(n,b+(os.read(0,n-len(b))or os._exit(3)));exec(r(int(r(8),16)))'
)
STAGE0 = f"import os;{_SAY_READY}{_STAGE0}"
"""Valid on every Python, and free of what a shell could change inside single quotes."""
SILENT_STAGE0 = f"import os;{_STAGE0}"
"""The same for agents that all have one standard input and output, and for which nobody waits."""

SILENT_SETUP = (
    "np_s=; np_n=$(echo; echo _); np_n=${np_n%_}; read -r np_c || exit 3; "
    'while [ "$np_c" -gt 0 ]; do IFS= read -r np_l || exit 3; np_s=$np_s$np_l$np_n; np_c=$((np_c-1)); done; '
    'eval "$np_s" </dev/null >&2 || '
    '{ echo "netprobe: the set-up lines failed with exit code $?" >&2; exit 3; }; exec "$@"'
)
"""Runs the user's lines in the shell that then becomes Python, so that what they export is there.

They come first in the stream, their number before them, and are in no argument: a login shell such as csh breaks
an argument at a line's end and expands a ``!``, even inside single quotes. They cannot read the stream that is meant
for Python, and what they print goes to standard error. No name of a host is in this text or in them.
"""
SETUP = f'echo; echo netprobe-"ready"; {SILENT_SETUP}'

LOADER = """
import sys
if sys.version_info < (3, 8):
    sys.stderr.write("netprobe: this is Python %d.%d, and 3.8 or later is needed\\n" % sys.version_info[:2])
    sys.stderr.flush()
    os._exit(3)
import signal
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
n = int(r(8), 16)
parts = []
while n:
    part = os.read(0, min(n, 65536)) or os._exit(3)
    parts.append(part)
    n -= len(part)
path = None
try:
    fd = os.memfd_create("netprobe_agent")
    name = "/proc/self/fd/%d" % fd
    if not os.path.exists(name):
        raise OSError
except (AttributeError, OSError):
    import tempfile
    fd, path = tempfile.mkstemp(prefix="netprobe-", suffix=".zip")
    name = path
for part in parts:
    os.write(fd, part)
parts = part = None
sys.path.insert(0, name)
sys.dont_write_bytecode = True
try:
    from netprobe_agent import main
    if path:
        main.import_all()
finally:
    if path:
        os.unlink(path)
sys.path.remove(name)
main.main()
"""


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What a launcher needs to start an agent: the command, the stream, and the marker that answers it."""

    nonce: str
    lease_s: float
    python: str | None = None
    """Command that runs Python on the hosts, split as a shell would; None is the launcher's default."""
    setup: str | None = None
    """Shell lines to run on each host before Python."""

    def command(self, default: str, *, announces: bool = True) -> list[str]:
        """The agent's argument vector. -I and -S keep the user's packages out, -B leaves no cache behind.

        It prints ``READY`` before it reads each of ``parts``, unless it is not to announce itself.
        """
        text = self.python if self.python is not None else default
        try:
            words = shlex.split(text)
        except ValueError:
            words = []
        if not words:
            raise InputError(f"--python {text!r} is not a command")
        command = [*words, "-ISB", "-c", STAGE0 if announces else SILENT_STAGE0]
        if self.setup is None:
            return command
        return ["sh", "-c", SETUP if announces else SILENT_SETUP, "netprobe-setup", *command]

    def config(self) -> bytes:
        """The agent's first frame."""
        return messages.json_frame({"type": "config", "nonce": self.nonce, "lease_s": self.lease_s})

    def stream(self, first: bytes | None = None) -> bytes:
        """What to write to the agent's standard input; its frames follow. ``first`` replaces ``config``."""
        return b"".join(self.parts(first))

    def parts(self, first: bytes | None = None) -> list[bytes]:
        """The stream in the parts that are written one by one, each when ``READY`` has come."""
        loader = LOADER.replace("TIMEOUT", str(LOADER_TIMEOUT_S)).encode()
        archive = agent_archive()
        start = b"%08x" % len(loader) + loader + b"%08x" % len(archive) + archive
        code = start + (self.config() if first is None else first)
        if self.setup is None:
            return [code]
        lines = self.setup.split("\n")
        return ["".join(f"{line}\n" for line in (str(len(lines)), *lines)).encode(), code]

    @property
    def marker(self) -> bytes:
        """What the agent writes before its first frame."""
        return messages.marker(self.nonce)


def new_payload(*, lease_s: float, python: str | None = None, setup: str | None = None) -> Payload:
    """A payload with a fresh nonce."""
    return Payload(nonce=secrets.token_hex(16), lease_s=lease_s, python=python, setup=setup)


@functools.lru_cache(maxsize=1)
def agent_archive() -> bytes:
    """The files of probe/agent as a zip; the same files give the same bytes.

    Beside each source lies its bytecode: a host whose Python has the controller's version starts in half the
    processor time, and any other one finds a foreign magic number and compiles the source.
    """
    buffer = io.BytesIO()
    folder = resources.files("netprobe.probe.agent")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path, source in _sources(folder):
            for name, data in ((path, source), (f"{path}c", _bytecode(path, source))):
                info = zipfile.ZipInfo(f"{PACKAGE}/{name}")
                info.external_attr = 0o644 << 16
                archive.writestr(info, data)
    return buffer.getvalue()


def _sources(folder: Traversable, inside: str = "") -> Iterator[tuple[str, bytes]]:
    """Each module below a folder, as its path from there and its text, in the order of names."""
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".py"):
            yield inside + entry.name, entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry, f"{inside}{entry.name}/")


def _bytecode(name: str, source: bytes) -> bytes:
    """A .pyc whose source is never looked at again (PEP 552, unchecked)."""
    code = compile(source, f"{PACKAGE}/{name}", "exec", dont_inherit=True, optimize=2)
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", 1) + importlib.util.source_hash(source)
    return head + marshal.dumps(code, 2)  # later versions' bytes depend on what else refers to an object

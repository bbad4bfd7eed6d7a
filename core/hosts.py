"""A host, and the lists of hosts that people write down.

A host is several things: the ``name`` shown, the ``target`` its launcher is given (an ssh alias, a pod, a
Slurm node), the ``address`` its peers probe, the ``launcher_name`` that mpirun or Slurm prints, its
``slots`` and its ``labels``.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from netprobe.core.errors import HostsError
from netprobe.core.naming import expand_ranges, name_fault, natural_key, split_list, target_fault

MAX_HOSTS = 65_536
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_SLOTS = 1_000_000
MAX_LINE = 65_536


class Host(BaseModel):
    """One host. ``address`` is None until it is given or an agent has reported it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    target: str = ""
    address: str | None = None
    launcher_name: str = ""
    slots: int | None = Field(default=None, ge=1, le=MAX_SLOTS)
    labels: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: object) -> object:
        """An unwritten target or launcher name is the name itself."""
        if isinstance(data, dict) and isinstance(data.get("name"), str):
            data = dict(data)
            data["target"] = data.get("target") or data["name"]
            data["launcher_name"] = data.get("launcher_name") or data["name"]
        return data

    @field_validator("name", "launcher_name", "address")
    @classmethod
    def _check_name(cls, value: str | None, info: object) -> str | None:
        what = getattr(info, "field_name", "name").replace("_", " ")
        fault = None if value is None else name_fault(value, what="host name" if what == "name" else what)
        if fault:
            raise ValueError(fault)
        if what == "address" and value is not None and _looks_numeric(value) and not is_ip_address(value):
            raise ValueError(f"address {value!r} is not an IP address (a leading zero would mean octal)")
        return value

    @field_validator("target")
    @classmethod
    def _check_target(cls, value: str) -> str:
        fault = target_fault(value)
        if fault:
            raise ValueError(fault)
        return value


def make_host(
    name: str,
    *,
    source: str | None = None,
    line: int | None = None,
    **fields: object,
) -> Host:
    """Build a host, turning any fault into a HostsError of one line."""
    try:
        return Host.model_validate({"name": name, **fields})
    except ValidationError as error:
        # A field that was not written is the name again, and so is its fault.
        written = [e for e in error.errors() if e["loc"][:1] in (("name",), ()) or e["loc"][0] in fields]
        faults = [str(e["msg"]).removeprefix("Value error, ") for e in written]
        places = [".".join(str(p) for p in e["loc"]) for e in written]
        text = "; ".join(f if "name" in f or "target" in f else f"{p}: {f}" for p, f in zip(places, faults))
        raise HostsError(text, source=source, line=line) from None


def check_hosts(hosts: Sequence[Host], *, source: str | None = None) -> tuple[Host, ...]:
    """Refuse an empty list, a name twice and a target or address that names two hosts."""
    if not hosts:
        raise HostsError("no host in it: write one host a line", source=source)
    if len(hosts) > MAX_HOSTS:
        raise HostsError(f"{len(hosts)} hosts: at most {MAX_HOSTS} are allowed", source=source)
    for what in ("name", "target", "address"):
        seen: dict[str, str] = {}
        for host in hosts:
            value = getattr(host, what)
            if value is None:
                continue
            if value in seen:
                fault = (
                    f"host name {value!r} is listed twice: list each host once"
                    if what == "name"
                    else f"hosts {seen[value]!r} and {host.name!r} have the same {what} {value!r}"
                )
                raise HostsError(fault, source=source)
            seen[value] = host.name
    return tuple(hosts)


def parse_hosts_line(text: str, *, source: str | None = None, line: int | None = None) -> list[Host]:
    """The hosts of one line: ``NAME [key=value ...]`` or ``NAME ADDRESS``; none for a comment.

    ADDRESS alone is an IP address, or has ``{name}`` in it: any other second word could be another host, and an address
    that is a name is written ``address=``.

    A NAME may be a range (``gpu[001-064]``); the keys target, address and launcher_name are ranges of the
    same length then, or templates in which ``{name}`` is replaced by the host's name.
    """
    words = _words(text, source=source, line=line)
    if not words:
        return []
    if len(words) > 1 and is_ip_address(words[0]) and "=" not in words[1] and not is_ip_address(words[1]):
        raise HostsError(
            f"'{words[0]} {words[1]}' is a line of /etc/hosts, address first: a hosts file has the name first, as in "
            f"'{words[1]} {words[0]}' (leave localhost out)",
            source=source,
            line=line,
        )
    _refuse_several(words, source=source, line=line)
    fields: dict[str, object] = {}
    labels: dict[str, str] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals:
            fields["address"] = word
        elif key in fields or key.removeprefix("label.") in labels:
            raise HostsError(f"{key!r} is given twice", source=source, line=line)
        elif key in ("target", "address", "launcher_name"):
            fields[key] = value
        elif key == "slots":
            fields[key] = _slots(value, source=source, line=line)
        elif key.startswith("label.") and len(key) > len("label."):
            labels[key.removeprefix("label.")] = value
        else:
            known = "target, address, launcher_name, slots, label.K"
            raise HostsError(f"unknown key {key!r}: known are {known}", source=source, line=line)
    if labels:
        fields["labels"] = labels
    try:
        names = expand_ranges(words[0])
        columns = {key: _column(value, names) for key, value in fields.items()}
    except HostsError as error:
        raise HostsError(str(error), source=source, line=line) from None
    return [
        make_host(name, source=source, line=line, **{key: column[i] for key, column in columns.items()})
        for i, name in enumerate(names)
    ]


def _refuse_several(words: Sequence[str], *, source: str | None, line: int | None) -> None:
    """Refuse a line of several names, or one in which commas part them. Raises HostsError."""
    bare = [word for word in words[1:] if "=" not in word]
    if any(len(split_list(word)) > 1 or word.endswith(",") for word in (words[0], *bare) if "," in word):
        raise HostsError(
            f"{' '.join(words)[:60]!r} is a list with commas: write one host a line (--hosts takes a list: a,b)",
            source=source,
            line=line,
        )
    fault = name_fault(words[0]) if bare and "[" not in words[0] else None
    if fault is not None:
        raise HostsError(fault, source=source, line=line)
    if bare and len(words) > 2 and _is_plain_address(bare[0]):
        fault = f"{bare[0]!r} is not a KEY=VALUE: beside others an address is written address={bare[0]}"
        raise HostsError(fault, source=source, line=line)
    if bare and not _is_plain_address(bare[0]):
        also = f" (an address that is a name: '{words[0]} address={bare[0]}')" if len(words) == 2 else ""
        raise HostsError(
            f"{bare[0]!r} behind {words[0]!r} is neither an IP address nor a KEY=VALUE: write one host a line{also}",
            source=source,
            line=line,
        )


def _is_plain_address(word: str) -> bool:
    """Whether a word without ``address=`` can be nothing but an address, or is like one that is mistyped."""
    return "{name}" in word or word.isdigit() or set(word) <= set("0123456789.[]-,") or ":" in word


def parse_hosts_text(text: str, *, source: str | None = None) -> tuple[Host, ...]:
    """Read a whole hosts file. All of its lines must be hosts; raises HostsError naming the line."""
    hosts: list[Host] = []
    for number, line in enumerate(text_lines(text), start=1):
        hosts.extend(parse_hosts_line(line, source=source, line=number))
        if len(hosts) > MAX_HOSTS:
            raise HostsError(f"more than {MAX_HOSTS} hosts", source=source)
    return check_hosts(hosts, source=source)


def text_lines(text: str) -> list[str]:
    """Lines as editors count them: str.splitlines would break at characters that nobody sees as an end."""
    return re.split(r"\r\n|\n|\r", text)


def checked_lines(text: str, *, source: str | None = None) -> Iterator[tuple[int, str]]:
    """Lines of a text of any format, numbered from 1. Raises HostsError as ``check_line`` does."""
    for number, line in enumerate(text_lines(text), start=1):
        check_line(line, source=source, line=number)
        yield number, line


def check_line(text: str, *, source: str | None = None, line: int | None = None) -> None:
    """Raise HostsError for a line that is too long, or that has characters which nobody sees."""
    if len(text) > MAX_LINE:
        raise HostsError(f"a line of {len(text)} characters: at most {MAX_LINE}", source=source, line=line)
    if not text.isprintable() and not all(c.isprintable() or c in "\t\v\f" for c in text):
        raise HostsError("a line with control or invisible characters", source=source, line=line)


def read_hosts_file(path: Path) -> tuple[Host, ...]:
    """Read a hosts file from disk. Raises HostsError when it is missing, huge or not text."""
    return parse_hosts_text(read_hosts_file_text(path), source=str(path))


def read_hosts_file_text(path: Path) -> str:
    """The text of a file of hosts, in any format. Raises HostsError when it is missing, huge or not text."""
    source = str(path)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise HostsError("no regular file: write the hosts to one first", source=source)
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise HostsError("no such hosts file", source=source) from None
    except OSError as error:
        raise HostsError(f"cannot be read: {error.strerror}", source=source) from None
    except ValueError:
        raise HostsError("no such hosts file", source=repr(source[:60])) from None
    if len(data) > MAX_FILE_BYTES:
        raise HostsError(f"larger than {MAX_FILE_BYTES} bytes: is this a hosts file?", source=source)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HostsError("not a UTF-8 text file", source=source) from None


def parse_host_list(text: str) -> tuple[Host, ...]:
    """Hosts of a comma list with ranges: ``a,b,gpu[001-064]``."""
    names: list[str] = []
    for item in split_list(text):
        names += expand_ranges(item)
        if len(names) > MAX_HOSTS:
            raise HostsError(f"the list names more than {MAX_HOSTS} hosts", source="hosts")
    return check_hosts([make_host(name, source="hosts") for name in names], source="hosts")


def load_hosts(argument: str) -> tuple[Host, ...]:
    """What ``--hosts`` takes: a file, or a comma list or range such as ``a,b`` or ``gpu[001-064]``.

    A single bare word is always a file: a mistyped path must never become a host of that name.
    """
    path = Path(argument)
    listed = "," in argument or ("[" in argument and "/" not in argument)
    if not argument.strip():
        raise HostsError("--hosts is empty: give a file, or a list such as a,b or gpu[001-064]")
    try:
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if exists or not listed:
        if not exists and "\0" not in argument:
            raise HostsError(
                "no such hosts file (a list needs a comma or a range: 'a,b', 'gpu[001-064]', 'one,')",
                source=argument,
            )
        return read_hosts_file(path)
    return parse_host_list(argument)


def format_hosts(hosts: Iterable[Host]) -> str:
    """The hosts as lines of a hosts file; ``parse_hosts_text`` reads back the same hosts."""
    lines = []
    for host in hosts:
        words = [host.name]
        words += [f"target={host.target}"] if host.target != host.name else []
        words += [f"address={host.address}"] if host.address is not None else []
        words += [f"launcher_name={host.launcher_name}"] if host.launcher_name != host.name else []
        words += [f"slots={host.slots}"] if host.slots is not None else []
        words += [f"label.{key}={value}" for key, value in host.labels.items()]
        lines.append(" ".join(shlex.quote(word) for word in words))
    return "".join(line + "\n" for line in lines)


def natural_order(hosts: Sequence[Host]) -> list[int]:
    """Indices that put ``hosts`` into natural name order."""
    return sorted(range(len(hosts)), key=lambda i: natural_key(hosts[i].name))


def _looks_numeric(text: str) -> bool:
    return all(c in "0123456789." for c in text)


def is_ip_address(text: str) -> bool:
    """Whether ``text`` is a literal IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _words(text: str, *, source: str | None, line: int | None) -> list[str]:
    check_line(text, source=source, line=line)
    if not text or text.isspace():
        return []
    lexer = shlex.shlex(_without_comment(text), posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.escape = ""
    try:
        return list(lexer)
    except ValueError:
        raise HostsError(f"unbalanced quotes in {text[:60]!r}", source=source, line=line) from None


def _without_comment(text: str) -> str:
    """``text`` up to a ``#`` that begins a word outside quotes."""
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (at == 0 or text[at - 1].isspace()):
            return text[:at]
    return text


def _slots(value: str, *, source: str | None, line: int | None) -> int:
    if not (value.isascii() and value.isdigit() and 1 <= len(value) <= 7 and 1 <= int(value) <= MAX_SLOTS):
        raise HostsError(
            f"slots={value[:20]!r} is not a whole number of 1 to {MAX_SLOTS}", source=source, line=line
        )
    return int(value)


def _column(value: object, names: Sequence[str]) -> list[object]:
    """One value for each name of a range."""
    if not isinstance(value, str):
        return [value] * len(names)
    if "{name}" in value:
        return [value.replace("{name}", name) for name in names]
    if "[" not in value:
        return [value] * len(names)
    expanded = expand_ranges(value)
    if len(expanded) != len(names):
        raise HostsError(f"{value!r} names {len(expanded)} values for {len(names)} hosts")
    return list(expanded)


def plain_host(host: Host) -> Host:
    """``host`` without what a scan found out about it."""
    return Host.model_validate({key: getattr(host, key) for key in Host.model_fields})

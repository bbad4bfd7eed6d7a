"""What may follow on a command line, and the scripts by which bash, zsh and fish ask for it.

It is read from the commands themselves, so that it works the same under any version of typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from netprobe.cli.lazy import Lazy

_BASH = """\
_netprobe() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done < <(netprobe completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _netprobe netprobe
"""
_ZSH = """\
#compdef netprobe
_netprobe() {
    local -a found
    local line
    while IFS= read -r line; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done < <(netprobe completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe -o netprobe found; else _files; fi
}
if [ "$funcstack[1]" = _netprobe ]; then _netprobe "$@"; else compdef _netprobe netprobe; fi
"""
_FISH = """\
function __netprobe_words
    set -l before (commandline -opc)
    set -l last (commandline -ct)
    netprobe completion words -- $before[2..-1] "$last" 2>/dev/null
end
complete -c netprobe -a '(__netprobe_words)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

Candidate = tuple[str, str]


def candidates(words: Sequence[str]) -> list[Candidate]:
    """What the last of ``words``, as far as it is typed, may become, each with a line of help.

    ``words`` are those after ``netprobe``. None means that the shell's own completion, of files, is right.
    """
    *before, typed = words
    from netprobe.cli.app import app, made

    command, rest = made(app), list(before)
    while rest and hasattr(command, "commands") and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        found = _options(command) if typed.startswith("-") else _commands(command) if not rest else []
    elif "--" in rest:
        found = []
    elif rest and (option := _option(command, rest[-1])) is not None and not _is_flag(option):
        found = _choices(option)
    elif typed.startswith("-"):
        found = _options(command)
    else:
        found = _arguments(command, rest)
    return [one for one in found if one[0].startswith(typed)]


def _commands(group: Any) -> list[Candidate]:
    """Names and their help; none that is not loaded is loaded for it."""
    found = []
    for name in group.commands:
        one = dict.__getitem__(group.commands, name)
        found.append((name, one.help if isinstance(one, Lazy) else _first(one.help)))
    return found


def _options(command: Any) -> list[Candidate]:
    found = [
        (word, _first(getattr(one, "help", None)))
        for one in command.params
        if one.param_type_name == "option" and not getattr(one, "hidden", False)
        for word in (*one.opts, *one.secondary_opts)
        if word.startswith("--")
    ]
    return [*found, ("--help", "Show this message and exit.")]


def _option(command: Any, word: str) -> Any:
    return next((one for one in command.params if word.startswith("-") and word in one.opts), None)


def _is_flag(option: Any) -> bool:
    return bool(getattr(option, "is_flag", False) or getattr(option, "count", False))


def _choices(param: Any) -> list[Candidate]:
    return [
        (str(getattr(one, "value", one)), "") for one in getattr(getattr(param, "type", None), "choices", ())
    ]


def _arguments(command: Any, before: Sequence[str]) -> list[Candidate]:
    """The words that an argument can be, where they are known."""
    if command.name == "help":
        from netprobe.cli.app import app, made

        group: Any = made(app)
        for word in before:
            group = getattr(group, "commands", {}).get(word)
        return _commands(group) if hasattr(group, "commands") else []
    if before:
        return []
    if command.name == "docs":
        from netprobe.pipeline.pages import page_titles

        return list(page_titles().items())
    if command.name == "schema":
        from netprobe.pipeline.published import schemas

        return _plain(schemas())
    if command.name == "completion":
        return _plain(SCRIPTS)
    return [one for param in command.params if param.param_type_name == "argument" for one in _choices(param)]


def _plain(words: Iterable[str]) -> list[Candidate]:
    return [(word, "") for word in words]


def _first(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())

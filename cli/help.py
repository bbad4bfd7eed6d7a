"""Help of a command: its options under a few headings, those that most need first, and two examples at the end.

Which heading an option has is said here, in one place: an option is shared by several commands.
"""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

_Record = tuple[str, str]
HEADINGS: dict[str, tuple[str, ...]] = {
    "Hosts": ("hosts", "lab", "selector", "root", "slots", "labels", "truth"),
    "Reaching them": ("via", "ssh_config", "subnet", "interface", "port_range"),
    "Probing": ("dry_run", "resume", "gentle", "rate", "time", "pairs", "latency", "measure", "measurement"),
    "Grouping": ("groups", "k", "like"),
    "Ordering": ("algorithm", "objective", "size", "capacity", "map_", "scan", "verify", "against", "with_"),
    "Running": ("env", "chdir"),
    "Looking": ("links", "host", "slowest", "csv", "tree"),
    "Output": ("out", "format_", "only", "force", "json", "verbose", "quiet"),
}
ADVANCED = "Advanced"
"""Whatever has no heading of its own."""
_OTHERWISE: dict[tuple[str | None, Any], str] = {
    ("scan", "size"): ADVANCED,  # of goodput tests
    ("launch", "dry_run"): "Running",
    ("launch", "check"): "Running",
}
"""Headings of options that mean another thing in one command."""
_TYPE = re.compile(r" <[a-z]\S*>")
_FEW = 10
"""Up to so many options need no headings."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "scan": ("scan 'vm[1-8]' --out first", "scan hosts.txt --dry-run"),
    "map": ("map first --groups sqrt --out map2.json", "map first --k 4 --out map4.json"),
    "capacity": ("capacity first --dry-run", "capacity first --seconds 2"),
    "auto": ("plan first", "plan auto first --size 1GB --out plan-1GB.json"),
    "order": (
        "plan order first --out plan2.json",
        "plan order first --algorithm halving-doubling --out hd.json",
    ),
    "2lha": (
        "plan 2lha first --out 2lha.json",
        "plan 2lha first --grouping sqrt --out sqrt.json",
    ),
    "ds-sync": ("plan ds-sync first", "plan ds-sync first --contended group:g1 --out contended.json"),
    "verify": ("verify first", "verify first --with mpi --out mpi.json"),
    "hostfile": ("export first", "export first --format mpich"),
    "topology": ("export topology first", "export topology first --format kubernetes"),
    "schedule": ("export schedule first/plan-auto.json", "export schedule first/plan-auto.json --format svg"),
    "check-order": ("check-order first --run", "check-order first --launcher slurm"),
    "launch": (
        "launch first -- torchrun --nproc-per-node=8 train.py",
        "launch first --env HF_TOKEN --dry-run -- ./job",
    ),
    "show": ("show first", "show first --slowest 20"),
    "eval": ("eval first --labels zone,rack", "eval first/map.json --truth topology.conf"),
    "matrix": (
        "import matrix latency.csv --unit us",
        "import matrix - --unit ms --out table.json <table.txt",
    ),
    "doctor": ("doctor", "doctor --hosts hosts.txt"),
    "up": ("lab up pair", "lab up racks-4x4 --name demo"),
    "list": ("lab list", "lab list --json"),
    "exec": ("lab exec demo -- ping -c1 h-hf2b", "lab exec demo --host h-hf2b -- ip addr"),
    "set": ("lab set demo h-hf2b loss=20%", "lab set demo rack0:rack1 delay=1ms"),
    "down": ("lab down demo", "lab down --all"),
    "kubernetes": ("manifest kubernetes | kubectl apply -f -", "manifest kubernetes --host-network"),
    "plan": ("plan first", "plan order first --out plan2.json"),
    "export": ("export first", "export topology first"),
    "import": (
        "import matrix latency.csv --unit us",
        "import matrix - --unit ms --out table.json <table.txt",
    ),
    "lab": ("lab up racks-4x4 --name demo", "lab down demo"),
    "manifest": ("manifest kubernetes | kubectl apply -f -", "manifest kubernetes --host-network"),
    "docs": ("docs", "docs launchers"),
    "completion": ("completion bash", "completion fish >~/.config/fish/completions/netprobe.fish"),
    "help": ("help scan", "help plan order"),
    "schema": ("schema map", "schema plan >plan.schema.json"),
}
"""Two of each command, and of each group, by its last word. Either works where the folder of a scan, or the lab
``racks-4x4`` under the name demo, is there, and both in turn (tests/cli/test_help_examples.py types them)."""


class Command(TyperCommand):
    """A command whose help is as this module says."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """As usual, but for help alone: to read one option typer imports pydantic, which takes longer than help."""
        if args[:1] and args[0] in ctx.help_option_names and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options under their headings."""
        for heading, records in records_of(self, ctx):
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Two examples."""
        super().format_epilog(ctx, formatter)
        write_examples(self.name, formatter)


def write_examples(command: str | None, formatter: Any) -> None:
    """The two of a command or a group, on lines that are never wrapped."""
    examples = EXAMPLES.get(command or "", ())
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':{formatter.current_indent}}netprobe {example}\n")


def records_of(command: Any, ctx: Any) -> list[tuple[str, list[_Record]]]:
    """What help says of a command's arguments and options: headings, each with words and texts."""
    arguments, options = [], []
    for param in command.get_params(ctx):
        _name_value(param)
        record = param.get_help_record(ctx)
        if record is not None and param.param_type_name == "argument":
            arguments.append((_TYPE.sub("", record[0]), record[1]))
        elif record is not None:
            options.append((param.name, record))
    return [("Arguments", arguments)] * bool(arguments) + _under_headings(options, command.name)


def _under_headings(
    options: list[tuple[Any, tuple[str, str]]], command: str | None
) -> list[tuple[str, list[tuple[str, str]]]]:
    if len(options) <= _FEW:
        return [("Options", [record for _, record in options])] if options else []
    of = {name: heading for heading, names in HEADINGS.items() for name in names}
    found: dict[str, list[_Record]] = {heading: [] for heading in (*HEADINGS, ADVANCED)}
    rank = {name: place for names in HEADINGS.values() for place, name in enumerate(names)}
    for name, record in sorted(options, key=lambda option: rank.get(option[0], 99)):
        heading = _OTHERWISE.get((command, name)) or of.get(name, ADVANCED)
        found[heading].append(record)
    return [(heading, records) for heading, records in found.items() if records]


def _name_value(param: Any) -> None:
    """An option without a word for its value has its own name: ``--root ROOT``, never ``<str>``."""
    if param.param_type_name == "option" and not param.is_flag and param.metavar is None:
        longest = max(param.opts, key=len)
        param.metavar = longest.lstrip("-").upper().replace("-", "_")

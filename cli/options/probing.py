"""Options of ``netprobe scan`` that say what is probed, how fast, and whether it goes on with a scan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from netprobe.cli.output import Output
    from netprobe.pipeline.scanning.measuring import Measuring
    from netprobe.probe.records.options import ScanOptions
    from netprobe.probe.records.visits import VisitResult
    from netprobe.probe.scan.estimate import PhaseEstimate

ProbesOption = Annotated[
    int, typer.Option("--probes", help="Probes of one visit; each pair gets two visits.")
]
IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", help="Mean time between the probes of a link.")
]
LinksAtOnceOption = Annotated[
    int, typer.Option("--links-at-once", metavar="N", help="Links measured at a time (0: half of the hosts).")
]
PairsOption = Annotated[
    str | None,
    typer.Option(
        "--pairs", metavar="N", help="Probe so many pairs, or a share such as 5%, the most telling ones."
    ),
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="60s", help="Probe for so long, the most telling pairs first.")
]
RateOption = Annotated[
    str | None,
    typer.Option("--rate", metavar="RATE", help="Keep the scan's traffic below this: 10Mbit/s, say."),
]
GentleOption = Annotated[
    bool,
    typer.Option("--gentle", help="For fleets that are working: few links at a time, long intervals."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and start nothing.")]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with the scan in --out that ended early.")
]

GENTLE = {"links_at_once": 4, "interval_s": 0.01, "probes_per_visit": 50, "goodput_at_once": 1}
"""What ``--gentle`` sets where no option was given: 4 links, each with 100 packets a second each way, and one
test of goodput at a time."""
_OPTION_OF = {"probes_per_visit": "probes", "interval_s": "interval", "start_timeout_s": "start_timeout"}


def given_fields(ctx: typer.Context) -> dict[str, str]:
    """Fields of ScanOptions that were given on the command line, with the names of their options."""
    from netprobe.probe.records.options import ScanOptions

    given = {}
    for field in fields(ScanOptions):
        name = _OPTION_OF.get(field.name, field.name)
        if given_on_command_line(ctx, name):
            given[field.name] = "--" + name.replace("_", "-")
    for name in ("ipv4", "ipv6"):
        if given_on_command_line(ctx, name):
            given["family"] = f"--{name}"
    return given


def given_on_command_line(ctx: typer.Context, name: str) -> bool:
    """Whether the user gave a value for this parameter."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def given_words(ctx: typer.Context, words: Iterable[str]) -> dict[str, str]:
    """Those of ``words`` (parameters of the command) that were given on the command line, with their options."""
    return {word: "--" + word.replace("_", "-") for word in words if given_on_command_line(ctx, word)}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How the scan is to be made, as it was asked for: ``given_fields`` and ``given_words`` among it."""

    resume: bool
    dry_run: bool
    rate: str | None
    gentle: bool
    given: Mapping[str, str]
    words: Mapping[str, str]

    def settle(
        self, options: ScanOptions, measuring: Measuring, hosts: int
    ) -> tuple[ScanOptions, dict[str, str]]:
        """The options at the pace that was asked for, and which fields somebody chose by which option.

        Raises InputError and InfeasibleError.
        """
        from netprobe.core.errors import InputError

        chosen = dict(self.given)
        if self.gentle:
            if measuring.capacity is not None:
                raise InputError(
                    "--gentle does not go with capacity, which fills the links of many hosts at once: leave one out"
                )
            preset = {key: value for key, value in GENTLE.items() if key not in chosen}
            options = replace(options, **preset)  # type: ignore[arg-type]
            chosen |= dict.fromkeys(preset, "--gentle")
        if self.rate is not None:
            options = below_rate(options, measuring, self.rate, hosts, self.given)
            chosen |= dict.fromkeys(("links_at_once", "interval_s"), "--rate")
        return options, chosen


def below_rate(
    options: ScanOptions, measuring: Measuring, rate: str, hosts: int, given: Mapping[str, str]
) -> ScanOptions:
    """The options at a pace whose traffic stays below ``rate``. Raises InputError, InfeasibleError."""
    from netprobe.core.errors import InputError
    from netprobe.lab.spec.quantities import rate_bytes_per_s
    from netprobe.pipeline.scanning.estimating import options_below

    try:
        most = rate_bytes_per_s(rate)
    except ValueError as error:
        raise InputError(f"--rate: {error}") from None
    if most <= 0:
        raise InputError(f"--rate {rate!r}: more than nothing is needed")
    at_once, interval_s = options_below(most, hosts, options, measuring, stretch="interval_s" not in given)
    return replace(options, links_at_once=at_once, interval_s=interval_s)


def show_estimate(
    hosts: int,
    options: ScanOptions,
    measuring: Measuring,
    output: Output,
    *,
    earlier: Sequence[VisitResult] | None = None,
) -> None:
    """What ``--dry-run`` says of a scan; of one that is gone on with, whose visits are ``earlier``, what is left."""
    from netprobe.pipeline.scanning.estimating import estimate_scan
    from netprobe.pipeline.scanning.goodput import assumed_sizes

    show_phases(
        hosts,
        estimate_scan(hosts, options, measuring, earlier=earlier or ()),
        output,
        what="" if earlier is None else "Of the scan that is gone on with this is left. ",
    )
    from netprobe.report.units import count

    output.say(f"{count(options.probes_per_visit, 'probe')} a visit, {1e3 * options.interval_s:.3g} ms apart")
    if measuring.goodput is not None or measuring.capacity is not None:
        output.say(
            f"flows are thought to run at 1 Gbit/s each, and the hosts to form "
            f"{count(len(assumed_sizes(hosts)), 'equal group')}; faster links carry more, other groups need other "
            "rounds"
        )
    if measuring.goodput is not None and measuring.goodput.options.way == "auto":
        output.say("goodput is thought to be of iperf3; where a host lacks it, tests are shorter (tcp)")


def show_phases(hosts: int, phases: Sequence[PhaseEstimate], output: Output, *, what: str = "") -> None:
    """What nothing but the phases costs, for people and as JSON."""
    from netprobe.probe.scan.estimate import bytes_text, rate_text
    from netprobe.report.units import count

    output.say(
        f"{count(hosts, 'host')}; nothing was started. {what}With all of them up, and the launch of the agents "
        "not counted:"
    )
    for phase in phases:
        rounds, links = ("tests", "flows") if phase.measurement == "capacity" else ("rounds", "links")
        output.say(
            f"{phase.measurement} ({phase.method}): {phase.rounds} {rounds}, {phase.links} {links}, at most "
            f"{phase.links_at_once} at once: about {phase.seconds:.0f} s, {bytes_text(phase.bytes)}, at most "
            f"{rate_text(phase.bytes_per_s)} in all"
        )
    data: dict[str, Any] = {
        "dry_run": True,
        "hosts": hosts,
        "rounds": sum(phase.rounds for phase in phases),
        "links": sum(phase.links for phase in phases),
        "seconds": sum(phase.seconds for phase in phases),
        "bytes": sum(phase.bytes for phase in phases),
        "measurements": [asdict(phase) for phase in phases],
    }
    output.result(data)

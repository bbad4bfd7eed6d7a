"""How fast a scan probes: what ``--gentle`` and ``--rate`` make of its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from netprobe.core.errors import InputError
from netprobe.core.units import parse_rate_bytes_per_s
from netprobe.pipeline.scanning.estimating import options_below
from netprobe.pipeline.scanning.measuring import Measuring
from netprobe.probe.records.options import ScanOptions

GENTLE = {"links_at_once": 4, "interval_s": 0.01, "probes_per_visit": 50, "goodput_at_once": 1}
"""What ``--gentle`` sets where the user gave no value: 4 links, each with 100 packets a second each way, and one
goodput test at a time."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The pace that the user wants."""

    rate: str | None = None
    """The scan's traffic stays below this rate, such as ``10Mbit/s``."""
    gentle: bool = False
    explicit: Mapping[str, str] = field(default_factory=dict)
    """Fields of ScanOptions that the user gave a value for, and the name of the option of each."""

    def apply(
        self, options: ScanOptions, measuring: Measuring, hosts: int
    ) -> tuple[ScanOptions, dict[str, str]]:
        """The options at this pace, and which fields the user chose by which option.

        Raises InputError and InfeasibleError.
        """
        chosen = dict(self.explicit)
        if self.gentle:
            if measuring.capacity is not None:
                raise InputError(
                    "--gentle does not go with capacity, which fills the links of many hosts at once: leave one out"
                )
            preset = {key: value for key, value in GENTLE.items() if key not in chosen}
            options = replace(options, **preset)  # type: ignore[arg-type]
            chosen |= dict.fromkeys(preset, "--gentle")
        if self.rate is not None:
            if options.latency == "auto":  # the rate is that of UDP probes: TCP handshakes would exceed it
                options = replace(options, latency="stamp")
            options = self._below_rate(self.rate, options, measuring, hosts)
            chosen |= dict.fromkeys(("links_at_once", "interval_s"), "--rate")
        return options, chosen

    def _below_rate(self, rate: str, options: ScanOptions, measuring: Measuring, hosts: int) -> ScanOptions:
        try:
            most = parse_rate_bytes_per_s(rate)
        except InputError as error:
            raise InputError(f"--rate: {error}") from None
        if most <= 0:
            raise InputError(f"--rate {rate!r}: the rate must be above zero")
        stretch = "interval_s" not in self.explicit
        at_once, interval_s = options_below(most, hosts, options, measuring, stretch=stretch)
        return replace(options, links_at_once=at_once, interval_s=interval_s)

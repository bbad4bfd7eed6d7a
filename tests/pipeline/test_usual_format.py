"""The format of an order for which nobody named one: it never costs a scan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from netprobe.cli.commands.scan_output import next_command
from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.pipeline import map_scan, plan_order
from netprobe.pipeline.chain import Chain, ChainOptions, check_chain, export_order
from netprobe.pipeline.exporting import usual_format
from tests.documents import rack_scan

HOSTS = {
    "slurm": ("rack0_blade0", "rack0_blade1"),
    "ipv6": ("2001:db8::1", "2001:db8::2"),
    "fqdn": ("n1.rack1.example", "n1.rack2.example"),
    "digits": ("h1", "007", "7"),
    "words": ("cores", "slots"),
    "local": ("localhost", "b"),
}


@pytest.mark.parametrize("kind", HOSTS)
def test_names_that_a_launcher_cannot_have_do_not_refuse_a_scan(kind: str) -> None:
    hosts = [make_host(name) for name in HOSTS[kind]]
    for via in (None, "ssh", "slurm"):
        check_chain(ChainOptions(via=via), hosts)
    if kind in ("slurm", "ipv6"):
        check_chain(ChainOptions(format_name="openmpi"), hosts)
    else:
        with pytest.raises(InputError, match="launcher_name"):
            check_chain(ChainOptions(format_name="openmpi"), hosts)


def test_what_can_be_written_is_written_and_the_rest_is_told() -> None:
    def of(kind: str, via: str = "ssh", **fields: int) -> tuple[str | None, tuple[str, ...]]:
        return usual_format([make_host(name) for name in HOSTS[kind]], via=via, **fields)

    assert of("slurm") == of("ipv6") == ("openmpi", ())
    assert of("slurm", "slurm") == of("fqdn", "slurm") == ("slurm-hostfile", ())
    for kind, via in (("fqdn", "ssh"), ("digits", "ssh"), ("words", "mpi"), ("ipv6", "slurm")):
        name, (said,) = of(kind, via)
        assert name == "plain" and "launcher_name=" in said and "hostfile.plain is written" in said
        assert of(kind, via, slots=8)[0] == "json"
    twice = [make_host("a", launcher_name="x"), make_host("b", launcher_name="x")]
    name, (said,) = usual_format(twice)
    assert name is None and "two hosts" in said


def test_a_scan_inside_slurm_ends_with_srun(tmp_path: Path) -> None:
    scan, _ = rack_scan((2, 2))
    map_ = map_scan(scan)
    plan = plan_order(map_)
    before = Chain(folder=tmp_path, scan=scan, map=map_, plan=plan)
    chain = export_order(before, plan, ChainOptions(via="slurm", slots=2))
    assert "srun --distribution=arbitrary --ntasks=8" in next_command(chain)
    assert (tmp_path / "hostfile.slurm").is_file() and chain.warnings == ()
    assert chain.exported is not None and "SLURM_HOSTFILE" in chain.exported.hint
    assert replace(chain.exported, path=chain.folder / "hostfile").hint == ""

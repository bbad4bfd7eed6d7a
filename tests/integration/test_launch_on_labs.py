"""A job started on a lab's hosts in a plan's order, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netprobe.cli.entry import run
from netprobe.core.documents.document import write_document
from netprobe.core.hosts import make_host
from netprobe.lab import parse_spec, temporary
from tests.plan.fleets import order_plan

pytestmark = pytest.mark.lab


def test_order_environment_exit_code_and_the_end_of_the_rest(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with temporary(parse_spec("{name: launch, racks: [2, 1]}"), seed=3) as lab:
        there = [lab.hosts[at] for at in (2, 0, 1)]
        hosts = [make_host(host.name, target=host.target, address=host.address) for host in there]
        write_document(order_plan(hosts, np.ones((3, 3)), keep_original="a test's"), tmp_path / "plan.json")
        way = ["launch", str(tmp_path), "--via", lab.via_template]
        ask = 'echo "$(uname -n) $RANK $MASTER_ADDR $X"; ip -o -4 addr show scope global'
        assert run([*way, "--check", "--env", "X=a b", "--", "sh", "-c", ask]) == 0
        out = capfd.readouterr().out
        for rank, host in enumerate(hosts):
            assert f"{host.name}: {host.name} {rank} {hosts[0].address} a b\n" in out
            assert any(
                line.startswith(f"{host.name}: ") and f" {host.address}/" in line for line in out.splitlines()
            )
        job = f"cd {tmp_path}; echo $$ >pid$RANK; [ $RANK = 2 ] && sleep 0.5 && exit 5; setsid sleep 600"
        assert run([*way, "--grace", "0.5", "--", "sh", "-c", job]) == 5
        for rank in (0, 1):
            assert not Path(f"/proc/{(tmp_path / f'pid{rank}').read_text().strip()}").exists()
        ended = [
            Path(f"/proc/{path.name}/cmdline") for path in Path("/proc").iterdir() if path.name.isdigit()
        ]
        assert not any(b"sleep\0600" in path.read_bytes() for path in ended if path.exists())

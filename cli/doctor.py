"""``netprobe doctor``: what this machine offers."""

from __future__ import annotations

from dataclasses import asdict

from netprobe.cli.output import JsonOption, Output


def doctor(json: JsonOption = False) -> int:
    """Say what this machine offers netprobe, and what to do about what is missing."""
    from netprobe.pipeline.doctor import doctor as examine

    checks = examine()
    output = Output(json=json)
    if not json:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("check", "state", "found", "needed for", "remedy"):
            table.add_column(column, overflow="fold")
        for check in checks:
            table.add_row(check.name, check.state, check.found, check.needed_for, check.remedy)
        output.say(table)
    output.result({"checks": [asdict(check) for check in checks]})
    return 0

"""``netprobe doctor``: what this machine offers."""

from __future__ import annotations

from dataclasses import asdict

from netprobe.cli.output import JsonOption, Output


def doctor(json: JsonOption = False) -> int:
    """Say what this machine offers netprobe, and what to do about what is missing."""
    from netprobe.pipeline.doctor import doctor as examine

    checks = examine()
    output = Output(json=json)
    width = max(len(check.name) for check in checks)
    for check in checks:
        output.say(f"{check.state:<7}  {check.name:<{width}}  {check.found}")
        if check.state != "ok":
            remedy = f"; {check.remedy}" if check.remedy else ""
            output.say(f"{'':<7}  {'':<{width}}  needed for {check.needed_for}{remedy}")
    output.result({"checks": [asdict(check) for check in checks]})
    return 0

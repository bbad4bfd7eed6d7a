from __future__ import annotations

import json

import pytest

from netprobe.cli.entry import run


def test_doctor_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert {"python", "install", "ssh", "iperf3", "fping", "compiler", "time stamps", "namespaces"} <= set(
        checks
    )
    assert checks["python"]["state"] == "ok"
    assert "loopback" in checks["time stamps"]["found"]


def test_what_is_missing_comes_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_kwargs: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "missing  iperf3" in out
    assert "install iperf3" in out
    assert "run the lab as root" in out

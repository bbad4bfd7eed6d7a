"""fping where some systems keep it: in a folder that the PATH of a login does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from netprobe.probe.agent import audit, fping


def test_fping_in_a_folder_of_administrators_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "fping"
    program.write_text('#!/bin/sh\necho "$0: Version 5.1"\n')
    program.chmod(0o755)
    assert "/usr/sbin" in fping.ALSO_IN and "/usr/sbin" in audit._PATH.split(":")
    monkeypatch.setattr(fping, "ALSO_IN", (str(tmp_path),))
    monkeypatch.setenv("PATH", "/nowhere")
    answer, _ = fping.version({"address": "127.0.0.1"}, {})
    assert answer["output"] == f"{program}: Version 5.1"

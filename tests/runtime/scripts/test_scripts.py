"""The scripts are self-contained: nothing of netprobe is there where they run, and Python may be 3.8."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.runtime.scripts.gloo_allreduce import interface_of
from netprobe.runtime.scripts.mpi_allreduce import parse_trial
from netprobe.verify.libraries.source import in_arguments, over_input, script

SCRIPTS = ("mpi_allreduce", "gloo_allreduce")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_of_python_3_8_and_imports_nothing_of_ours(name: str) -> None:
    tree = ast.parse(script(name), feature_version=(3, 8))
    modules = {
        module.partition(".")[0]
        for node in ast.walk(tree)
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "netprobe"]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules <= {*sys.stdlib_module_names, "torch"}


def test_a_script_runs_from_its_argument_and_from_its_input() -> None:
    argv, text = over_input("gloo_allreduce", sys.executable)
    done = subprocess.run(argv, input=text + b"no json\n", capture_output=True, timeout=60, check=False)
    assert done.stdout == b'netprobe {"up": true}\n'
    assert done.returncode in (0, 2) and b"Traceback" not in done.stderr
    argv = in_arguments("mpi_allreduce", sys.executable)
    shown = subprocess.run(
        [
            *argv[:-1],
            argv[-1].replace("exec(", "print(ascii(").replace("'netprobe','exec'))", "'netprobe','exec')))"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "code object <module>" in shown.stdout
    assert len(argv[-1]) < 8192


@given(st.text(max_size=40) | st.lists(st.integers(-2, 9), max_size=6).map(lambda n: " ".join(map(str, n))))
def test_any_line_is_a_trial_or_refused(line: str) -> None:
    try:
        size, warm, order = parse_trial(line, 3)
    except (ValueError, IndexError):
        return
    assert sorted(order) == [0, 1, 2] and size % 4 == warm % 4 == 0 < min(size, warm)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="needs Linux")
def test_the_interface_of_an_address_is_found() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None

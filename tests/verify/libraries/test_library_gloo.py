"""Gloo through torch.distributed, three processes on this machine."""

from __future__ import annotations

import importlib.util

import pytest

from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.probe.launchers.exec_launcher import ExecLauncher, LocalLauncher
from netprobe.verify.libraries.gloo import GlooLibrary
from netprobe.verify.libraries.process_group import LibraryError

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@needs_torch
def test_sums_are_right_in_any_order_and_of_any_size() -> None:
    hosts = [make_host(name) for name in "abc"]
    with GlooLibrary(LocalLauncher()).open(hosts, start_timeout_s=150) as session:
        assert session.version.startswith("torch ")
        for order, size in [((2, 0, 1), 4), ((2, 0, 1), 1 << 20), ((0, 1, 2), 76), ((1, 2, 0), 4 << 20)]:
            assert 0 < session.time_all_reduce(order, size, 60) < 60
        with pytest.raises(InputError, match="each of the 3 hosts"):
            session.time_all_reduce((0, 1), 4, 60)


def test_a_host_without_torch_is_named() -> None:
    launcher = ExecLauncher("env NAME={name} PYTHONNOUSERSITE=1")
    python = "python3 -S"  # neither torch nor anything else that was installed
    library = GlooLibrary(launcher, python=python)
    hosts = [make_host("a", address="127.0.0.1"), make_host("b", address="127.0.0.1")]
    with (
        pytest.raises(LibraryError, match="[ab]: .*gloo_allreduce: No module named 'torch'"),
        library.open(hosts),
    ):
        pass


def test_what_cannot_work_is_said_before_anything_starts() -> None:
    library = GlooLibrary(ExecLauncher("env NAME={name}"))
    with pytest.raises(InputError, match="'a' has no address"), library.open([make_host("a")]):
        pass
    with pytest.raises(InputError, match="no algorithm 'tree' with gloo"), library.open([], algorithm="tree"):
        pass

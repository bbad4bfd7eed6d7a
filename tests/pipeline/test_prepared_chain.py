"""A prepared chain: checks come before any file, and an estimate starts nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from netprobe.core.errors import InfeasibleError, InputError
from netprobe.pipeline.chain import ChainOptions
from netprobe.pipeline.mapping.map_scan import MapOptions
from netprobe.pipeline.prepared_chain import ChainRequest, prepare_chain
from netprobe.pipeline.scanning.pace import Pace
from netprobe.probe.launchers.via import parse_via


def request(folder: Path) -> ChainRequest:
    return ChainRequest(
        folder=folder,
        options=ChainOptions(via="local"),
        hosts="a,b,c",
        launcher=parse_via("local"),
        via="local",
    )


def test_an_estimate_makes_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    prepared = prepare_chain(request(folder))
    estimate = prepared.estimate()
    assert (estimate.hosts, estimate.resumed, estimate.complete) == (3, False, False)
    assert [phase.measurement for phase in estimate.phases] == ["rtt"]
    assert prepared.notes == () and not folder.exists()


def test_an_estimate_of_a_lab_needs_no_launcher(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    lab = ChainRequest(folder=folder, options=ChainOptions(), lab="pair")
    assert prepare_chain(lab).estimate().hosts == 2
    assert not folder.exists()


def test_the_pace_sets_what_the_user_left_open(tmp_path: Path) -> None:
    gentle = replace(request(tmp_path), pace=Pace(gentle=True, explicit={"interval_s": "--interval"}))
    options = prepare_chain(gentle).estimate().options
    assert (options.links_at_once, options.probes_per_visit) == (4, 50)
    assert options.interval_s == ChainOptions().scan.interval_s


def test_too_many_groups_are_refused_before_the_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    wrong = replace(request(folder), options=ChainOptions(via="local", map=MapOptions(k=4)))
    with pytest.raises(InfeasibleError):
        prepare_chain(wrong)
    assert not folder.exists()


def test_a_resumed_chain_needs_a_journal(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"journal"):
        prepare_chain(replace(request(tmp_path), options=ChainOptions(via="local", resume=True)))

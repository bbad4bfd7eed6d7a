"""A comparison by a library that is made of nothing: how it ends when the library does, or the user."""

from __future__ import annotations

from typing import Any

import pytest

from netprobe.core.errors import InputError, NothingMeasuredError
from netprobe.core.hosts import make_host
from netprobe.pipeline.verifying.libraries import chosen_library
from netprobe.probe.launchers.via import parse_via
from netprobe.verify.comparison import ComparisonOptions
from netprobe.verify.libraries.process_group import LibraryError
from netprobe.verify.libraries.run_library import algorithm_of, run_library
from netprobe.verify.run import Contender, Contenders, VerifyOptions, VerifyOutcome
from tests.verify.stand import Stand

HOSTS = [make_host(name) for name in "abc"]
TWO = Contenders(
    proposed=Contender(name="proposed", order=(0, 1, 2)),
    baselines=(Contender(name="given", order=(2, 1, 0)),),
)


def run(library: Stand, **options: Any) -> VerifyOutcome:
    comparison = ComparisonOptions(time_s=30, precision=0.05)
    verify = VerifyOptions(comparison=comparison, **options)
    return run_library(HOSTS, library, "ring", lambda _up, _size: TWO, verify, start_timeout_s=30)


def test_orders_take_turns_until_the_ratio_is_known() -> None:
    library = Stand()
    outcome = run(library)
    ratio = outcome.record.ratio()
    assert ratio is not None and ratio.value == pytest.approx(2.0, rel=0.01)
    assert (outcome.library, outcome.stopped, outcome.interrupted) == ("Stand 1.0", None, False)
    assert [one.status for one in outcome.hosts] == ["ok"] * 3 and library.closed
    assert outcome.duration_s > 0


def test_what_was_measured_before_a_library_breaks_stands() -> None:
    library = Stand(7, "break")
    outcome = run(library)
    assert outcome.stopped == "b: it crashed" and library.closed
    assert len(outcome.record.comparison) == 7


def test_a_user_ends_a_trial_that_would_take_for_ever() -> None:
    library = Stand(5, "wait")
    outcome = run(library)
    assert outcome.interrupted and library.closed
    assert len(outcome.record.comparison) >= 2
    with pytest.raises(NothingMeasuredError, match="interrupted before the library was up"):
        run(Stand(then="start"))


def test_a_library_that_does_not_start_is_said() -> None:
    with pytest.raises(LibraryError, match="a: no torch"):
        run(Stand(then="refuse"))


def test_what_a_library_cannot_do_is_refused() -> None:
    with pytest.raises(InputError, match="--channels"):
        run(Stand(), channels=2)
    with pytest.raises(InputError, match="floats"):
        run(Stand(), size_bytes=33)
    local = parse_via("local")
    mpi, gloo, nccl = (chosen_library(name, launcher=local) for name in ("mpi", "gloo", "nccl-tests"))
    assert mpi is not None and gloo is not None and nccl is not None
    assert algorithm_of(mpi, "chunked-ring") == algorithm_of(gloo, "chunked-ring") == "ring"
    assert algorithm_of(nccl, "nccl-tree") == "tree"
    assert algorithm_of(mpi, "binomial-tree") == "tree"
    for library, program in (
        (nccl, "binomial-tree"),
        (mpi, "nccl-tree"),
        (gloo, "halving-doubling"),
        (nccl, "bcube"),
        (mpi, "bcube"),
    ):
        with pytest.raises(InputError, match="mpi|gloo|nccl-tests"):
            algorithm_of(library, program)
    assert chosen_library(None, launcher=local) is None
    for options in ({"program": "x"}, {"setup": "module load x"}):
        with pytest.raises(InputError, match="--program|--setup"):
            chosen_library("mpi", launcher=local, **options)

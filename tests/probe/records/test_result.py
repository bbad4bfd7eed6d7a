"""The document out of visits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.documents.scan import Measurement
from netprobe.core.errors import NothingMeasuredError
from netprobe.probe.methods.stamp import Stamp
from netprobe.probe.records.matrices import link_matrices, sample_table, successive_variation
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.records.percentile import percentiles, row_percentiles
from netprobe.probe.records.result import HostOutcome, ScanOutcome, ScanRun, build_outcome
from netprobe.probe.records.visits import VisitResult
from tests.probe.conftest import hosts_named, visit

OK = [HostOutcome(host=host) for host in hosts_named("a", "b", "c")]
OPTIONS = ScanOptions(seed=3)
FULL = [visit(s, d, [1e-4 * (s + d), 2e-4 * (s + d)]) for s in range(3) for d in range(3) if s != d]


def build(outcomes: Sequence[HostOutcome], visits: Sequence[VisitResult], **fields: Any) -> ScanOutcome:
    return build_outcome(
        outcomes,
        visits,
        OPTIONS,
        measurements=[Stamp(OPTIONS).measurement],
        run=ScanRun(rounds=6, duration_s=1.0, **fields),
    )


def test_percentiles_are_those_of_the_pooled_samples() -> None:
    first, second = [1e-4, 2e-4, 3e-4], [4e-4, 9e-4]
    visits = [visit(0, 1, first), visit(0, 1, second, round=4), *FULL[1:]]
    scan = build(OK, visits).scan
    pooled = first + second
    assert scan.rtt_s.min[0, 1] == 1e-4
    for key, percent in (("p10", 10), ("p50", 50), ("p90", 90), ("p99", 99)):
        assert getattr(scan.rtt_s, key)[0, 1] == pytest.approx(np.percentile(pooled, percent))
    assert scan.measurements[0].parameters["interpolation"] == "linear"
    assert np.isnan(scan.rtt_s.p10).sum() == 3  # the diagonal
    assert (scan.status, scan.reason, scan.seed) == ("ok", None, 3)


def test_cells_belong_to_the_end_that_probed() -> None:
    scan = build(OK, [visit(0, 1, [1e-4]), visit(1, 0, [5e-4]), *FULL[1:2], *FULL[3:]]).scan
    assert scan.rtt_s.p10[0, 1] == 1e-4 and scan.rtt_s.p10[1, 0] == 5e-4


def test_jitter_takes_successive_probes_only() -> None:
    gap = visit(0, 1, [1e-4, 2e-4, 9e-4], seq=np.array([1, 2, 4], dtype=np.uint32))
    np.testing.assert_allclose(successive_variation(gap), [1e-4])
    scan = build(OK, [gap, *FULL[1:]]).scan
    assert scan.ipdv_s[0, 1] == pytest.approx(1e-4)


def test_a_silent_pair_has_null_cells_and_a_loss_of_one() -> None:
    silent = [visit(s, d, [], sent=100, received=0, reason="no answer") for s, d in ((0, 1), (1, 0))]
    scan = build(OK, [v for v in FULL if {v.src, v.dst} != {0, 1}] + silent).scan
    assert scan.loss_ratio[0, 1] == 1.0 and np.isnan(scan.rtt_s.min[0, 1])
    assert scan.status == "partial" and scan.reason == "2 of 3 hosts partial"
    assert [host.status for host in scan.hosts] == ["partial", "partial", "ok"]
    assert scan.hosts[0].reason == "no reading with b: no answer"


def test_a_link_without_goodput_makes_its_hosts_partial() -> None:
    goodput = Measurement(
        id="goodput", key="goodput_bytes_per_s", method="tcp", unit="B/s", statistic="median"
    )
    silent = visit(0, 2, [], measurement="goodput", sent=0, received=0, reason="nothing came")
    scan = build_outcome(
        OK,
        [*FULL, silent],
        OPTIONS,
        measurements=[Stamp(OPTIONS).measurement, goodput],
        run=ScanRun(rounds=7, duration_s=1.0),
    ).scan
    assert [host.status for host in scan.hosts] == ["partial", "ok", "partial"]
    assert scan.status == "partial" and scan.hosts[0].reason == "no goodput with c: nothing came"


def test_an_unreachable_host_leaves_the_others_ok() -> None:
    outcomes = [*OK[:2], OK[2].changed(status="unreachable", reason="no route to it")]
    visits = [v for v in FULL if 2 not in (v.src, v.dst)]
    scan = build(outcomes, visits).scan
    assert [host.status for host in scan.hosts] == ["ok", "ok", "unreachable"]
    assert scan.status == "partial" and scan.reason == "1 of 3 hosts unreachable"
    assert np.isnan(scan.loss_ratio[0, 2])


def test_one_source_port_on_a_longer_way_moves_no_host() -> None:
    near, far = [40e-6, 41e-6, 42e-6], [90e-6, 91e-6, 92e-6]
    several = [visit(0, 1, near, src_port=port) for port in (1, 2)] + [visit(0, 1, far, src_port=3)]
    several += [
        visit(0, 1, near, src_port=4, round=5),
        visit(0, 2, [], src_port=1, sent=5),
        visit(0, 2, near),
    ]
    scan = build(OK, [*several, *FULL[2:]]).scan
    assert scan.rtt_s.p50[0, 1] == 41e-6 and scan.rtt_s.min[0, 2] == 40e-6
    assert scan.port_spread_s is not None
    assert scan.port_spread_s[0, 1] == pytest.approx(50e-6, rel=1e-6)
    assert np.isnan(scan.port_spread_s[0, 2]) and np.isnan(scan.port_spread_s[2, 1])
    # A link tried again later from another port is one link all the same: its samples are pooled.
    again = build(OK, [visit(0, 1, near, src_port=1), visit(0, 1, far, src_port=2, round=3), *FULL[1:]]).scan
    assert again.port_spread_s is None and again.rtt_s.p50[0, 1] == pytest.approx(66e-6)


def test_nothing_measured_names_each_reason_once() -> None:
    outcomes = [h.changed(status="unreachable", reason="refused") for h in OK[:2]]
    outcomes.append(OK[2].changed(status="unreachable", reason="no Python"))
    with pytest.raises(NothingMeasuredError, match=r"a, b: refused; c: no Python") as caught:
        build(outcomes, [])
    assert caught.value.exit_code == 4


def test_an_interrupted_scan_says_so_and_keeps_what_it_has() -> None:
    outcome = build(OK, FULL[:2], interrupted=True)
    assert outcome.interrupted and outcome.scan.status == "partial"
    assert outcome.scan.reason is not None and outcome.scan.reason.startswith("interrupted")
    assert build(OK, [], interrupted=True).scan.status == "failed"


def test_one_host_gives_a_trivial_scan() -> None:
    scan = build(OK[:1], []).scan
    assert scan.status == "ok" and scan.visits == [] and scan.rtt_s.p10.shape == (1, 1)


def test_the_sample_table_lists_visits_in_the_documents_order() -> None:
    late, early = visit(1, 2, [3e-4], round=5, stamps="user"), visit(0, 1, [1e-4, 2e-4], round=1)
    silent = visit(2, 0, [], round=3, sent=5, received=0)
    outcome = build(OK, [late, silent, early, *FULL[2:]])
    assert [v.round for v in outcome.scan.visits] == sorted(v.round for v in outcome.scan.visits)
    table = sample_table([early, silent, late])
    assert table["visit_start"].tolist() == [0, 2, 2, 3]
    assert table["rtt_s"].tolist() == [1e-4, 2e-4, 3e-4]
    assert table["stamps"].tolist() == [1, 0, 3]
    assert table["src"].tolist() == [0, 2, 1] and table["round"].tolist() == [1, 3, 5]
    assert table["seq"].dtype == np.uint32 and table["visit_start"].dtype == np.int64
    assert sample_table([])["visit_start"].tolist() == [0]


@given(
    samples=st.lists(st.floats(1e-7, 10, allow_nan=False), min_size=1, max_size=130),
    wanted=st.lists(st.sampled_from([0, 1, 10, 25, 50, 90, 99, 100]), min_size=1, max_size=5),
)
def test_percentiles_are_numpys_to_the_bit(samples: list[float], wanted: list[float]) -> None:
    values = np.array(samples)
    assert percentiles(values, wanted) == np.percentile(values, wanted).tolist()
    rows = np.stack([values, values[::-1], 2 * values])
    assert row_percentiles(rows, wanted).tolist() == [percentiles(row, wanted) for row in rows]


RTT_NS = st.integers(1, 1 << 34)
A_VISIT = st.lists(st.tuples(st.integers(1, 3), RTT_NS), max_size=6)


@given(st.lists(A_VISIT, min_size=6, max_size=6), st.integers(0, 3))
def test_links_computed_together_are_what_each_is_alone(
    readings: list[list[tuple[int, int]]], again: int
) -> None:
    """Six links of three hosts; some of them have a second, empty visit, and so are computed one by one."""
    links = [(src, dst) for src in range(3) for dst in range(3) if src != dst]
    visits = []
    for (src, dst), samples in zip(links, readings, strict=True):
        seq = np.cumsum([step for step, _ in samples], dtype=np.uint32)
        rtts = [ns / 1e9 for _, ns in samples]
        visits.append(visit(src, dst, rtts, seq=seq, sent=int(seq[-1]) if len(seq) else 3))
    alone = link_matrices(3, visits)
    twice = [visit(src, dst, [], round=1, sent=0, received=0) for src, dst in links[: 2 * again]]
    pooled = link_matrices(3, [*visits, *twice])
    for key, matrix in alone.items():
        np.testing.assert_allclose(pooled[key], matrix, rtol=1e-14, err_msg=key)
        assert key == "ipdv_s" or np.array_equal(pooled[key], matrix, equal_nan=True)

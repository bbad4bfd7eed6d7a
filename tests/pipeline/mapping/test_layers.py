"""A layer a measurement: goodput and RTT, goodput alone, and what no map may depend on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from netprobe.cluster.evaluate.agreement import adjusted_rand_index
from netprobe.core.documents.document import canonical_sha256, dump, parse_document
from netprobe.core.documents.map import Map
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.documents.scan import Measurement, RttStatistics, Scan
from netprobe.core.errors import DocumentError
from netprobe.pipeline import map_scan, plan_order
from netprobe.pipeline.truth.evaluating import judge
from netprobe.pipeline.truth.placement import placement_of_labels
from netprobe.plan import prove_against_map
from tests.documents import make_scan, permuted, rack_labels, rack_rtt

RACKS = (5, 5, 4)
FAST, SLOW = 10e9, 2e9


def rack_goodput(racks: tuple[int, ...], *, seed: int) -> FloatMatrix:
    """Bytes a second: 10 GB/s inside a rack, 2 GB/s across, up to a tenth less a link."""
    labels = np.array(rack_labels(racks))
    goodput = np.where(labels[:, None] == labels[None, :], FAST, SLOW)
    goodput = goodput * (1 - np.random.default_rng(seed).uniform(0, 0.1, size=goodput.shape))
    np.fill_diagonal(goodput, np.nan)
    return goodput


def with_goodput(scan: Scan, goodput: FloatMatrix, *, alone: bool = False) -> Scan:
    """The scan with a goodput next to its RTT; ``alone``: instead of it, as an import has it."""
    measurement = Measurement(
        id="goodput", key="goodput_bytes_per_s", method="tcp", unit="bytes/s", statistic="median"
    )
    measurements = [measurement] if alone else [*scan.measurements, measurement]
    update: dict[str, object] = {"measurements": measurements, "goodput_bytes_per_s": {"goodput": goodput}}
    if alone:
        nothing = np.full(goodput.shape, np.nan)
        update["rtt_s"] = RttStatistics(min=nothing, p10=nothing, p50=nothing, p90=nothing, p99=nothing)
    return scan.model_copy(update=update)


def goodput_alone(racks: tuple[int, ...] = RACKS, *, seed: int = 1) -> Scan:
    return with_goodput(
        make_scan(rack_rtt(racks, seed=seed), visits=False), rack_goodput(racks, seed=seed), alone=True
    )


def labels_of(map_: Map) -> list[str]:
    group = {name: g.id for g in map_.groups for name in g.hosts}
    return [group[host.name] for host in map_.hosts]


def test_goodput_beside_rtt_is_a_second_layer_and_the_groups_are_those_of_rtt() -> None:
    rtt = make_scan(rack_rtt((8, 6), seed=1), visits=False)
    # Another partition, so that it shows whose groups they are; one host with little goodput, one untested.
    goodput = rack_goodput(RACKS, seed=1)
    goodput[2, :] /= 8
    goodput[:, 2] /= 8
    goodput[13, :] = goodput[:, 13] = np.nan
    map_ = map_scan(with_goodput(rtt, goodput))
    alone = map_scan(rtt)
    assert map_.grouped_by == "rtt"
    assert (map_.groups, map_.verdict, map_.outliers) == (alone.groups, alone.verdict, alone.outliers)
    assert np.array_equal(map_.distance, alone.distance)
    beta = map_.layers.beta
    assert beta is not None and beta.parameters["measurement"] == "goodput"
    tested = [i for i in range(14) if i not in (2, 13)]
    inner = beta.distance_s_per_byte[np.ix_(tested, tested)]
    same = np.equal.outer(np.array(rack_labels(RACKS))[tested], np.array(rack_labels(RACKS))[tested])
    off = ~np.eye(len(tested), dtype=bool)
    assert np.median(inner[same & off]) == pytest.approx(1 / FAST, rel=0.12)
    assert np.median(inner[~same]) == pytest.approx(1 / SLOW, rel=0.12)
    assert np.isnan(beta.distance_s_per_byte[13]).all() and beta.coordinates[13] == []
    assert beta.heights_s_per_byte[13] is None and beta.heights_s_per_byte[0] is not None
    assert beta.held_out is not None and beta.held_out.links >= 5 and beta.stress is not None
    assert beta.outliers is not None and beta.outliers.hosts[0].host == "h2"
    assert beta.outliers.hosts[0].excess_s is None and "goodput" in beta.outliers.hosts[0].text
    again = parse_document(Map, dump(map_), source="m")
    assert canonical_sha256(again) == canonical_sha256(map_)


def test_goodput_alone_is_mapped_judged_and_ordered() -> None:
    scan = goodput_alone()
    scan.hosts[0].labels["rack"] = "0"
    map_ = map_scan(scan)
    assert map_.grouped_by == "beta" == map_.grouping.layer
    assert adjusted_rand_index(rack_labels(RACKS), labels_of(map_)) == 1.0
    assert map_.verdict.locality == "found" and "judged by goodput alone" in map_.verdict.text
    assert map_.layers.rtt is None and map_.groups[0].radius_s is None
    assert map_.groups[0].radius_s_per_byte == pytest.approx(1 / FAST, rel=0.12)
    plan = plan_order(map_)
    assert plan.size_bytes == 1_000_000 and plan.crossings == len(RACKS)
    # Three hops between racks and eleven inside, a megabyte over each.
    assert plan.cost_s == pytest.approx(1e6 * (3 / SLOW + 11 / FAST), rel=0.12)
    prove_against_map(plan, map_)
    with pytest.raises(DocumentError, match="cost_s is .* and on this map it is"):
        prove_against_map(plan.model_copy(update={"size_bytes": 1000}), map_)
    racks = {name: f"r{rack}" for name, rack in zip((h.name for h in scan.hosts), rack_labels(RACKS))}
    labelled = [h.model_copy(update={"labels": {"rack": racks[h.name]}}) for h in scan.hosts]
    placement = placement_of_labels(labelled, ["rack"])
    for measurement in (None, "beta", "goodput"):
        judged = judge(map_, placement, hosts=labelled, measurement=measurement, clusterings=0)
        assert judged.measurement == "beta" and judged.evaluation.paia.paia == 1.0
    with pytest.raises(DocumentError, match="has no layer 'rtt': there are beta"):
        judge(map_, placement, hosts=labelled, measurement="rtt", clusterings=0)


def test_a_link_that_carried_nothing_and_one_slow_way() -> None:
    scan = goodput_alone()
    goodput = np.array(scan.goodput_bytes_per_s["goodput"])
    goodput[0, 1] = goodput[1, 0] = 0.0
    goodput[3, 9] /= 20
    map_ = map_scan(with_goodput(scan, goodput, alone=True))
    assert map_.distance[0, 1] == pytest.approx(1 / FAST, rel=0.2), "a cell that is missing is completed"
    assert map_.outliers is not None
    assert [(link.src, link.dst) for link in map_.outliers.asymmetric] == [("h3", "h9")]


def test_rtts_that_tie_no_hosts_leave_the_map_to_goodput() -> None:
    lost = make_scan(np.full((14, 14), np.nan), visits=False)
    map_ = map_scan(with_goodput(lost, rack_goodput(RACKS, seed=3)))
    assert map_.grouped_by == "beta" and len(map_.groups) == 3


def test_a_map_that_lacks_the_layer_of_its_groups_is_refused() -> None:
    data = dump(map_scan(goodput_alone()))
    data["grouping"]["layer"] = "rtt"
    with pytest.raises(DocumentError, match=r"its groups are those of layers\.rtt, which it lacks"):
        parse_document(Map, data, source="m")
    data["grouping"]["layer"] = "beta"
    data["layers"]["beta"]["distance_s_per_byte"][0][1] = None
    with pytest.raises(DocumentError, match="distance_s_per_byte has a missing cell"):
        parse_document(Map, data, source="m")


def scaled(scan: Scan, factor: float) -> Scan:
    """The same readings in another unit."""
    rtt = {key: getattr(scan.rtt_s, key) * factor for key in ("min", "p10", "p50", "p90", "p99")}
    goodput = {key: matrix / factor for key, matrix in scan.goodput_bytes_per_s.items()}
    return scan.model_copy(update={"rtt_s": RttStatistics(**rtt), "goodput_bytes_per_s": goodput})


def members(map_: Map) -> list[tuple[str, list[str], str]]:
    return [(group.id, group.hosts, group.leader) for group in map_.groups]


@pytest.mark.slow
@settings(max_examples=4, derandomize=True, phases=[Phase.generate])  # shrinking takes minutes
@given(
    alone=st.booleans(),
    seed=st.integers(0, 10**6),
    factor=st.floats(1e-4, 1e4),
    order=st.permutations(list(range(sum(RACKS)))),
    missing=st.sampled_from([0.0, 0.3]),
    noise_s=st.sampled_from([3e-6, 80e-6]),
)
def test_neither_the_unit_nor_the_order_of_the_hosts_changes_a_map(
    alone: bool, seed: int, factor: float, order: list[int], missing: float, noise_s: float
) -> None:
    generator = np.random.default_rng(seed)
    rtt = rack_rtt(RACKS, seed=seed, noise_s=noise_s)
    goodput = rack_goodput(RACKS, seed=seed)
    for matrix in (rtt, goodput):
        hidden = np.triu(generator.random(matrix.shape) < missing, 1)
        matrix[hidden | hidden.T] = np.nan
    scan = make_scan(rtt, visits=False)
    if alone:
        scan = with_goodput(scan, goodput, alone=True)
    one = map_scan(scan, seed=seed)
    again = map_scan(scan, seed=seed)
    assert json.dumps(dump(again) | {"created_at": ""}) == json.dumps(dump(one) | {"created_at": ""})

    turned = permuted(scan, order)
    index = np.ix_(order, order)
    if alone:
        turned = with_goodput(turned, np.asarray(scan.goodput_bytes_per_s["goodput"])[index], alone=True)
    other = map_scan(scaled(turned, factor), seed=seed)
    assert members(other) == members(one)
    assert other.verdict.locality == one.verdict.locality and other.verdict.p_value == one.verdict.p_value
    assert other.verdict.contrast == pytest.approx(one.verdict.contrast, rel=1e-6)
    np.testing.assert_allclose(other.distance, one.distance[index] * factor, rtol=1e-6)

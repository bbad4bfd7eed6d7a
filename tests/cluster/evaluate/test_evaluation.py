"""Evaluations as a whole, and the consistency of repeated clusterings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from netprobe.cluster.balanced import kmeans
from netprobe.cluster.evaluate import repeated
from netprobe.cluster.evaluate.evaluation import evaluate
from netprobe.cluster.evaluate.repeated import run_to_run
from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from tests.documents import rack_labels, rack_rtt

RACKS = (4, 4, 4, 4)
POSITIONS = [(f"zone{rack // 2}", f"rack{rack}") for rack in rack_labels(RACKS)]


def matrix(seed: int = 3) -> FloatMatrix:
    rtt = rack_rtt(RACKS, seed=seed)
    return np.fmax(rtt, rtt.T)


def test_each_level_of_the_truth_is_held_against_the_groups() -> None:
    found = evaluate(matrix(), rack_labels(RACKS), POSITIONS, ["zone", "rack"], clusterings=5)
    zone, rack = found.grouping
    assert (zone.level, zone.classes, rack.level, rack.classes) == ("zone", 2, "rack", 4)
    assert rack.ari == rack.ami == rack.purity == zone.purity == 1.0
    assert 0 < zone.ari < 1
    assert found.linkage is not None
    assert found.linkage[1].ari == 1.0
    assert found.run_to_run is not None
    assert (found.groups, found.run_to_run.clusterings, found.run_to_run.k) == (4, 5, 4)


def test_a_level_at_which_all_are_together_is_left_out_unless_it_is_the_only_one() -> None:
    positions = [("site", rack) for _, rack in POSITIONS]
    found = evaluate(matrix(), [0] * 16, positions, ["site", "rack"], clusterings=0)
    assert [entry.level for entry in found.grouping] == ["rack"]
    assert found.run_to_run is None
    alone = evaluate(matrix(), [0] * 16, [("site",)] * 16, ["site"], clusterings=0)
    assert alone.paia.paia is None
    assert alone.grouping[0].ari == alone.grouping[0].ami == 1.0


def test_a_missing_distance_leaves_out_what_needs_them_all() -> None:
    holes = matrix()
    holes[0, 5] = holes[5, 0] = np.nan
    found = evaluate(holes, rack_labels(RACKS), POSITIONS, ["zone", "rack"])
    assert found.linkage is None and found.run_to_run is None
    assert found.paia.missing > 0
    unplaced = matrix()
    unplaced[3, :] = unplaced[:, 3] = np.nan
    found = evaluate(unplaced, rack_labels(RACKS), POSITIONS, ["zone", "rack"], clusterings=3)
    assert found.linkage is None and found.run_to_run is not None


def test_repeated_clusterings_are_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    original = kmeans.constrained_kmeans

    def kept(*args: object, **options: object) -> object:
        run = original(*args, **options)  # type: ignore[arg-type]
        seen.append(run.labels.tolist())
        return run

    monkeypatch.setattr(repeated, "constrained_kmeans", kept)
    noisy = np.random.default_rng(0).lognormal(0, 0.5, (20, 20))
    found = run_to_run(noisy, clusterings=12, seed=1)
    assert len(seen) == 12
    amis = [adjusted_mutual_info_score(a, b) for a, b in itertools.combinations(seen, 2)]
    assert found.mean_ami == pytest.approx(np.mean(amis))
    assert found.least_ami == pytest.approx(min(amis))
    assert run_to_run(noisy * 1e-6, clusterings=12, seed=1) == found


def test_clear_racks_give_the_same_groups_each_time_and_noise_does_not() -> None:
    clear = run_to_run(matrix() ** 6, clusterings=10)
    noise = run_to_run(np.random.default_rng(0).lognormal(0, 0.5, (16, 16)), clusterings=10)
    assert clear.mean_ami > noise.mean_ami + 0.2


def test_what_cannot_be_clustered_is_refused() -> None:
    with pytest.raises(InputError, match="two of each"):
        run_to_run(np.ones((1, 1)))
    with pytest.raises(InputError, match="complete"):
        run_to_run(np.full((3, 3), np.nan))

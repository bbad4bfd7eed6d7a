"""Readings behind a map, with the hosts in another order: everything is permuted, and nothing changes places."""

from __future__ import annotations

import numpy as np

from netprobe.plan import Fold, HeldOutReadings, Links


def links(seed: int) -> Links:
    rng = np.random.default_rng(seed)
    return Links(alpha_s=rng.random((5, 5)), beta_s_per_byte=rng.random((5, 5)), size_bytes=10**6)


def same(found: Links | None, original: Links | None, hosts: list[int]) -> bool:
    assert found is not None and original is not None
    assert found.beta_s_per_byte is not None and original.beta_s_per_byte is not None
    at = np.ix_(hosts, hosts)
    return (
        np.array_equal(found.alpha_s, original.alpha_s[at])
        and np.array_equal(found.beta_s_per_byte, original.beta_s_per_byte[at])
        and found.size_bytes == original.size_bytes
    )


def test_each_matrix_of_each_fold_is_permuted_and_keeps_its_role() -> None:
    hosts = [3, 0, 4, 1, 2]
    folds = tuple(
        Fold(denoised=links(i), search=links(i + 1), unseen=links(i + 2), slow=links(i + 3)) for i in (10, 20)
    )
    readings = HeldOutReadings(
        search=links(1), slow=links(2), slow_repeats=True, raw_share=0.1, folds=folds, pairs=7, text="why"
    )
    found = readings.permuted(hosts)
    assert same(found.search, readings.search, hosts) and same(found.slow, readings.slow, hosts)
    assert (found.slow_repeats, found.raw_share, found.pairs, found.text) == (True, 0.1, 7, "why")
    assert len(found.folds) == 2
    for its, was in zip(found.folds, folds):
        for role in ("denoised", "search", "unseen", "slow"):
            assert same(getattr(its, role), getattr(was, role), hosts)


def test_a_map_alone_has_no_readings_behind_it() -> None:
    none = HeldOutReadings()
    assert none.search is None and none.slow is None and none.slow_repeats is False
    assert (none.raw_share, none.folds, none.pairs, none.noise, none.text) == (0.0, (), 0, (), "")
    assert Fold(denoised=links(1), search=links(2), unseen=links(3)).slow is None

"""Real wide-area matrices (NETPROBE_DATA): hidden links are predicted, and measured ones not smoothed away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench._real import by_means, by_paths, hidden_error, hide, planetlab, repeat_errors, wonderproxy
from netprobe.embed import EmbedOptions, fit_embedding

HOSTS = 120


@pytest.mark.slow
def test_hidden_links_between_cities_are_predicted_and_measured_ones_stay_as_good(data_folder: Path) -> None:
    matrix = wonderproxy(data_folder)
    some = np.random.default_rng(5000).choice(len(matrix), HOSTS, replace=False)
    given, both, hidden = hide(matrix[np.ix_(some, some)], share=0.2, seed=5000)
    fit = fit_embedding(given, options=EmbedOptions(), seed=0)
    error = hidden_error(fit.distance_s, both, hidden)
    # Half the hosts have half the likes: the whole matrix is bench/real.py's to judge.
    assert error < 0.065
    assert error < 0.8 * min(hidden_error(peer(given), both, hidden) for peer in (by_means, by_paths))

    slices = list(planetlab(data_folder).values())
    some = np.random.default_rng(5000).choice(len(slices[0]), HOSTS, replace=False)
    slices = [one[np.ix_(some, some)] for one in slices]
    fit = fit_embedding(slices[0], options=EmbedOptions(), seed=0)
    ours, raw = (np.array(repeat_errors(slices, 0, found)) for found in (fit.distance_s, slices[0]))
    assert (ours[[0, 2]] <= 1.01 * raw[[0, 2]]).all()
    assert (ours[[1, 3]] <= raw[[1, 3]] + 0.002).all()

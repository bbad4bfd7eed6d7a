"""Distances to coordinates: denoise a matrix of measured distances, complete it, and judge the fit.

`fit_embedding` is the entry; `denoise` gives distances alone.

    records        options and result
    prepare        a directed matrix with holes made symmetric, unit-free and free of gross outliers
    methods        the denoisers behind one Protocol, each from `estimates` and `coordinates`
    estimates/     blocks, trees and kriging, which keep the racks; heights, which are what single hosts add
    coordinates/   the embedding: starts, Adam, and the array library (numpy or torch)
    small          small fleets: which cap, decided by hiding each pair in turn
    mix            one distance of several candidates
    interval       how sure a distance is
    fit            all of these in order
"""

from netprobe.embed.denoise import denoise
from netprobe.embed.fit import fit_embedding
from netprobe.embed.records import METHODS, Embedding, EmbedOptions

__all__ = ["METHODS", "EmbedOptions", "Embedding", "denoise", "fit_embedding"]

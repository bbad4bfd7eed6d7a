"""Distances to coordinates: denoise a matrix of measured distances, complete it, and judge the fit.

`fit_embedding` is the one entry. `records` holds the options and the result, `prepare` turns a directed
matrix with holes into a checked, symmetric, unit-free one, `smooth` is the denoiser that keeps the racks,
`denoise` gives what comes of these two alone,
`starts` and `adam_torch` fit the coordinates (torch is imported only there, on the first fit), and `fit`
puts them together.
"""

from netprobe.embed.denoise import denoise
from netprobe.embed.fit import fit_embedding
from netprobe.embed.records import Embedding, EmbedOptions

__all__ = ["EmbedOptions", "Embedding", "denoise", "fit_embedding"]

"""Distances to coordinates: denoise a matrix of measured distances, complete it, and judge the fit.

`fit_embedding` is the one entry; `denoise` gives distances alone. `records` holds the options and the
result, `prepare` turns a directed matrix with holes into a checked, symmetric, unit-free one. `methods` has
the denoisers behind one Protocol: `heights` levels what single hosts add, `smooth` and `tree` keep the
racks, `starts` and `adam` fit coordinates on the library that `arrays` chooses (numpy, or torch). `mix`
makes one distance of their candidates, `interval` says how sure it is, and `fit` puts all together.
"""

from netprobe.embed.denoise import denoise
from netprobe.embed.fit import fit_embedding
from netprobe.embed.records import METHODS, Embedding, EmbedOptions

__all__ = ["METHODS", "EmbedOptions", "Embedding", "denoise", "fit_embedding"]

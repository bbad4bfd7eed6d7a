"""What one transfer over one link costs: a latency, or a latency and a time a byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.core.errors import InputError
from netprobe.plan.bounds.matrices import checked_costs

Ranks = NDArray[np.intp]
"""Hosts by rank (N,): one order."""
RankOrders = NDArray[np.intp]
"""Hosts by rank, an order a row (K, N)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkCost:
    """Seconds for a share of the buffer from one host to another, ``[src, dst]``, as measured in that direction.

    Of a latency alone (``latency_only``) every transfer costs ``alpha_s``, at any size, as in section
    5.2.2 of the dissertation, which drops the term of the size. With ``beta_s_per_byte`` a transfer of
    share x costs alpha + x * size_bytes * beta (Hockney). Diagonals are never read.
    """

    alpha_s: FloatMatrix
    beta_s_per_byte: FloatMatrix | None = None
    size_bytes: float = 0.0
    _flat: tuple[FloatMatrix, FloatMatrix | None] = field(init=False, repr=False)
    _cells: tuple[memoryview, memoryview | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises InputError for matrices that are not square, of different shapes, or hold an impossible cost."""
        alpha = checked_costs(self.alpha_s, "latency")
        whole: FloatMatrix | None = None
        if self.beta_s_per_byte is not None:
            if not (np.isfinite(self.size_bytes) and self.size_bytes > 0):
                raise InputError(
                    f"a buffer of {self.size_bytes} bytes: with a time a byte its size must be above 0"
                )
            beta = checked_costs(self.beta_s_per_byte, "time a byte")
            if beta.shape != alpha.shape:
                raise InputError(f"latencies of {len(alpha)} hosts, and times a byte of {len(beta)}")
            whole = (beta * self.size_bytes).ravel()
        object.__setattr__(self, "_flat", (alpha.ravel(), whole))
        # A cell of a memory view is a plain float, three times as fast as one of an array.
        cells = (alpha.ravel().data, None if whole is None else whole.data)
        object.__setattr__(self, "_cells", cells)

    def __len__(self) -> int:
        """Number of hosts."""
        return len(self.alpha_s)

    @property
    def flat(self) -> tuple[FloatMatrix, FloatMatrix | None]:
        """Latencies, and times of the whole buffer (None: not priced), (N * N,) each, [src * N + dst]."""
        return self._flat

    def seconds(self, src: Ranks, dst: Ranks, share: FloatMatrix) -> FloatMatrix:
        """Cost of each transfer of ``share`` (0..1] of the buffer from host ``src`` to host ``dst``."""
        alpha, whole = self._flat
        cell = src * len(self.alpha_s) + dst
        cost: FloatMatrix = alpha.take(cell)
        if whole is not None:
            cost = cost + share * whole.take(cell)
        return cost

    def one(self, src: int, dst: int, share: float) -> float:
        """``seconds`` of one transfer: the same float."""
        alpha, whole = self._cells
        cell = src * len(self.alpha_s) + dst
        cost: float = alpha[cell]
        return cost if whole is None else cost + share * float(whole[cell])

    def matrix(self, share: float = 1.0) -> FloatMatrix:
        """Costs (N, N) [src, dst] of a transfer of ``share``, the diagonal 0."""
        alpha, whole = self._flat
        cost = (alpha if whole is None else alpha + share * whole).reshape(self.alpha_s.shape).copy()
        np.fill_diagonal(cost, 0.0)
        return cost

    def permuted(self, hosts: Sequence[int]) -> LinkCost:
        """The same costs with host ``hosts[i]`` called i."""
        at = np.ix_(hosts, hosts)
        beta = self.beta_s_per_byte
        return LinkCost(
            alpha_s=self.alpha_s[at],
            beta_s_per_byte=None if beta is None else beta[at],
            size_bytes=self.size_bytes,
        )


def latency_only(rtt_s: FloatMatrix) -> LinkCost:
    """Links that cost half a round trip, ``rtt_s`` (N, N) [src, dst] in seconds."""
    return LinkCost(alpha_s=np.asarray(rtt_s, dtype=np.float64) / 2.0)


def latency_and_goodput(rtt_s: FloatMatrix, goodput_bytes_per_s: FloatMatrix, size_bytes: float) -> LinkCost:
    """Half a round trip, and the bytes at the goodput measured; all (N, N) [src, dst].

    Raises InputError where a goodput is missing or not above 0.
    """
    goodput = np.asarray(goodput_bytes_per_s, dtype=np.float64).copy()
    np.fill_diagonal(goodput, np.inf)
    bad = np.argwhere(~(goodput > 0))
    if len(bad):
        src, dst = bad[0].tolist()
        raise InputError(
            f"the goodput from host {src} to host {dst} is {goodput[src, dst]}: a number above 0 is needed"
        )
    return LinkCost(
        alpha_s=np.asarray(rtt_s, dtype=np.float64) / 2.0,
        beta_s_per_byte=1.0 / goodput,
        size_bytes=size_bytes,
    )


def checked_orders(orders: Iterable[Sequence[int]] | RankOrders, hosts: int) -> RankOrders:
    """``orders`` as an array (K, N): each a list of distinct hosts below ``hosts``; rank i is at place i.

    Raises InputError for anything else. An order may leave hosts out.
    """
    try:
        array = np.asarray(orders if isinstance(orders, np.ndarray) else list(orders))
    except ValueError:
        raise InputError("orders of different lengths cannot be priced at once") from None
    if array.ndim != 2 or (array.size and array.dtype.kind not in "iu"):
        raise InputError("an order is a list of host numbers")
    array = array.astype(np.intp)
    by_host = np.sort(array, axis=1)
    if array.size and (by_host[:, 0].min() < 0 or by_host[:, -1].max() >= hosts):
        raise InputError(f"an order names a host that is not one of the {hosts}")
    if (by_host[:, 1:] == by_host[:, :-1]).any():
        raise InputError("an order lists a host twice")
    return array

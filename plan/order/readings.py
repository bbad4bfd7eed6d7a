"""What the readings behind a map add to it: costs to search on, and folds to judge orders by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from netprobe.plan.costs import LinkCost
from netprobe.plan.order.link_costs import Links
from netprobe.plan.order.strategy import SearchCosts


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """One half of the readings to search on, and the other half to price on (``unseen``).

    ``denoised`` and ``search`` are as in `HeldOutReadings`; ``slow`` too, None unless slow readings repeat.
    """

    denoised: Links
    search: Links
    unseen: Links
    slow: Links | None = None

    def permuted(self, hosts: Sequence[int]) -> Fold:
        """The same fold with ``hosts[i]`` (an index) at place i."""
        return Fold(
            denoised=self.denoised.permuted(hosts),
            search=self.search.permuted(hosts),
            unseen=self.unseen.permuted(hosts),
            slow=None if self.slow is None else self.slow.permuted(hosts),
        )

    def among(self, hosts: Sequence[int]) -> SearchCosts:
        """The costs to search on among ``hosts``. Raises InputError where one is missing."""
        return SearchCosts(
            denoised=self.denoised.among(hosts),
            search=self.search.among(hosts),
            slow=None if self.slow is None else self.slow.among(hosts),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutReadings:
    """The readings behind a map, for a search and for a comparison on readings held out.

    search: the denoised costs with a share ``raw_share`` of the readings, or None where a map is all there is.
    slow: the same, with the reading itself where both readings of a pair are slow; None where no pair is. ``folds``
    is empty where orders cannot be judged; ``text`` says why, or what was judged. ``pairs`` have two readings, which
    differ by ``noise`` (one per pair, in the logarithm, the sign left out, and sorted).
    """

    search: Links | None = None
    slow: Links | None = None
    slow_repeats: bool = False
    """Most slow readings are of persistently slow links: what a search avoids because of them will be slow again."""
    raw_share: float = 0.0
    folds: tuple[Fold, ...] = ()
    pairs: int = 0
    noise: tuple[float, ...] = ()
    text: str = ""

    def permuted(self, hosts: Sequence[int]) -> HeldOutReadings:
        """The same readings with ``hosts[i]`` (an index) at place i."""
        return replace(
            self,
            search=None if self.search is None else self.search.permuted(hosts),
            slow=None if self.slow is None else self.slow.permuted(hosts),
            folds=tuple(fold.permuted(hosts) for fold in self.folds),
        )

    def among(self, hosts: Sequence[int], denoised: LinkCost) -> SearchCosts:
        """The costs to search on among ``hosts``, ``denoised`` where a map is all there is. Raises InputError."""
        return SearchCosts(
            denoised=denoised,
            search=denoised if self.search is None else self.search.among(hosts),
            slow=None if self.slow is None else self.slow.among(hosts),
        )

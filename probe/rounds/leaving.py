"""Hosts that leave the rounds: where visits with one host fail or come late, every round would wait for it.

A visit with a reading that is not late is good, any other one that was tried is bad, and both its ends are suspects.
A host whose visits were bad with three hosts in a row, each of which had a good visit with another one, is what
the three have in common: it leaves. Probing and being probed are looked at apart as well, for a firewall may
let answers in and no questions. Where a network falls in two, a host is well and the others are out of its reach: so
it is first visited with a partner that it had a good visit with or, where it had none, with one that the three have no
tie to. At the end of the rounds each host that left is tried once more.

No I/O and no clock: a test drives it with made-up visits.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from netprobe.core.text import listed
from netprobe.probe.records.visits import VisitResult
from netprobe.probe.rounds.circle import Link

PARTNERS = 3
"""So many partners that are well must have had a bad visit with a host."""
LATE_RATIO = 4.0
"""A visit is late when it takes so many times what the good ones take, and longer than ``Leaving`` allows."""
LATE_VISITS = 4
"""A host with so many late visits, however many good ones are between them, leaves, if that is so many times what hosts
have on average: it stops and goes."""
_RECENT = 64

ANY, PROBING, PROBED = "any", "probing", "probed"
Part = tuple[int, str]
"""A host, and what it does: ``PROBING`` others, being ``PROBED``, or ``ANY`` of the two."""


@dataclass
class _Trouble:
    """A part of a host with bad visits since its last good one."""

    bad: dict[Link, str] = field(default_factory=dict)
    """Why each visit was bad."""
    checking: Link | None = None
    """A visit that was asked for since it is a suspect."""
    confirmed: bool = False
    """It was bad, too."""
    only_late: bool = True
    """Whether all of them were late, and none without an answer."""


class Leaving:
    """Which hosts have left the rounds of one measurement, and why.

    ``late_s`` is how long a visit may take before it can be late; None: as long as it likes. ``suspects`` are
    hosts that left an earlier measurement of this scan: one bad visit is enough.
    """

    def __init__(
        self, names: Sequence[str] = (), *, late_s: float | None = None, suspects: Iterable[int] = ()
    ) -> None:
        self._names = names
        self._late_s = late_s
        self._suspects = frozenset(suspects)
        self._good: dict[Part, Link] = {}
        """The last good visit of each."""
        self._trouble: dict[Part, _Trouble] = {}
        self._needed: dict[Part, int] = {}
        """Where it is not ``PARTNERS``."""
        self._out: dict[Part, str] = {}
        self._news: list[str] = []
        self._late: Counter[int] = Counter()
        """Late visits of each host."""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._read = -1
        self._tie: dict[int, int] = {}
        """A tree of hosts that good visits tie together, each with its parent."""
        self._unheard: dict[int, set[Link]] = {}
        """Links that were tried, of each host, as long as no visit was good."""

    @property
    def hosts(self) -> frozenset[int]:
        """Hosts that neither probe nor are probed any more."""
        return frozenset(host for host, what in self._out if what == ANY)

    @property
    def seen(self) -> int:
        """How many visits it has looked at."""
        return max(0, self._read)

    @property
    def late_after_s(self) -> float | None:
        """How long a visit may take; None where that is unknown."""
        if self._late_s is None or not self._recent:
            return None
        return max(self._late_s, LATE_RATIO * sorted(self._recent)[len(self._recent) // 2])

    @property
    def usual_s(self) -> float:
        """What a good visit takes."""
        return sorted(self._recent)[len(self._recent) // 2] if self._recent else 0.0

    def take_in(self, visits: Sequence[VisitResult], alive: frozenset[int]) -> None:
        """Look at the visits since the last call, and decide. Those of the first call are an earlier scan's."""
        if self._read < 0:
            self._read = len(visits)
        for visit in visits[self._read :]:
            if visit.tried:
                self._take(visit)
        self._read = len(visits)
        self._decide(alive)

    def why_not(self, link: Link) -> str | None:
        """Why a link is left out; None where it is not."""
        if not self._out:
            return None
        for part in _parts(link):
            if part in self._out:
                return f"{self._name(part[0])}: left out of the rounds{self._out[part]}"
        return None

    def news(self) -> list[str]:
        """A line for each host that left or came back since the last call."""
        news, self._news = self._news, []
        return news

    def checks(self, alive: frozenset[int]) -> list[Link]:
        """Visits that say whether a suspect is to leave, no host in two of them."""
        busy: set[int] = set()
        links = []
        for part, trouble in self._trouble.items():
            if part in self._out or trouble.checking or trouble.only_late or not self._suspected(part, alive):
                continue
            link = self._check_of(part, alive)
            if link is None:
                continue
            ends = {link.src, link.dst}
            if ends <= alive and self.why_not(link) is None and not ends & busy:
                trouble.checking = link
                busy |= ends
                links.append(link)
        return links

    def trials(self, alive: frozenset[int]) -> list[Link]:
        """A link of each host that left, with another partner where there is one: whether it answers again."""
        well = [host for host in sorted(alive) if (host, ANY) not in self._out]
        links: list[Link] = []
        for place, (host, what) in enumerate(self._out):
            others = [other for other in well or sorted(alive) if other != host]
            if (
                host not in alive
                or not others
                or self._is_slow((host, what))
                or (not well and any(host in (n.src, n.dst) for n in links))
            ):
                continue
            met = {_other(link, host) for link in self._trouble[host, what].bad}
            fresh = [other for other in others if other not in met] or others
            # Where all left, neighbours try each other.
            partner = fresh[place % len(fresh)] if well else others[min(place, len(others) - 1)]
            links.append(Link(host, partner) if what == PROBING else Link(partner, host))
        return links

    def _check_of(self, part: Part, alive: frozenset[int]) -> Link | None:
        """A visit that is good unless the host is to blame; None where that is unknown."""
        host, what = part
        if part in self._good:
            return self._good[part]
        known = self._good.get((host, ANY))
        if known is not None:
            partner = _other(known, host)
        else:
            here = {self._root(_other(link, host)) for link in self._trouble[part].bad}
            others = (h for h in sorted(alive) if self._is_well(h, host) and self._root(h) not in here)
            found = next(others, None)
            if found is None:
                return None
            partner = found
        return Link(host, partner) if what == PROBING else Link(partner, host)

    def _take(self, visit: VisitResult) -> None:
        link = Link(visit.src, visit.dst)
        limit_s = self.late_after_s
        late = limit_s is not None and visit.duration_s > limit_s
        if late:
            self._late.update((link.src, link.dst))
        if visit.has_reading and not late:
            self._recent.append(visit.duration_s)
            for part in _parts(link):
                self._good[part] = link
                if part in self._trouble:
                    self._recover(part)
            one, other = self._root(link.src), self._root(link.dst)
            if one != other:
                self._tie[one] = other
            return
        why = f"they took {visit.duration_s:.1f} s" if late else (visit.reason or "no answer")
        for part in _parts(link):
            trouble = self._trouble.setdefault(part, _Trouble())
            trouble.bad[link] = why
            trouble.only_late &= late
            if trouble.checking == link:
                trouble.checking, trouble.confirmed = None, True
        if not self._good:
            for host in (link.src, link.dst):
                self._unheard.setdefault(host, set()).add(link)

    def _recover(self, part: Part) -> None:
        """Of a part in trouble a visit was good."""
        if self._trouble.pop(part).checking is not None:
            # It is well, and some others are out of its reach.
            self._needed[part] = 2 * self._needed.get(part, PARTNERS)
        if self._out.pop(part, None) is not None:
            self._news.append(f"{self._name(part[0])} is back in the rounds: it answers again")

    def _decide(self, alive: frozenset[int]) -> None:
        if not self._good:
            self._leave_all(alive)
            return
        # A host that is out altogether comes first: of it nothing else need be said.
        for part in sorted(self._trouble, key=lambda part: part[1] != ANY):
            if part in self._out or (part[0], ANY) in self._out or not self._suspected(part, alive):
                continue
            trouble = self._trouble[part]
            if trouble.confirmed or trouble.only_late or self._check_of(part, alive) is None:
                self._leave(part)
        most = LATE_VISITS * max(1.0, sum(self._late.values()) / max(1, len(alive)))
        for host, late in self._late.items():
            if late >= most and host in alive and (host, ANY) not in self._out:
                self._leave((host, ANY))

    def _suspected(self, part: Part, alive: frozenset[int]) -> bool:
        """Whether its bad visits are with enough hosts that are well."""
        host = part[0]
        if host not in alive:
            return False
        well = [link for link in self._trouble[part].bad if self._is_well(_other(link, host), host)]
        needed = 1 if host in self._suspects else self._needed.get(part, PARTNERS)
        if len(well) < needed:
            return False
        partners = len({_other(link, host) for link in well})
        if partners >= needed:
            return True
        # In a small fleet there are not so many.
        there = sum(self._is_well(other, host) for other in alive if other != host)
        return partners >= there and 2 * there >= len(alive) - 1

    def _is_well(self, other: int, host: int) -> bool:
        """Whether the last good visit of a host was with another one than ``host``, and it did not leave since."""
        good = self._good.get((other, ANY))
        return good is not None and host not in (good.src, good.dst) and (other, ANY) not in self._out

    def _leave_all(self, alive: frozenset[int]) -> None:
        """Nobody was ever heard: after a few visits of each host there is nothing to wait for."""
        enough = min(PARTNERS, 2 * (len(alive) - 1))
        if len(alive) > 1 and all(len(self._unheard.get(host, ())) >= enough for host in alive):
            for host in sorted(alive):
                if (host, ANY) not in self._out:
                    self._leave((host, ANY))

    def _leave(self, part: Part) -> None:
        host, what = part
        trouble = self._trouble.setdefault(part, _Trouble())
        if trouble.bad:
            partners = listed(
                list(dict.fromkeys(self._name(_other(link, host)) for link in trouble.bad)), PARTNERS
            )
            doing = {ANY: "with", PROBING: "to", PROBED: "from"}[what]
            why = f" after visits {doing} {partners} failed: {list(trouble.bad.values())[-1]}"
        else:
            why = f" after {self._late[host]} late visits"
        self._out[part] = why
        end = "" if trouble.only_late else "; it is tried once more at their end"
        self._news.append(f"{self._name(host)} leaves the rounds{why}{end}")

    def _is_slow(self, part: Part) -> bool:
        return self._trouble[part].only_late

    def _root(self, host: int) -> int:
        """One host for all that good visits tie to this one."""
        while (above := self._tie.get(host, host)) != host:
            self._tie[host] = host = self._tie.get(above, above)
        return host

    def _name(self, host: int) -> str:
        return self._names[host] if host < len(self._names) else f"host {host}"


def _parts(link: Link) -> tuple[Part, Part, Part, Part]:
    return (link.src, ANY), (link.dst, ANY), (link.src, PROBING), (link.dst, PROBED)


def _other(link: Link, host: int) -> int:
    return link.dst if link.src == host else link.src

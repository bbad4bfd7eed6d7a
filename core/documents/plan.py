"""The Plan documents: a union on ``kind``. Only plan/ loads them, since loading proves them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from netprobe.core.documents.document import Document, Record, canonical_sha256
from netprobe.core.documents.notebook import document_html, table_html
from netprobe.core.hosts import Host
from netprobe.core.text import one_line
from netprobe.core.units import count, seconds_text

if TYPE_CHECKING:
    from typing_extensions import Self

Objective = Literal["sum", "bottleneck"]


class RandomOrders(Record):
    """What random orders of the same hosts cost."""

    orders: int = Field(ge=1)
    mean_s: float = Field(ge=0)
    least_s: float = Field(ge=0)
    most_s: float = Field(ge=0)
    percentiles_s: dict[str, float] = Field(default_factory=dict)
    """By percentage: ``"5"`` is the cost below which 5 % of the random orders are."""


class HeldOutOrders(Record):
    """What orders searched on one half of the readings cost on the other half, which was held out."""

    folds: int = Field(default=0, ge=0)
    """0 where this was not, or cannot be, found out; ``text`` says why."""
    pairs: int = Field(default=0, ge=0)
    """Pairs of hosts with a reading in either half."""
    cost_s: float | None = Field(default=None, ge=0)
    """Of an order of the plan's kind, searched on a half."""
    cost_given_s: float | None = Field(default=None, ge=0)
    cost_leaf_s: float | None = Field(default=None, ge=0)
    """Of the leaves of the hierarchy of the hosts, no search after it."""
    gain_low: float | None = Field(default=None, ge=0)
    """Interval (95 %), by the noise of the readings, of ``cost_given_s`` over the cost of the best kind found."""
    gain_high: float | None = Field(default=None, ge=0)
    text: str


class OrderSolver(Record):
    """How the order was found."""

    kind: str
    """Which candidate it is: ``given``, ``leaf``, ``annealed``, ``ring``, ``polished`` or ``capacity``."""
    candidates_s: dict[str, float] = Field(default_factory=dict)
    """The cost of each candidate."""
    held_out_s: dict[str, float] = Field(default_factory=dict)
    """The held-out cost of each kind that was judged by it."""
    raw_share: float = Field(default=0.0, ge=0)
    """Weight of the raw readings, against the denoised distances, in the costs that are searched."""
    runs: int = Field(default=0, ge=0)
    steps: int = Field(default=0, ge=0)
    """Moves tried by annealing, or kicks of the ring's search, in all runs for the order."""
    text: str


class Plan(Document):
    """What every kind of plan has. ``requires`` names the features a reader must know to obey it."""

    KIND: ClassVar[str] = "plan"

    schema_: str = Field(default="netprobe.plan/1.0", alias="schema")
    kind: str
    requires: list[str] = Field(default_factory=list)
    hosts: list[Host]
    own_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """The canonical hash of the document as it was written; null in memory, and in a file that was edited on purpose.

    What a proof does not cover (predictions, advice) is by this known to be what was found.
    """

    def as_written(self) -> Self:
        """With its hash, which loading compares."""
        return self.model_copy(update={"own_sha256": canonical_sha256(self)})

    def is_as_written(self) -> bool:
        """Whether nothing was edited since it was written, by its hash; False without one."""
        return self.own_sha256 == canonical_sha256(self)

    @model_validator(mode="after")
    def _hosts_are_distinct(self) -> Plan:
        names = [host.name for host in self.hosts]
        if not names or len(set(names)) != len(names):
            raise ValueError("hosts must list at least one host, and each once")
        return self

    def summary(self) -> str:
        """Its kind and hosts."""
        return f"{self.kind} of {count(len(self.hosts), 'host')}"


class OrderPlan(Plan):
    """``kind: order``: the hosts in rank order for one collective algorithm."""

    VERSION: ClassVar[tuple[int, int]] = (1, 3)

    kind: Literal["order"] = "order"
    schema_: str = Field(default="netprobe.plan/1.3", alias="schema")
    collective: Literal["all_reduce", "reduce_scatter"] = "all_reduce"
    algorithm: str = "ring"
    """A cost model of docs/planning.md."""
    objective: Objective = "sum"
    """``bottleneck``, of a ring only: the largest hop counts, and not their sum."""
    size_bytes: int | None = Field(default=None, ge=1)
    """The buffer whose time was priced, by latency and goodput; null: latency alone."""
    order: list[str]
    """Host names, rank 0 first."""
    kept_given: str | None = None
    """Why the original order was kept without a search; null when there was a search."""
    cost_s: float = Field(ge=0)
    """Cost of ``order`` to the algorithm, on the map's denoised distances. Of a ring: the sum (or the largest)
    of the one-way times, each half an RTT, or that of a message of ``size_bytes``."""
    cost_given_s: float = Field(ge=0)
    """The same cost of the order in which the hosts were given."""
    lower_bound_s: float | None = Field(default=None, ge=0)
    """No order of these hosts costs less."""
    gap: float | None = Field(default=None, ge=0)
    """By how much ``cost_s`` is above the bound, as a share of it."""
    cost_random: RandomOrders | None = None
    cost_worst_s: float | None = Field(default=None, ge=0)
    order_worst: list[str] = Field(default_factory=list)
    """The most expensive order found, where requested."""
    held_out: HeldOutOrders | None = None
    solver: OrderSolver | None = None
    advice: str | None = None
    """What the figures say, in a sentence."""
    crossings: int | None = Field(default=None, ge=0)
    """Ring hops between groups; a ring through g > 1 groups needs at least g. Null without a ring."""
    crossings_given: int | None = Field(default=None, ge=0)
    left_out: list[str] = Field(default_factory=list)
    """Hosts that had no reading and are not in ``order``."""

    @model_validator(mode="after")
    def _order_is_a_permutation(self) -> OrderPlan:
        names = {host.name for host in self.hosts}
        if self.order_worst and sorted(self.order_worst) != sorted(self.order):
            raise ValueError("order_worst lists other hosts than order")
        if len(set(self.order)) != len(self.order):
            raise ValueError("order lists a host twice")
        if set(self.order) | set(self.left_out) != names or set(self.order) & set(self.left_out):
            raise ValueError("order must list each host once, but for those in left_out")
        return self

    def summary(self) -> str:
        """Hosts, algorithm, and what the order costs against the original one."""
        kept = ", your order is kept" if self.kept_given is not None else ""
        costs = f"{seconds_text(self.cost_s)} instead of {seconds_text(self.cost_given_s)}"
        return f"{count(len(self.order), 'rank')}, {self.algorithm}, {costs}{kept}"

    def _repr_html_(self) -> str:
        rows = [[str(rank), name] for rank, name in enumerate(self.order)]
        advice = f"<p>{escape(one_line(self.advice))}</p>" if self.advice else ""
        return document_html(f"OrderPlan: {self.summary()}", advice, table_html(("rank", "host"), rows))

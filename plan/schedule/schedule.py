"""A schedule: which rank sends which chunks to which, when, and what the receiver does with them.

The buffer is cut into blocks, a block into chunks. A **template** is what happens to one block: transfers, each in a
step. A transfer carries what its sender holds when the step begins, so that all transfers of a step are concurrent;
across steps a transfer waits only for what its own chunks need (nothing waits for a step as a whole). Blocks with
the same template store it once; each has a share of the buffer, a channel and a start, the step of the whole
schedule at which its own step 0 is. Sizes are shares, so one schedule serves every buffer size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netprobe.plan.schedule.contract import Contract

COPY, REDUCE, APPLY = range(3)
"""What the receiver does: put the chunks in place, add them to its own, or (of a rank to itself) apply an optimiser."""
MAX_TRANSFERS = 1 << 21
"""Of all blocks together: as many as planners build, proved in some ten seconds and 1.2 GB. Twice as many took 84 s and
3.2 GB."""
MAX_STEPS = 1 << 24
Ints = NDArray[np.int64]


class Transfer(NamedTuple):
    """Chunks ``first`` to ``last`` - 1 from rank ``src`` to rank ``dst``, added to what it has or put over it."""

    src: int
    dst: int
    first: int
    last: int
    reduces: bool


Round = list[Transfer]


@dataclass(frozen=True, eq=False)
class Template:
    """Transfers (T,) on ``chunks`` chunks, in ascending steps. Raises ValueError for what is not a valid transfer.

    ``op`` is COPY, REDUCE or APPLY; of APPLY ``src`` is ``dst``.
    """

    chunks: int
    step: Ints
    src: Ints
    dst: Ints
    first: Ints
    last: Ints
    op: Ints
    paths: tuple[tuple[str, ...], ...] | None = None
    """Resources that each transfer passes, where they are not those of its hosts and groups."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        columns = (self.step, self.src, self.dst, self.first, self.last, self.op)
        if self.chunks < 1 or any(c.shape != self.step.shape or c.ndim != 1 for c in columns):
            raise ValueError("a template's columns have different lengths, or it has no chunk")
        if self.paths is not None and len(self.paths) != len(self.step):
            raise ValueError(f"paths of {len(self.paths)} transfers, and there are {len(self.step)}")
        bad = (self.step < 0) | (self.step >= MAX_STEPS) | (self.first < 0) | (self.first >= self.last)
        bad |= (self.last > self.chunks) | (self.op < COPY) | (self.op > APPLY)
        bad |= (self.src < 0) | (self.dst < 0) | ((self.src == self.dst) != (self.op == APPLY))
        bad[1:] |= self.step[1:] < self.step[:-1]
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(f"transfer {at} {self._fault(at)}: {self.text(at)}")

    def _fault(self, at: int) -> str:
        """What is wrong with transfer ``at``."""
        step, src, dst = (int(column[at]) for column in (self.step, self.src, self.dst))
        first, last, op = (int(column[at]) for column in (self.first, self.last, self.op))
        if at and step < int(self.step[at - 1]):
            return f"is out of step order (step {step} after step {int(self.step[at - 1])})"
        if not 0 <= step < MAX_STEPS:
            return f"has a step that is not 0 to {MAX_STEPS - 1}"
        if not 0 <= first < last <= self.chunks:
            return f"has chunks that are no range within the template's {self.chunks}"
        if not COPY <= op <= APPLY:
            return f"has the operation {op}, and {COPY} to {APPLY} are known"
        if src < 0 or dst < 0:
            return "names a rank below 0"
        return "applies at another rank than its own" if op == APPLY else "sends to its own rank"

    def __len__(self) -> int:
        """How many transfers."""
        return len(self.step)

    @property
    def steps(self) -> int:
        """One more than the last step."""
        return int(self.step[-1]) + 1 if len(self.step) else 0

    def text(self, at: int) -> str:
        """Transfer ``at`` in words."""
        op = ("copy", "reduce", "apply")[self.op[at]] if 0 <= self.op[at] <= APPLY else str(self.op[at])
        chunks = (
            f"chunk {self.first[at]}"
            if self.last[at] - self.first[at] == 1
            else (f"chunks {self.first[at]} to {self.last[at] - 1}")
        )
        return f"step {self.step[at]}, {op} {chunks} from rank {self.src[at]} to rank {self.dst[at]}"

    def key(self) -> bytes:
        """Equal for equal templates."""
        columns = (self.step, self.src, self.dst, self.first, self.last, self.op)
        return self.chunks.to_bytes(8, "little") + b"".join(c.astype("<i4").tobytes() for c in columns)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of the buffer that moves as ``template`` says."""

    template: int
    weights: tuple[int, ...]
    """Of each of its chunks: their shares of the buffer are in proportion, over all blocks."""
    channel: int = 0
    start: int = 0
    weight: float | None = None
    """The rate of its tree, of forests."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """A collective algorithm among ``contract.ranks`` ranks. Raises ValueError where its pieces do not fit."""

    name: str
    contract: Contract
    templates: tuple[Template, ...]
    blocks: tuple[Block, ...]
    channels: int = 1
    phases: tuple[tuple[str, int], ...] = ()
    """Names of runs of steps of a template (name, first step), where an algorithm has them."""
    _expanded: list[Expanded] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.channels < 1:
            raise ValueError(f"{self.channels} channels: at least 1 is needed")
        total = 0
        for at, block in enumerate(self.blocks):
            if not 0 <= block.template < len(self.templates):
                raise ValueError(f"block {at}: template {block.template} of {len(self.templates)}")
            template = self.templates[block.template]
            if len(block.weights) != template.chunks or min(block.weights) < 0:
                raise ValueError(f"block {at}: {template.chunks} weights are needed, each 0 or more")
            if not 0 <= block.channel < self.channels:
                raise ValueError(f"block {at}: channel {block.channel} of {self.channels}")
            if not 0 <= block.start < MAX_STEPS:
                raise ValueError(f"block {at}: start {block.start}")
            total += len(template)
        if total > MAX_TRANSFERS:
            raise ValueError(f"{total} transfers: at most {MAX_TRANSFERS} are allowed")
        if sum(len(block.weights) for block in self.blocks) != self.contract.chunks:
            raise ValueError(f"blocks of other chunks than the {self.contract.chunks} of the contract")
        if not any(w for block in self.blocks for w in block.weights):
            raise ValueError("all chunks are empty")
        for number, template in enumerate(self.templates):
            if len(template) and max(template.src.max(), template.dst.max()) >= self.contract.ranks:
                raise ValueError(
                    f"template {number} names a rank that is not one of the {self.contract.ranks}"
                )

    @property
    def ranks(self) -> int:
        """How many ranks."""
        return self.contract.ranks

    @property
    def chunks(self) -> int:
        """How many chunks, of all blocks."""
        return self.contract.chunks

    @property
    def steps(self) -> int:
        """Steps of the whole schedule."""
        return max((b.start + self.templates[b.template].steps for b in self.blocks), default=0)

    def weights(self) -> Ints:
        """(chunks,) in proportion to each chunk's share of the buffer."""
        return np.concatenate([np.array(block.weights, dtype=np.int64) for block in self.blocks])

    def boundaries(self, elements: int) -> Ints:
        """(chunks + 1,) where each chunk begins in a buffer of ``elements``: whole ones, by largest remainder.

        No chunk is more than one element off its share; equal chunks differ by one at most.
        """
        return np.concatenate([[0], np.cumsum(split(elements, self.weights()))])

    def expanded(self) -> Expanded:
        """Every transfer of every block, in the order in which ranks are to start them."""
        if not self._expanded:
            self._expanded.append(_expand(self))
        return self._expanded[0]

    def sent_bytes(self, size_bytes: int) -> int:
        """Payload of all messages, of a buffer of ``size_bytes`` on each rank."""
        at = self.boundaries(size_bytes)
        every = self.expanded()
        wire = every.op != APPLY
        return int((at[every.last[wire]] - at[every.first[wire]]).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Expanded:
    """All transfers (T,) of a schedule, chunks numbered over the whole buffer, in ascending ``step``."""

    step: Ints
    src: Ints
    dst: Ints
    first: Ints
    last: Ints
    op: Ints
    channel: Ints
    block: Ints

    def __len__(self) -> int:
        """How many transfers."""
        return len(self.step)


def _expand(schedule: Schedule) -> Expanded:
    columns: dict[str, list[Ints]] = {name: [] for name in ("step", "src", "dst", "first", "last", "op")}
    sizes, offset = [], 0
    for block in schedule.blocks:
        template = schedule.templates[block.template]
        sizes.append(len(template))
        columns["step"].append(template.step + block.start)
        columns["first"].append(template.first + offset)
        columns["last"].append(template.last + offset)
        for name in ("src", "dst", "op"):
            columns[name].append(getattr(template, name))
        offset += template.chunks
    joined = {
        name: np.concatenate(parts) if parts else np.zeros(0, np.int64) for name, parts in columns.items()
    }
    number = np.repeat(np.arange(len(sizes)), sizes)
    channel = np.array([b.channel for b in schedule.blocks], dtype=np.int64)[number]
    order = np.argsort(joined["step"], kind="stable")
    return Expanded(
        channel=channel[order],
        block=number[order],
        **{name: column[order] for name, column in joined.items()},
    )


def split(count: int, weights: Ints) -> Ints:
    """``count`` things in proportion to ``weights`` (K,), whole ones, by largest remainder; ties to the first.

    Exact for any size: products are Python's whole numbers where 64 bits do not hold them.
    """
    total = int(weights.sum())
    if count < 0 or total <= 0:
        raise ValueError(f"{count} elements in shares that add up to {total}")
    if count * int(weights.max()) < 1 << 62:
        quotient, remainder = np.divmod(count * weights, total)
    else:
        pairs = [divmod(count * int(w), total) for w in weights]
        quotient = np.array([q for q, _ in pairs], dtype=np.int64)
        remainder = np.array([r * (1 << 32) // total for _, r in pairs], dtype=np.int64)
    left = count - int(quotient.sum())
    if left:
        quotient[np.argsort(-remainder, kind="stable")[:left]] += 1
    return quotient


def template_of(transfers: Iterable[tuple[int, int, int, int, int, int]], chunks: int) -> Template:
    """A template of rows (step, src, dst, first, last, op), which need not be in step order."""
    rows = np.array(list(transfers), dtype=np.int64).reshape(-1, 6)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return from_rows(chunks, rows)


def from_rows(chunks: int, rows: Ints, paths: tuple[tuple[str, ...], ...] | None = None) -> Template:
    """A template of rows (T, 6): step, src, dst, first, last, op, in ascending steps. Raises ValueError."""
    step, src, dst, first, last, op = np.ascontiguousarray(rows.T)
    return Template(chunks, step, src, dst, first, last, op, paths)


def template_of_rounds(rounds: Iterable[Sequence[Transfer]], chunks: int) -> Template:
    """A template of rounds: round i is step i."""
    return template_of(
        (
            (step, t.src, t.dst, t.first, t.last, REDUCE if t.reduces else COPY)
            for step, transfers in enumerate(rounds)
            for t in transfers
        ),
        chunks,
    )


def one_template(
    name: str, contract: Contract, template: Template, *, blocks: int = 1, channels: int = 1
) -> Schedule:
    """A schedule of ``blocks`` equal blocks, all of one template; block i goes over channel i modulo ``channels``.

    Blocks of one channel start a step apart, so that a connection carries the earlier block first.
    """
    return Schedule(
        name=name,
        contract=contract,
        templates=(template,),
        blocks=tuple(
            Block(template=0, weights=(1,) * template.chunks, channel=i % channels, start=i // channels)
            for i in range(blocks)
        ),
        channels=channels,
    )

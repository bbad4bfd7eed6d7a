"""Schedules as plan documents and back; loading one proves it."""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netprobe.core.documents.document import Parent
from netprobe.core.documents.plan import Plan
from netprobe.core.documents.schedule_plan import (
    ContractPart,
    Prediction,
    ScheduleContract,
    SchedulePhase,
    SchedulePlan,
    ScheduleTemplate,
)
from netprobe.core.hosts import Host
from netprobe.plan.registry import PlanKind, register
from netprobe.plan.schedule.contract import COLLECTIVES, Contract, Part
from netprobe.plan.schedule.program import MAX_CHANNELS, CollectiveProgram, compile_schedule
from netprobe.plan.schedule.proof import Proof, prove
from netprobe.plan.schedule.schedule import APPLY, MAX_TRANSFERS, Block, Schedule, Template, from_rows
from netprobe.probe.agent.collective.program import MAX_CHUNKS, MAX_RANKS

FEATURES = frozenset({"apply", "paths", "rates", "relays"})
"""What ``requires`` may name: optimisers on servers, explicit resource paths, rates of trees, ranks that only relay."""
MOST_PARTS = 1 << 16
MOST_NAMED = 1 << 22
"""Ranks that the parts of a contract name, each as often as it is named: so many are checked in seconds."""
MOST_WEIGHT = 1 << 40
_REMEMBERED = 16
_PROVED: OrderedDict[str, tuple[CollectiveProgram, Proof]] = OrderedDict()


def proved_schedule(plan: SchedulePlan) -> tuple[Schedule, CollectiveProgram, Proof]:
    """The schedule of a plan, its program and proof. Raises ValueError with the first thing that does not hold.

    What this process has proved, it does not prove again.
    """
    schedule = schedule_of(plan)
    key = digest_of(schedule)
    if key not in _PROVED:
        program = compile_schedule(schedule)
        _PROVED[key] = (program, prove(program, schedule.contract))
        while len(_PROVED) > _REMEMBERED:
            _PROVED.popitem(last=False)
    # Shares of the buffer are not part of the proof: the schedule is this plan's own.
    return schedule, *_PROVED[key]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which host has each rank (``order``, names, rank 0 first), of all ``hosts``, and the groups it was built for."""

    hosts: Sequence[Host]
    order: Sequence[str]
    groups: Sequence[Sequence[str]] = ()
    grouping: str | None = None


def build_schedule_plan(
    schedule: Schedule,
    placement: Placement,
    *,
    size_bytes: int | None = None,
    predictions: Sequence[Prediction] = (),
    advice: str | None = None,
    parents: Sequence[Parent] = (),
    seed: int = 0,
) -> SchedulePlan:
    """The proved document of ``schedule`` on the hosts of ``placement``.

    Raises ValueError where it does not hold.
    """
    contract = schedule.contract
    named = set(placement.order)
    plan = SchedulePlan(
        hosts=list(placement.hosts),
        requires=sorted(features_of(schedule)),
        algorithm=schedule.name,
        order=list(placement.order),
        left_out=[host.name for host in placement.hosts if host.name not in named],
        groups=[list(group) for group in placement.groups],
        grouping=placement.grouping,
        size_bytes=size_bytes,
        contract=ScheduleContract(
            collective=contract.collective,
            root=contract.root,
            applied=contract.applied,
            parts=[
                ContractPart(
                    chunks=(part.first, part.last),
                    contributors=_runs(part.contributors),
                    receivers=_runs(part.receivers),
                )
                for part in contract.parts
            ],
        ),
        channels=schedule.channels,
        templates=[
            ScheduleTemplate(
                chunks=t.chunks,
                transfers=np.stack([t.step, t.src, t.dst, t.first, t.last, t.op], axis=1),
                paths=None if t.paths is None else [list(path) for path in t.paths],
            )
            for t in schedule.templates
        ],
        blocks=np.array([[b.template, b.channel, b.start] for b in schedule.blocks]).reshape(-1, 3),
        weights=_run_lengths([w for block in schedule.blocks for w in block.weights]),
        rates=_rates(schedule),
        phases=[SchedulePhase(name=name, first_step=step) for name, step in schedule.phases],
        predictions=list(predictions),
        advice=advice,
        parents=list(parents),
        seed=seed,
    )
    _, _, proof = proved_schedule(plan)
    return plan.model_copy(update={"safe_under": list(proof.safe_under)})


def schedule_of(plan: SchedulePlan) -> Schedule:
    """The schedule in a plan, its pieces checked and nothing proved yet. Raises ValueError."""
    ranks = len(plan.order)
    if ranks > MAX_RANKS or not 1 <= plan.channels <= MAX_CHANNELS:
        raise ValueError(
            f"{ranks} ranks and {plan.channels} channels: {MAX_RANKS} and {MAX_CHANNELS} at most"
        )
    if len(plan.contract.parts) > MOST_PARTS or sum(len(t.transfers) for t in plan.templates) > MAX_TRANSFERS:
        raise ValueError(f"more than {MOST_PARTS} parts of the contract, or {MAX_TRANSFERS} transfers")
    runs = [run for part in plan.contract.parts for run in (*part.contributors, *part.receivers)]
    if sum(max(end - first, 0) for first, end in runs) > MOST_NAMED:
        raise ValueError(f"parts of the contract that name ranks more than {MOST_NAMED} times in all")
    templates = tuple(_template(t, number) for number, t in enumerate(plan.templates))
    blocks = _blocks(plan, templates)
    schedule = Schedule(
        name=plan.algorithm,
        contract=_contract(plan.contract, ranks, sum(len(b.weights) for b in blocks)),
        templates=templates,
        blocks=blocks,
        channels=plan.channels,
        phases=tuple((phase.name, phase.first_step) for phase in plan.phases),
    )
    used = features_of(schedule)
    if used != set(plan.requires):
        raise ValueError(f"requires is {sorted(plan.requires)}, and what it uses is {sorted(used)}")
    return schedule


def features_of(schedule: Schedule) -> set[str]:
    """The features that a reader must support."""
    found = set()
    if any((t.op == APPLY).any() for t in schedule.templates) or schedule.contract.applied:
        found.add("apply")
    if any(t.paths is not None for t in schedule.templates):
        found.add("paths")
    if any(b.weight is not None for b in schedule.blocks):
        found.add("rates")
    if len(schedule.contract.participants) < schedule.ranks:
        found.add("relays")
    return found


def digest_of(schedule: Schedule) -> str:
    """SHA-256 of all that a proof depends on."""
    digest = hashlib.sha256(repr((schedule.contract, schedule.channels)).encode())
    for template in schedule.templates:
        digest.update(template.key())
    rows = [[b.template, b.channel, b.start, len(b.weights)] for b in schedule.blocks]
    digest.update(np.array(rows, dtype="<i8").tobytes())
    return digest.hexdigest()


def prove_schedule_plan(plan: Plan) -> None:
    """Prove a plan of kind ``schedule``. Raises ValueError with the first thing that does not hold."""
    if not isinstance(plan, SchedulePlan):
        raise ValueError("is not a schedule")
    _, _, proof = proved_schedule(plan)
    if plan.safe_under != list(proof.safe_under):
        given = f"{str(plan.safe_under[:8])[:80]}{'' if len(plan.safe_under) <= 8 else ' and more'}"
        raise ValueError(f"safe_under is {given}, and what was proved is {list(proof.safe_under)}")


def _template(template: ScheduleTemplate, number: int) -> Template:
    if template.chunks > MAX_CHUNKS:
        raise ValueError(f"template {number}: {template.chunks} chunks, at most {MAX_CHUNKS}")
    rows = template.transfers.reshape(-1, 6)
    paths = None if template.paths is None else tuple(tuple(path) for path in template.paths)
    try:
        return from_rows(template.chunks, rows, paths)
    except ValueError as error:
        raise ValueError(f"template {number}: {error}") from None


def _blocks(plan: SchedulePlan, templates: Sequence[Template]) -> tuple[Block, ...]:
    rates: Sequence[float | None] = plan.rates if plan.rates is not None else [None] * len(plan.blocks)
    counts, each = plan.weights[:, 0], plan.weights[:, 1]
    # Each count first: a sum of 64 bits comes round to a small number.
    many = (counts < 1).any() or (counts > MAX_CHUNKS).any() or int(counts.sum()) > MAX_CHUNKS
    if many or (each < 0).any() or (each > MOST_WEIGHT).any():
        raise ValueError(f"weights must be of 1 to {MAX_CHUNKS} chunks in all, each 0 to {MOST_WEIGHT}")
    if len(rates) != len(plan.blocks):
        raise ValueError(f"{len(rates)} rates of {len(plan.blocks)} blocks")
    weights = np.repeat(each, counts).tolist()
    made, at = [], 0
    for number, ((template, channel, start), rate) in enumerate(zip(plan.blocks.tolist(), rates)):
        if not 0 <= template < len(templates):
            raise ValueError(f"block {number}: template {template} of {len(templates)}")
        end = at + templates[template].chunks
        if end > len(weights):
            raise ValueError(f"block {number}: weights of {len(weights)} chunks are too few")
        own = tuple(weights[at:end])
        made.append(Block(template=template, weights=own, channel=channel, start=start, weight=rate))
        at = end
    if at != len(weights):
        raise ValueError(f"weights of {len(weights)} chunks for {at} chunks of the blocks")
    return tuple(made)


def _contract(contract: ScheduleContract, ranks: int, chunks: int) -> Contract:
    if contract.collective not in COLLECTIVES:
        raise ValueError(f"collective {contract.collective[:60]!r}: known are {', '.join(COLLECTIVES)}")
    parts = tuple(
        Part(*part.chunks, _ranks(part.contributors, ranks), _ranks(part.receivers, ranks))
        for part in contract.parts
    )
    kind: Any = contract.collective
    return Contract(
        collective=kind, ranks=ranks, chunks=chunks, parts=parts, root=contract.root, applied=contract.applied
    )


def _ranks(runs: Sequence[tuple[int, int]], ranks: int) -> tuple[int, ...]:
    if any(not 0 <= first < end <= ranks for first, end in runs) or sum(e - f for f, e in runs) > ranks:
        raise ValueError(f"runs of ranks {runs[:3]}: [first, end) below {ranks} is needed")
    return tuple(rank for first, end in runs for rank in range(first, end))


def _runs(ranks: Sequence[int]) -> list[tuple[int, int]]:
    runs = []
    for _, group in itertools.groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0]):
        own = [rank for _, rank in group]
        runs.append((own[0], own[-1] + 1))
    return runs


def _run_lengths(weights: Sequence[int]) -> Any:
    rows = [[len(list(group)), weight] for weight, group in itertools.groupby(weights)]
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def _rates(schedule: Schedule) -> list[float] | None:
    if all(block.weight is None for block in schedule.blocks):
        return None
    return [0.0 if block.weight is None else block.weight for block in schedule.blocks]


register(
    PlanKind(
        kind="schedule",
        model=SchedulePlan,
        prove=prove_schedule_plan,
        summary="who sends what to whom in a collective, chunk by chunk",
        features=FEATURES,
    )
)

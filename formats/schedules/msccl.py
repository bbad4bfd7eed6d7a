"""MSCCL XML, written: what Microsoft's collective communication library runs on GPUs in place of NCCL's own algorithms.

A rank is a GPU, a thread block of it a connection end: each sends to one peer or receives from one, over one channel,
step after step. A step waits for at most one step of another thread block, so further waits are ``nop`` steps before
it. The file runs in place, in the buffer ``i``. Source: microsoft/msccl, ``src/graph/connect.cc`` and
``msccl_struct.h`` (limits).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError
from netprobe.formats.format import ScheduleFormat
from netprobe.plan import proved_schedule
from netprobe.plan.schedule.program import Action, CollectiveProgram
from netprobe.probe.agent.collective.program import RECEIVE, SEND

MOST_STEPS = 256
MOST_BLOCKS_A_CHANNEL = 32
MOST_CHANNELS = 32
SLACK = 1.1
MOST_COUNT = 71
"""Chunks of one step."""

Line = tuple[int, int, int]
"""SEND or RECEIVE, peer, channel: a thread block."""
Row = tuple[str, tuple[int, int], int, int]
"""Type, (first chunk, count), and the thread block and step that it waits for (-1: none)."""


def write_msccl(plan: SchedulePlan) -> str:
    """The XML of a plan. Raises InputError naming what MSCCL cannot express."""
    schedule, program, _ = proved_schedule(plan)
    if schedule.contract.collective != "all_reduce" or plan.requires:
        what = ", ".join(plan.requires) or schedule.contract.collective
        raise InputError(f"MSCCL XML is written of all-reduces among all ranks, and this plan has {what}")
    if len(set(schedule.weights().tolist())) > 1:
        raise InputError("MSCCL XML has chunks of one size only, and this plan has unequal ones")
    if schedule.channels > MOST_CHANNELS:
        raise InputError(f"{schedule.channels} channels: MSCCL has at most {MOST_CHANNELS}")
    head = (
        f'<algo name={quoteattr(plan.algorithm)} proto="Simple" nchannels="{schedule.channels}" '
        f'nchunksperloop="{program.chunks}" ngpus="{program.ranks}" coll="allreduce" inplace="1" outofplace="0" '
        'minBytes="0" maxBytes="1099511627776">'
    )
    made = [_thread_blocks(program, rank) for rank in range(program.ranks)]
    _check_steps(plan, made)
    gpus = [_gpu(program, rank, *one) for rank, one in enumerate(made)]
    return "\n".join([head, *(line for gpu in gpus for line in gpu), "</algo>", ""])


def _thread_blocks(program: CollectiveProgram, rank: int) -> tuple[dict[Line, int], dict[int, list[Row]]]:
    """The thread blocks of a rank, numbered, and the steps of each."""
    actions = list(program.actions(rank))
    lines: dict[Line, list[int]] = {}
    for place, action in enumerate(actions):
        if action.kind in (SEND, RECEIVE):
            lines.setdefault((action.kind, action.peer, action.channel), []).append(place)
    blocks = {line: number for number, line in enumerate(sorted(lines))}
    _check_blocks(rank, blocks)
    rows, at = _steps(actions, blocks)
    assert len(at) == sum(map(len, lines.values()))
    return blocks, rows


def _check_steps(plan: SchedulePlan, made: Sequence[tuple[dict[Line, int], dict[int, list[Row]]]]) -> None:
    """Refuse more steps than MSCCL has, of the longest thread block, and say what gives fewer."""
    most, rank, (_, peer, channel) = max(
        (len(rows[number]), rank, line)
        for rank, (blocks, rows) in enumerate(made)
        for line, number in blocks.items()
    )
    if most <= MOST_STEPS:
        return
    raise InputError(
        f"rank {rank} has {most} steps on its connection with rank {peer}, channel {channel}: "
        f"MSCCL has at most {MOST_STEPS}; {_remedy(plan, most)}"
    )


def _remedy(plan: SchedulePlan, steps: int) -> str:
    """The command that plans a schedule of fewer steps than ``steps`` on one connection."""
    if plan.algorithm != "2lha" or not plan.size_bytes:
        return f"no option of netprobe plan gives {plan.algorithm} fewer: netprobe plan 2lha MAP --chunk SIZE can"
    # Steps grow with the chunks; a little more for those that do not, and for rounding up.
    chunk, more = plan.size_bytes / len(plan.blocks), SLACK * steps / MOST_STEPS
    again = f"netprobe plan 2lha MAP --size {plan.size_bytes}B"
    keep = "" if plan.channels == 1 else f" --channels {plan.channels}"
    remedy = f"plan it in larger chunks ({again} --chunk {math.ceil(more * chunk)}B{keep})"
    channels = math.ceil(more * plan.channels)
    if channels <= MOST_CHANNELS:
        remedy += f" or over more channels ({again} --chunk {math.ceil(chunk)}B --channels {channels})"
    return remedy


def _gpu(
    program: CollectiveProgram, rank: int, blocks: dict[Line, int], rows: dict[int, list[Row]]
) -> list[str]:
    waited = {(block, step) for own in rows.values() for _, _, block, step in own if block >= 0}
    text = [f'  <gpu id="{rank}" i_chunks="{program.chunks}" o_chunks="{program.chunks}" s_chunks="0">']
    for line, number in blocks.items():
        kind, peer, channel = line
        ends = f'send="{peer}" recv="-1"' if kind == SEND else f'send="-1" recv="{peer}"'
        text.append(f'    <tb id="{number}" {ends} chan="{channel}">')
        for place, (what, (first, count), block, step) in enumerate(rows[number]):
            text.append(
                f'      <step s="{place}" type="{what}" srcbuf="i" srcoff="{first}" dstbuf="i" dstoff="{first}" '
                f'cnt="{count}" depid="{block}" deps="{step}" hasdep="{int((number, place) in waited)}"/>'
            )
        text.append("    </tb>")
    return [*text, "  </gpu>"]


def _steps(
    actions: Sequence[Action], blocks: dict[Line, int]
) -> tuple[dict[int, list[Row]], dict[int, tuple[int, int]]]:
    """The steps of each thread block, and where each action ends: (thread block, its last step)."""
    rows: dict[int, list[Row]] = {number: [] for number in blocks.values()}
    at: dict[int, tuple[int, int]] = {}
    for place, action in enumerate(actions):
        if action.kind not in (SEND, RECEIVE):
            continue
        own = blocks[action.kind, action.peer, action.channel]
        # Steps of its own thread block come before it anyway; of another one the last says all.
        latest: dict[int, int] = {}
        for other in action.after:
            if other in at and at[other][0] != own:
                block, step = at[other]
                latest[block] = max(latest.get(block, -1), step)
        waits = sorted(latest.items()) or [(-1, -1)]
        rows[own] += [("nop", (0, 0), block, step) for block, step in waits[:-1]]
        what = "s" if action.kind == SEND else "rrc" if action.reduces else "r"
        wait = waits[-1]
        for first in range(action.first, action.last, MOST_COUNT):
            rows[own].append((what, (first, min(MOST_COUNT, action.last - first)), *wait))
            wait = (-1, -1)
        at[place] = (own, len(rows[own]) - 1)
    return rows, at


def _check_blocks(rank: int, blocks: dict[Line, int]) -> None:
    for channel in {channel for _, _, channel in blocks}:
        for kind, what in ((SEND, "sends to"), (RECEIVE, "receives from")):
            peers = sum(1 for k, _, c in blocks if k == kind and c == channel)
            if peers > MOST_BLOCKS_A_CHANNEL:
                raise InputError(
                    f"rank {rank} {what} {peers} ranks over channel {channel}: MSCCL has at most "
                    f"{MOST_BLOCKS_A_CHANNEL} thread blocks per channel for that"
                )


SCHEDULE_FORMAT = ScheduleFormat(
    name="msccl",
    summary="MSCCL XML, an algorithm file for GPUs (a rank is a GPU)",
    write=write_msccl,
    file="schedule.msccl.xml",
)

"""MSCCL XML, read and run: a reader of the format alone, so that it checks what ``msccl.py`` writes.

Reads files in place or not, with scratch buffers, of all-reduce and all-gather. What a file does is found by running
it on sets of contributions: thread blocks run side by side in any timing, each its steps in turn.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from xml.etree import ElementTree

from netprobe.core.errors import InputError

MOST_BYTES = 64 << 20
MOST_STEPS = 1 << 20
TYPES = {
    "s": (False, True), "r": (True, False), "rcs": (True, True), "rrs": (True, True), "rrc": (True, False),
    "rrcs": (True, True), "re": (False, False), "cpy": (False, False), "nop": (False, False),
}  # fmt: skip
"""Whether each type of step receives, and sends."""
COLLECTIVES = ("allreduce", "allgather")

Value = Counter[tuple[int, int]]
"""How often (rank, chunk of its input) is in a sum."""


@dataclass(frozen=True)
class Step:
    """One step of a thread block."""

    type: str
    srcbuf: str
    srcoff: int
    dstbuf: str
    dstoff: int
    count: int
    depid: int
    deps: int


@dataclass(frozen=True)
class ThreadBlock:
    """Steps in turn; ``send`` and ``recv`` are peers, -1 for none."""

    number: int
    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class MscclFile:
    """An algorithm. ``blocks[gpu]`` are its thread blocks; ``chunks`` those of the whole result buffer."""

    name: str
    collective: str
    gpus: int
    chunks: int
    inplace: bool
    blocks: tuple[tuple[ThreadBlock, ...], ...]


def read_msccl(text: str, *, source: str = "MSCCL file") -> MscclFile:
    """Parse. Raises InputError in one line for what is not an MSCCL algorithm."""
    if len(text) > MOST_BYTES or "<!" in text.replace("<!--", ""):
        raise InputError(
            f"{source}: larger than {MOST_BYTES} bytes, or with a document type: not an MSCCL file"
        )
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{source}: not valid XML: {str(error)[:200]}") from None
    if root.tag != "algo":
        raise InputError(f"{source}: its root is <{root.tag[:40]}>, and <algo> is needed")
    collective = root.get("coll", "allreduce")
    if collective not in COLLECTIVES:
        raise InputError(f"{source}: coll {collective[:40]!r}: {', '.join(COLLECTIVES)} are read")
    gpus = root.findall("gpu")
    numbers = sorted(_whole(gpu, "id", source, low=0) for gpu in gpus)
    if not gpus or numbers != list(range(len(gpus))):
        raise InputError(f"{source}: the gpus are not numbered 0 to {len(gpus) - 1}")
    if len(root.findall(".//step")) > MOST_STEPS:
        raise InputError(f"{source}: more than {MOST_STEPS} steps")
    by_id = {_whole(gpu, "id", source, low=0): gpu for gpu in gpus}
    return MscclFile(
        name=root.get("name", ""),
        collective=collective,
        gpus=len(gpus),
        chunks=_whole(root, "nchunksperloop", source, low=1),
        inplace=root.get("inplace", "0") == "1",
        blocks=tuple(_blocks(by_id[rank], rank, len(gpus), source) for rank in range(len(gpus))),
    )


def _blocks(gpu: ElementTree.Element, rank: int, gpus: int, source: str) -> tuple[ThreadBlock, ...]:
    made: list[ThreadBlock] = []
    for at, block in enumerate(gpu.findall("tb")):
        where = f"{source}: gpu {rank}, thread block {at}"
        send, recv = (_whole(block, key, where, low=-1) for key in ("send", "recv"))
        if _whole(block, "id", where, low=0) != at or max(send, recv) >= gpus or rank in (send, recv):
            raise InputError(f"{where}: an id, or a peer that is not one of the other gpus")
        steps: list[Step] = []
        for step in block.findall("step"):
            kind = step.get("type", "")
            if kind not in TYPES or _whole(step, "s", where, low=0) != len(steps):
                raise InputError(f"{where}: step {len(steps)} has type {kind[:20]!r} or another number")
            receives, sends = TYPES[kind]
            if (receives and recv < 0) or (sends and send < 0):
                raise InputError(
                    f"{where}: step {len(steps)} is {kind}, and the thread block has no such peer"
                )
            buffers = [step.get(key, "i") for key in ("srcbuf", "dstbuf")]
            if not set(buffers) <= set("ios"):
                raise InputError(f"{where}: step {len(steps)} names a buffer other than i, o, s")
            numbers = [_whole(step, key, where, low=0) for key in ("srcoff", "dstoff", "cnt")]
            depid, deps = (_whole(step, key, where, low=-1) for key in ("depid", "deps"))
            steps.append(Step(kind, buffers[0], numbers[0], buffers[1], numbers[1], numbers[2], depid, deps))
        made.append(ThreadBlock(at, send, recv, _whole(block, "chan", where, low=0), tuple(steps)))
    for one in made:
        for own in one.steps:
            if own.depid >= len(made) or (own.depid >= 0 and own.deps >= len(made[own.depid].steps)):
                raise InputError(
                    f"{source}: gpu {rank}: a step waits for a thread block or step that does not exist"
                )
    lines = [
        (kind, peer, b.channel) for b in made for kind, peer in (("s", b.send), ("r", b.recv)) if peer >= 0
    ]
    if len(set(lines)) != len(lines):
        raise InputError(f"{source}: gpu {rank}: two thread blocks share a peer and channel")
    return tuple(made)


def _whole(element: ElementTree.Element, key: str, source: str, *, low: int) -> int:
    text = element.get(key, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(text) >= low):
        raise InputError(
            f"{source}: <{element.tag}> has {key} {text[:20]!r}: a whole number from {low} is needed"
        )
    return int(text)


@dataclass
class _Gpu:
    """A running GPU: its buffers, and how many steps each thread block has done."""

    memory: dict[tuple[str, int], Value] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)


def run_msccl(file: MscclFile, seed: int) -> None:
    """Run ``file`` in one random timing. Raises ValueError where it waits for ever or does not end as it should."""
    rng = random.Random(seed)
    own = file.chunks if file.collective == "allreduce" else file.chunks // file.gpus
    gpus = [_Gpu(done=[0] * len(blocks)) for blocks in file.blocks]
    for rank, gpu in enumerate(gpus):
        for chunk in range(own):
            gpu.memory[_cell(file, rank, "i", chunk)] = Counter({(rank, chunk): 1})
    lines: dict[tuple[int, int, int], deque[list[Value]]] = {}
    able = {
        (rank, block.number) for rank, blocks in enumerate(file.blocks) for block in blocks if block.steps
    }
    left = sum(len(block.steps) for blocks in file.blocks for block in blocks)
    waiting: set[tuple[int, int]] = set()
    while left:
        if not able:
            raise ValueError(f"{left} steps wait for ever, those of gpu {min(waiting)[0]} among them")
        rank, number = rng.choice(sorted(able))
        block = file.blocks[rank][number]
        if _step(file, gpus[rank], rank, block, lines):
            left -= 1
            able |= waiting
            waiting = set()
            if gpus[rank].done[number] == len(block.steps):
                able.discard((rank, number))
        else:
            able.discard((rank, number))
            waiting.add((rank, number))
    for rank, gpu in enumerate(gpus):
        for chunk in range(file.chunks):
            held = gpu.memory.get(_cell(file, rank, "o", chunk), Counter())
            if file.collective == "allreduce":
                due = Counter({(other, chunk): 1 for other in range(file.gpus)})
            else:
                due = Counter({(chunk // own, chunk % own): 1})
            if held != due:
                raise ValueError(f"gpu {rank} ends with another sum than it should in chunk {chunk}")


def _step(
    file: MscclFile,
    gpu: _Gpu,
    rank: int,
    block: ThreadBlock,
    lines: dict[tuple[int, int, int], deque[list[Value]]],
) -> bool:
    """Do the next step of a thread block, if what it waits for is there."""
    step = block.steps[gpu.done[block.number]]
    if step.depid >= 0 and gpu.done[step.depid] <= step.deps:
        return False
    receives, sends = TYPES[step.type]
    source = [_cell(file, rank, step.srcbuf, step.srcoff + i) for i in range(step.count)]
    target = [_cell(file, rank, step.dstbuf, step.dstoff + i) for i in range(step.count)]
    values = [gpu.memory.get(cell, Counter()) for cell in source]
    if receives:
        line = lines.get((block.recv, rank, block.channel))
        if not line:
            return False
        came = line.popleft()
        if len(came) != step.count:
            raise ValueError(f"gpu {rank} receives {len(came)} chunks where {step.count} are due")
        values = [own + new for own, new in zip(values, came)] if step.type.startswith("rr") else came
    elif step.type == "re":
        values = [gpu.memory.get(cell, Counter()) + new for cell, new in zip(target, values)]
    if step.type in ("r", "rcs", "rrc", "rrcs", "re", "cpy"):
        for cell, value in zip(target, values):
            gpu.memory[cell] = value
    if sends:
        lines.setdefault((rank, block.send, block.channel), deque()).append(values)
    gpu.done[block.number] += 1
    return True


def _cell(file: MscclFile, rank: int, buffer: str, offset: int) -> tuple[str, int]:
    """In place, input and output are one buffer; of an all-gather the input is the rank's own part of it."""
    if not file.inplace or buffer == "s":
        return buffer, offset
    if file.collective == "allgather" and buffer == "i":
        return "o", rank * (file.chunks // file.gpus) + offset
    return "o", offset

"""A tape's messages in batches, as NCCL wants them: one batch a step, its sends and receives issued together.

NCCL has no tags: messages of a pair match in the order in which both ends issue them, and operations of a communicator
run one after another. So the messages of a step are issued as one group, at both ends in the order of their
connections, and the next step's after it; the plan must be proved safe under ``issue order``. Waiting for a batch
holds up the current stream, not the process, and additions are queued behind it. Not run on a GPU yet: tested
over Gloo, whose rules are less strict.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from netprobe.probe.agent.collective.program import SEND
from netprobe.runtime.tape import Message, Tape


class Batches:
    """Runs tapes over ``group``, which is the caller's own."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def run(self, tape: Tape, flat: Any) -> None:
        """Run a tape on a contiguous tensor of one dimension. Raises RuntimeError as the backend does."""
        for _, own in groupby(tape.messages, key=lambda message: message.step):
            self._step(list(own), flat)

    def _step(self, messages: list[Message], flat: Any) -> None:
        """One batch, and what its messages brought put in place in the order of the tape."""
        import torch.distributed as dist

        sent = [m for m in messages if m.kind == SEND]
        staged: dict[int, Any] = {}
        wanted: list[tuple[tuple[int, ...], Any]] = []
        for place, message in enumerate(messages):
            view = flat[message.begin : message.end]
            call = dist.isend if message.kind == SEND else dist.irecv
            crossed = any(m.begin < message.end and message.begin < m.end for m in sent)
            if message.kind != SEND and (message.reduces or crossed):
                view = staged[place] = view.new_empty(view.shape)
            key = (message.peer, message.kind == SEND, message.channel, message.tag)
            peer = dist.get_global_rank(self._group, message.peer)
            wanted.append((key, dist.P2POp(call, view, peer, self._group)))
        wanted.sort(key=lambda pair: pair[0])
        for work in dist.batch_isend_irecv([operation for _, operation in wanted]):
            work.wait()
        for place, brought in staged.items():
            message = messages[place]
            target = flat[message.begin : message.end]
            if message.reduces:
                target.add_(brought)
            else:
                target.copy_(brought)

"""Collectives of a plan inside a training job, over torch.distributed.

    from netprobe.runtime import Executor
    executor = Executor("plan.json")        # after init_process_group
    executor.all_reduce(tensor)

The sum of an element is made in the order of its schedule: a rank adds what it receives to what it has, message
after message in the order of its tape (`tape`), whatever arrives first. So a sum is the same bits from run to run, and
on every rank, since one rank adds it up and the others get copies (or, where two ranks exchange, both add the same two
numbers). It is rounded in the tensor's own dtype at every addition, as Gloo's and NCCL's are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from netprobe.core.documents.plan import Plan
from netprobe.core.errors import InputError, InternalError, NetprobeError, WrongWorldError
from netprobe.runtime.agreed import agreed
from netprobe.runtime.batches import Batches
from netprobe.runtime.breakdown import Breakdown
from netprobe.runtime.collective import Collective, collective_of
from netprobe.runtime.faults import Faults
from netprobe.runtime.forked import Owner
from netprobe.runtime.lines import Lines, MessageError
from netprobe.runtime.tape import Settings, Tape, tape_of
from netprobe.runtime.tensors import check_tensor
from netprobe.runtime.traffic import Counting, Traffic
from netprobe.runtime.within import checked_timeout
from netprobe.runtime.worker import Worker
from netprobe.runtime.world import members_of

Operation = Literal["sum", "mean"]
TAPES_KEPT = 64


class Pending:
    """A collective that was started with ``async_op=True``."""

    def __init__(self, future: Any, wait: Callable[[Any], Any]) -> None:
        self._future, self._wait = future, wait

    def wait(self) -> Any:
        """The tensor with its result. Raises what went wrong (RankLostError)."""
        return self._wait(self._future)

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return bool(self._future.done())

    def get_future(self) -> Any:
        """A torch future of the tensor."""
        return self._future


class Executor:
    """Runs the collective of ``plan`` among the ranks of ``group`` (a process group; the default one without).

    ``plan`` is a plan document of kind ``schedule`` or ``order``, or the path of one. ``group`` may also be ranks of
    the default group in the plan's order: rank ``group[r]`` then runs on the plan's host r, and tensors are in
    the CPU's memory. All ranks must make the executor at the same point of the program, as they do process groups.
    ``timeout_s``: how long a message may take to come.
    Raises InputError, and WrongWorldError where the running ranks are not those of the plan.
    """

    def __init__(
        self,
        plan: Plan | Path | str,
        group: Any = None,
        *,
        timeout_s: float = 300.0,
        settings: Settings | None = None,
    ) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            raise InputError("there is no process group yet: call torch.distributed.init_process_group first")
        timeout_s = checked_timeout(timeout_s)
        members, self.rank = members_of(group)
        self.collective: Collective
        self.collective, store, keeper = agreed(plan, members, self.rank, timeout_s)
        self._settings = settings or Settings()
        self._names = [host.name for host in self.collective.hosts]
        self._tapes: dict[tuple[int, int], Tape] = {}
        self._group = group
        self._batches = _batches(group, self.collective)
        ranks, channels = len(members), self.collective.program.channels
        self._faults = Faults(self.rank, self._names, timeout_s, store, keeper)
        self._lines = self._faults.opened(
            lambda: Lines(store, self.rank, ranks, channels, timeout_s, native=self._settings.native)
        )
        self._owner = Owner(self._lines)
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self._open_jobs = 0
        self._lost: NetprobeError | None = None
        self._breakdown = Breakdown()
        self._traffic = Counting(ranks)
        self.autotune: Any = None
        """The `Autotune` of a hook."""
        self._left = perf_counter()

    # What users call.

    def all_reduce(self, tensor: Any, op: Operation = "sum", *, async_op: bool = False) -> Any:
        """Put the sum (or mean) over all ranks in place of ``tensor``; `Pending` if ``async_op``.

        All ranks call it in the same order, with tensors of the same shape and dtype. Raises RankLostError where a
        rank is lost (the tensor then holds no result), InputError for what cannot be reduced.
        """
        if not self.collective.all_reduces:
            raise InputError(
                f"the plan is not an all-reduce among all ranks: {self.collective.schedule.name}"
            )
        return self.run(tensor, op, async_op=async_op)

    def run(self, tensor: Any, op: Operation = "sum", *, async_op: bool = False) -> Any:
        """The plan's collective, whichever it is, in place.

        Elements that this rank is not owed hold nothing of use afterwards.
        """
        check_tensor(tensor, op, on_gpus=self._batches is not None)
        self._check_usable()
        if async_op and tensor.device.type == "cuda":
            # Nothing here waits for the GPU: the work is queued on the current stream.
            import torch

            future: Any = torch.futures.Future(devices=[tensor.device])
            future.set_result(self._reduce(tensor, op))
            return Pending(future, self._result)
        if async_op:
            return Pending(self._enqueue(lambda: self._reduce(tensor, op)), self._result)
        if self._open_jobs:
            return self._result(self._enqueue(lambda: self._reduce(tensor, op)))
        with self._lock:
            return self._reduce(tensor, op)

    def exchange(self, elements: int, dtype: Any = None) -> Breakdown:
        """Send and receive all messages of a buffer of ``elements``, adding nothing up: what the wire alone takes."""
        import torch

        self._check_usable()
        self.drain()
        flat = torch.zeros(elements, dtype=dtype or torch.float32)
        before = self.breakdown()
        with self._lock:
            self._timed(flat, adds=False)
        after = self.breakdown()
        return Breakdown(
            **{
                field.name: getattr(after, field.name) - getattr(before, field.name)
                for field in fields(after)
            }
        )

    def switch(self, plan: Plan | Path | str) -> None:
        """Go on with another plan of the same ranks and hosts, over the same connections.

        All ranks do it between the same two collectives. Raises WrongWorldError, and InputError where it uses more
        channels.
        """
        self._check_usable()
        made = collective_of(plan)
        if [host.name for host in made.hosts] != self._names:
            raise WrongWorldError("the new plan has other hosts, or another order: make another executor")
        if made.program.channels > self._lines.channels:
            raise InputError(
                f"the new plan has {made.program.channels} channels, and {self._lines.channels} are open: make another "
                "executor"
            )
        self.drain()
        self.adopt(made)

    def adopt(self, collective: Collective) -> None:
        """Go on with a proved collective of the same ranks, hosts and channels, as `switch` does."""
        self._traffic.settle()
        self.collective = collective
        self._batches = _batches(self._group, collective)
        self._tapes.clear()

    def between(self, call: Callable[[Lines], Any], *, wait: bool = True) -> Any:
        """Have ``call`` made with this rank's connections when all collectives that were started have ended.

        All ranks do it between the same two collectives. Raises what it raises (RankLostError where a rank is lost),
        and so does every later collective; without ``wait`` only these do.
        """

        def guarded() -> Any:
            try:
                return call(self._lines)
            except MessageError as error:
                self._lost = self._faults.lost(error.peer, error.timed_out, str(error), self._lines.close)
                raise self._lost from None
            except Exception as error:
                self._lost = error if isinstance(error, NetprobeError) else InternalError(repr(error))
                raise self._lost from None
            except BaseException:
                self._interrupted()
                raise
            finally:
                self._left = perf_counter()

        self._check_usable()
        if self._open_jobs or not wait:
            future = self._enqueue(guarded)
            return self._result(future) if wait else None
        with self._lock:
            return guarded()

    def breakdown(self) -> Breakdown:
        """Where the time went since `reset`."""
        return self._breakdown.copied()

    def traffic(self) -> Traffic:
        """Bytes sent to each rank and received from it, and the seconds waited for it, since the executor was made."""
        return self._traffic.told(self._lines.waited_s)

    def reset(self) -> None:
        """Begin to measure anew."""
        self._breakdown = Breakdown()
        self._left = perf_counter()

    def drain(self) -> None:
        """Wait until everything that was started has ended."""
        if self._worker is not None:
            self._result(self._enqueue(lambda: None))

    def close(self) -> None:
        """End the executor: what was started is finished first. It cannot be used again."""
        if self._owner.elsewhere:
            return
        if self._worker is not None:
            self.drain()
            self._worker.end()
            self._worker = None
        with self._lock:
            # First, for below a signal's handler a collective may be running in this thread.
            self._lost = self._lost or InputError("the executor was closed: make another one")
            self._lines.close()

    @property
    def native(self) -> bool:
        """Whether messages are moved by netprobe's own library (`netprobe.runtime.native`), not by torch."""
        return self._lines.native

    # How it is done.

    def _reduce(self, tensor: Any, op: str) -> Any:
        """Run the collective on a tensor of any strides, in the calling thread."""
        began = perf_counter()
        # Numbers at an address that is no multiple of their size cannot be added where they are.
        dense = tensor.is_contiguous() and tensor.data_ptr() % tensor.element_size() == 0
        flat = tensor.detach().view(-1) if dense else _copied(tensor).view(-1)
        copied = 0.0 if dense else perf_counter() - began
        self._timed(flat)
        began = perf_counter()
        if op == "mean":
            flat.div_(self.collective.ranks)
        self._breakdown.reduce_s += perf_counter() - began
        if not dense:
            began = perf_counter()
            tensor.detach().copy_(flat.view(tensor.shape))
            copied += perf_counter() - began
        self._breakdown.copy_s += copied
        self._left = perf_counter()
        return tensor

    def _check_usable(self) -> None:
        self._owner.check()
        if self._lost is not None:
            raise self._lost

    def _interrupted(self) -> None:
        """A collective was left in the middle (Ctrl-C): the others learn it now, not when their time is up."""
        self._lines.close()
        self._lost = InputError(
            "a collective of this executor was interrupted: make another one, on all ranks"
        )

    def _timed(self, flat: Any, *, adds: bool = True) -> None:
        self._check_usable()  # again, for what waited while a rank was lost
        began = perf_counter()
        told = self._breakdown
        told.compute_s += began - self._left
        if flat.numel() and flat.is_cuda:
            assert self._batches is not None
            self._batches.run(self._tape(flat.numel(), flat.element_size()), flat)
            told.wire_s += perf_counter() - began
            self._traffic.ran(
                self._tape(flat.numel(), flat.element_size()), flat.numel(), flat.element_size()
            )
        elif flat.numel():
            tape = self._tape(flat.numel(), flat.element_size())
            try:
                parts = self._lines.run(tape, flat, adds=adds)
            except MessageError as error:
                if self._lost is not None:
                    raise self._lost from None  # closed by the handler of a signal
                reduced = f"{flat.numel()} numbers of {flat.dtype}"
                self._lost = self._faults.lost(
                    error.peer, error.timed_out, str(error), self._lines.close, reduced, error.waited
                )
                raise self._lost from None
            except RuntimeError as error:
                self._lines.close()
                self._lost = InternalError(f"this rank could not add: {' '.join(str(error).split())[:200]}")
                raise self._lost from None
            except BaseException:
                self._interrupted()
                raise
            told.wire_s += parts["wire"]
            told.reduce_s += parts["reduce"]
            told.wait_s += parts["wait"]
            told.other_s += perf_counter() - began - sum(parts.values())
            self._traffic.ran(tape, flat.numel(), flat.element_size())
        told.collectives += 1
        self._left = perf_counter()

    def _tape(self, elements: int, itemsize: int) -> Tape:
        key = (elements, itemsize)
        tape = self._tapes.get(key)
        if tape is None:
            bounds = self.collective.schedule.boundaries(elements)
            tape = tape_of(
                self.collective.program,
                self.rank,
                bounds,
                itemsize,
                self._settings,
                native=self._lines.native,
            )
            while len(self._tapes) >= TAPES_KEPT:
                self._tapes.pop(next(iter(self._tapes)))
            self._tapes[key] = tape
        return tape

    def _enqueue(self, call: Callable[[], Any]) -> Any:
        """Have the executor's thread make a call after those before it; a future of what it returns."""
        import torch

        if self._worker is None:
            self._worker = Worker("netprobe-executor")
        started: Any = torch.futures.Future()
        outcome: list[Any] = [None, None]

        def finish(_: Any) -> Any:
            if outcome[1] is not None:
                raise outcome[1]
            return outcome[0]

        # An error raised here is one that torch's own (C++) code can read, unlike that of Future.set_exception.
        future = started.then(finish)

        def job() -> None:
            try:
                with self._lock:
                    outcome[0] = call()
            except Exception as error:
                outcome[1] = error
            finally:
                self._open_jobs -= 1
            started.set_result(None)

        self._open_jobs += 1
        self._worker.put(job)
        return future

    def _result(self, future: Any) -> Any:
        """What a future holds. torch's own code knows no errors but its own: that of a lost rank is raised again."""
        try:
            return future.wait()
        except RuntimeError:
            if self._lost is None:
                raise
            raise self._lost from None


def _copied(tensor: Any) -> Any:
    import torch

    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _batches(group: Any, collective: Collective) -> Batches | None:
    """For tensors on GPUs: over the caller's own group, where it has NCCL and the plan is safe there."""
    import torch
    import torch.distributed as dist

    if isinstance(group, list | tuple) or not torch.cuda.is_available():
        return None
    if "nccl" not in str(dist.get_backend_config(group)):
        return None
    return Batches(group or dist.group.WORLD) if collective.proof.issue_order else None

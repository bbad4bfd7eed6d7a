"""DSSync: a local step of the optimizer, then parameters averaged in this iteration's groups."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from netprobe.core.documents.document import canonical_sha256
from netprobe.core.documents.ds_sync_plan import DsSyncPlan
from netprobe.core.documents.plan import Plan
from netprobe.core.errors import InputError
from netprobe.plan.ds_sync.document import Averages, numbered
from netprobe.plan.registry import load_plan, prove_plan
from netprobe.runtime.ds_sync.buckets import Bucket, make_buckets
from netprobe.runtime.ds_sync.costs import Contention, contention, pattern_for
from netprobe.runtime.ds_sync.finish import Ensemble, average_buffers, estimate_statistics, has_statistics
from netprobe.runtime.ds_sync.groups import ProcessGroups
from netprobe.runtime.ds_sync.world import ranks_of_hosts
from netprobe.runtime.keeper import keeper_of, keeps
from netprobe.runtime.lines import meeting
from netprobe.runtime.within import checked_timeout
from netprobe.runtime.world import Report, check_reports, exchange, own_report

BUCKET_BYTES = 1 << 20


class DSSync:
    """Trains ``model`` with ``optimizer`` by a plan of kind ``ds_sync`` (a document, or its file). One rank a host.

    Call ``step()`` in place of ``optimizer.step()``, and ``finish()`` at the end. Making one starts every rank from
    rank 0's parameters and buffers. The optimizer's state and buffers stay each rank's own until ``finish()``.

    ``overlap``: parameters are stepped and sent while backward runs, and waited for where the next forward needs them;
    for optimizers that step each parameter by itself, with gradients used as backward leaves them. ``ensemble``: the
    running average of parameters that ``finish()`` returns the mean of; None: that of the last ones. ``host``: what
    this rank's host is called in the plan, by default ``$NETPROBE_HOST``, or what the launcher or the machine calls it.

    Raises InputError for a plan of another kind, WrongWorldError where the job does not run on the planned hosts;
    ``step()`` and what waits for it raise RankLostError within about ``timeout_s`` of a rank's end.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        plan: Plan | Path | str,
        *,
        overlap: bool = False,
        ensemble: Ensemble | None = None,
        host: str | None = None,
        timeout_s: float = 300.0,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:  # fmt: skip
        import torch.distributed as dist

        timeout_s = checked_timeout(timeout_s)
        found: DsSyncPlan | None = None
        digest = fault = ""
        try:
            found = _ds_sync_plan(plan)
            digest = canonical_sha256(found)
        except InputError as error:
            if not dist.is_initialized():
                raise
            fault = str(error)  # for all ranks, who would otherwise wait for this one
        if not dist.is_initialized():
            raise InputError("there is no process group: call torch.distributed.init_process_group first")
        self.model, self.optimizer = model, optimizer
        self.overlap, self.ensemble = overlap, ensemble
        ranks = range(dist.get_world_size())
        store = meeting(ranks, "ds_sync")
        own = own_report(plan=digest, fault=fault, keeps=keeps(store))
        own = own if host is None else replace(own, names=(host,), addresses=())
        reports, _ = exchange(store, dist.get_rank(), len(ranks), own, timeout_s)
        check_reports(reports)
        assert found is not None
        self.plan = found
        self._rank_of = ranks_of_hosts(self.plan, reports)
        names = [name for rack in self.plan.racks for name in rack]
        by_rank = sorted(range(len(names)), key=lambda place: self._rank_of[place])
        keeper = keeper_of([report.keeps for report in reports])
        self._groups = ProcessGroups([names[place] for place in by_rank], timeout_s, keeper=keeper)
        self.host = self._groups.hosts[self._groups.rank]
        self.iteration = 0
        self.seconds: deque[float] = deque(maxlen=self.plan.adjust_every_iterations)
        """Of the latest iterations: how long some parameters of this rank were under way."""
        self._take(numbered(self.plan.pattern, self.plan.racks), self._planned_contention(), adjusted=False)
        self._buckets = make_buckets(self._trained(), bucket_bytes)
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.parameters}
        self._same_start()
        self._stepped: set[int] = set()
        self._launched = 0
        self._under_way: list[tuple[float, float]] = []
        self._accumulating = self._finished = False
        self._hooks = self._add_hooks() if overlap else []

    @property
    def group(self) -> tuple[int, ...]:
        """The ranks that this rank averages with in this iteration, itself among them."""
        groups = self._pattern[(self.iteration - self._start) % len(self._pattern)].groups
        return next(group for group in groups if self._groups.rank in group)

    def step(self) -> None:
        """The optimizer's step, and the average of this iteration; with ``overlap`` what of them is not yet begun."""
        if self._finished:
            raise InputError(
                "step() after finish(): the ranks' models are one now, make a new DSSync to go on"
            )
        if self.overlap:
            for bucket in self._buckets:
                for parameter in bucket.parameters:
                    if id(parameter) not in self._stepped and parameter.grad is not None:
                        self._step_one(parameter)
                if bucket.number >= self._launched:
                    self._launch(bucket)
        else:
            self.optimizer.step()
            for bucket in self._buckets:
                self._launch(bucket)
        self._stepped.clear()
        self._launched = 0
        self.iteration += 1
        adjust = self.iteration % self.plan.adjust_every_iterations == 0
        if adjust or not self.overlap:
            self.wait()
        if adjust:
            self._adjust()

    def wait(self) -> None:
        """Wait for all averages that are under way. Call it before parameters are read outside of a forward pass."""
        for bucket in self._buckets:
            self._complete(bucket)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside accumulate gradients only (as in DDP)."""
        self._accumulating = True
        try:
            yield
        finally:
            self._accumulating = False

    def finish(self, batches: Iterable[Any] | None = None) -> Any:
        """End training: every rank's model becomes the mean over ranks, of the ensembles if there are any; the model.

        Buffers of floats are averaged, others are rank 0's. ``batches`` (this rank's inputs) give batch normalisation
        new statistics; an ensemble of a model that has some needs them, since no rank has run with its parameters.
        """
        if self.ensemble is not None and batches is None and has_statistics(self.model):
            raise InputError(
                "the model has batch normalisation: give finish(batches) to estimate the ensemble's statistics"
            )
        self.wait()
        self._groups.finish(self.iteration)
        for bucket in self._buckets:
            bucket.pack()
            if bucket.ensemble is not None:
                bucket.flat.copy_(bucket.ensemble)
            self._groups.sum(bucket.flat, self.iteration)
            bucket.flat /= len(self._rank_of)
            bucket.unpack()
        average_buffers(self.model, self._groups, self.iteration)
        if batches is not None and has_statistics(self.model):
            estimate_statistics(self.model, batches, self._groups, self.iteration)
        for hook in self._hooks:
            hook.remove()
        self._finished = True
        return self.model

    def state_dict(self) -> dict[str, Any]:
        """This rank's part of a checkpoint, next to its model's and optimizer's (which differ from rank to rank)."""
        self.wait()
        return {
            "version": 1,
            "plan": self.plan.parent().sha256,
            "host": self.host,
            "iteration": self.iteration,
            "start": self._start,
            "adjusted": self._adjusted,
            "contended_racks": sorted(self.contended.racks),
            "contended_hosts": sorted(self.contended.hosts),
            "seconds": list(self.seconds),
            "ensemble": [None if b.ensemble is None else b.ensemble.clone() for b in self._buckets],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on in the phase of a checkpoint. Call it on every rank, after the model's and the optimizer's.

        Raises InputError for a checkpoint of another plan or host, or of another iteration than the other ranks'.
        """
        wrong = ""
        if state.get("version") != 1 or state.get("plan") != self.plan.parent().sha256:
            wrong = f"the checkpoint of {self.host} is of another plan"
        elif state["host"] != self.host:
            wrong = f"the checkpoint is that of {state['host']}, and this rank is on {self.host}"
        at = "" if wrong else str(state["iteration"])
        own = Report(names=(self.host,), addresses=(), plan=at, fault=wrong)
        ranks, groups = range(len(self._rank_of)), self._groups
        met = meeting(ranks, "ds_sync checkpoint")
        said, _ = exchange(met, groups.rank, len(ranks), own, groups.timeout.total_seconds())
        wrong = wrong or next((one.fault for one in said if one.fault), "")
        if not wrong and len({one.plan for one in said}) > 1:
            ats = ", ".join(f"{one.names[0]}: {one.plan}" for one in said)
            wrong = f"the checkpoints are of different iterations ({ats})"
        if wrong:
            raise InputError(f"{wrong}: give each rank its own checkpoint of one iteration")
        self.iteration = state["iteration"]
        now = Contention(frozenset(state["contended_racks"]), frozenset(state["contended_hosts"]))
        first = numbered(self.plan.pattern, self.plan.racks)
        pattern = (
            [Averages(one.groups) for one in pattern_for(self._racks(), now)] if state["adjusted"] else first
        )
        self._take(pattern, now, adjusted=state["adjusted"])
        self._start = state["start"]
        self.seconds.clear()
        self.seconds.extend(state["seconds"])
        for bucket, saved in zip(self._buckets, state["ensemble"]):
            bucket.ensemble = None if saved is None else saved.to(bucket.flat.device).clone()

    # The pattern

    def _racks(self) -> list[list[int]]:
        place = {name: at for at, name in enumerate(name for rack in self.plan.racks for name in rack)}
        return [[place[name] for name in rack] for rack in self.plan.racks]

    def _planned_contention(self) -> Contention:
        place = {name: at for at, name in enumerate(name for rack in self.plan.racks for name in rack)}
        hosts = frozenset(place[name] for name in self.plan.contended_hosts)
        return Contention(frozenset(), hosts)

    def _take(self, pattern: list[Averages], now: Contention, *, adjusted: bool) -> None:
        """Average by ``pattern`` (of places) from this iteration on."""
        self._places = pattern
        self._pattern = [
            Averages(tuple(tuple(sorted(self._rank_of[place] for place in group)) for group in one.groups))
            for one in pattern
        ]
        self._groups.make(self._pattern, self.iteration)
        self.contended, self._adjusted, self._start = now, adjusted, self.iteration

    def _adjust(self) -> None:
        """Take another pattern if other hosts or uplinks are contended now. All ranks decide on the same numbers."""
        import torch
        import torch.distributed as dist

        device = self._buckets[0].flat.device
        mine = torch.full(
            (self.plan.adjust_every_iterations,), float("nan"), dtype=torch.float64, device=device
        )
        mine[: len(self.seconds)] = torch.tensor(list(self.seconds), dtype=torch.float64)
        every = [torch.empty_like(mine) for _ in self._rank_of]
        self._groups.together(
            lambda: dist.all_gather(every, mine, group=self._groups.world, async_op=True), self.iteration
        )
        count = min(len(self.seconds), self.iteration - self._start)
        first = self.iteration - self._start - count
        past = [self._places[(first + i) % len(self._places)] for i in range(count)]
        table = np.stack([every[rank].cpu().numpy() for rank in self._rank_of], axis=1)
        known = table[len(self.seconds) - count : len(self.seconds)]
        now = contention(past, known, self._racks(), self.contended)
        if now != self.contended:
            self._take([Averages(one.groups) for one in pattern_for(self._racks(), now)], now, adjusted=True)

    # Parameters under way

    def _trained(self) -> list[Any]:
        """The model's parameters that are trained. Raises InputError where the optimizer has others."""
        ours = [p for p in self.model.parameters() if p.requires_grad]
        self._settings_of = {id(p): group for group in self.optimizer.param_groups for p in group["params"]}
        if not ours:
            raise InputError("the model has no parameters to train")
        if not self._settings_of.keys() <= {id(p) for p in self.model.parameters()}:
            raise InputError(
                "the optimizer has parameters that are not the model's: they would not be averaged"
            )
        return ours

    def _same_start(self) -> None:
        import torch

        with torch.no_grad():
            for tensor in [*self.model.parameters(), *self.model.buffers()]:
                whole = tensor.detach().contiguous()
                self._groups.broadcast(whole, self.iteration)
                tensor.copy_(whole)

    def _launch(self, bucket: Bucket) -> None:
        if bucket.number == 0:
            # What no forward pass has waited for is of the iteration before.
            self.wait()
        bucket.pack()
        bucket.group = self.group
        bucket.began_s, bucket.ended_s = time.perf_counter(), None
        bucket.work = self._groups.start(bucket.flat, bucket.group, self.iteration)
        bucket.pending = True
        if bucket.work is not None:
            # Often done long before it is waited for.
            bucket.work.get_future().add_done_callback(lambda _: bucket.end())

    def _complete(self, bucket: Bucket) -> None:
        if not bucket.pending:
            return
        bucket.pending = False
        if bucket.work is not None:
            self._groups.wait(bucket.work, bucket.group, self.iteration - 1)
            bucket.end()
            bucket.work = None
            self._under_way.append((bucket.began_s, bucket.ended_s or bucket.began_s))
            bucket.flat /= len(bucket.group)
            bucket.unpack()
        if self.ensemble is not None and self.iteration > self.ensemble.start:
            if bucket.ensemble is None:
                bucket.ensemble = bucket.flat.clone()
            else:
                bucket.ensemble.lerp_(bucket.flat, 1 - self.ensemble.factor)
        if not any(one.pending for one in self._buckets):
            self.seconds.append(_covered(self._under_way))
            self._under_way.clear()

    def _step_one(self, parameter: Any) -> None:
        """The optimizer's step of one parameter, with the settings that its group has now."""
        self._stepped.add(id(parameter))
        settings = self._settings_of.get(id(parameter))
        if settings is None:
            return
        groups = self.optimizer.param_groups
        try:
            self.optimizer.param_groups = [{**settings, "params": [parameter]}]
            self.optimizer.step()
        finally:
            self.optimizer.param_groups = groups

    def _add_hooks(self) -> list[Any]:
        hooks = [
            parameter.register_post_accumulate_grad_hook(self._gradient_is_there)
            for bucket in self._buckets
            for parameter in bucket.parameters
        ]
        for module in self.model.modules():
            own = {self._bucket_of[id(p)].number for p in module.parameters(recurse=False) if p.requires_grad}
            if own:
                needed = [self._buckets[number] for number in sorted(own)]
                hooks.append(module.register_forward_pre_hook(lambda *_, needed=needed: self._before(needed)))
        return hooks

    def _before(self, needed: list[Bucket]) -> None:
        for bucket in needed:
            self._complete(bucket)

    def _gradient_is_there(self, parameter: Any) -> None:
        if self._accumulating or self._finished:
            return
        if id(parameter) in self._stepped:
            raise InputError(
                "a second backward pass in one iteration: put all but the last into no_sync(), or overlap=False"
            )
        if self._bucket_of[id(parameter)].pending:
            raise InputError(
                "a parameter was used outside of its module's forward pass, before its average: use overlap=False"
            )
        self._step_one(parameter)
        while self._launched < len(self._buckets):
            bucket = self._buckets[self._launched]
            if any(id(p) not in self._stepped for p in bucket.parameters):
                break
            self._launched += 1
            self._launch(bucket)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Seconds in at least one span."""
    total, until = 0.0, 0.0
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def _ds_sync_plan(plan: Plan | Path | str) -> DsSyncPlan:
    if isinstance(plan, str | Path):
        plan = load_plan(Path(plan))
    else:
        prove_plan(plan)
    if not isinstance(plan, DsSyncPlan):
        raise InputError(
            f"a plan of kind {plan.kind!r} says nothing of averages: one of kind 'ds_sync' is needed "
            "(netprobe plan ds-sync)"
        )
    return plan

"""A job whose messages nothing limits: each takes its latency, and ends follow from the actions before them."""

from __future__ import annotations

import numpy as np

from netprobe.plan.schedule.waiting import by_steps
from netprobe.plan.simulate.compiled_run import actions_of
from netprobe.plan.simulate.engine import NOTHING, Trace, Work
from netprobe.plan.simulate.network import Network
from netprobe.probe.agent.collective.program import RECEIVE, SEND


def nothing_limits(network: Network, works: list[Work]) -> bool:
    """Whether all bytes leave at once: there are none, or no resource and no connection has a limit."""
    if all(int(work.boundaries[-1]) == 0 for work in works):
        return True
    return bool(np.isinf(network.capacity).all() and np.isinf(network.stream).all())


def run_unlimited(network: Network, works: list[Work]) -> Trace | None:
    """What `Engine` says of ``works`` on a network that limits none of their messages, without its events.

    Works do not disturb each other here. Causes are not kept. None for a program without steps, whose actions have no
    known order.
    """
    ends, finish = [], []
    for work in works:
        order = by_steps(work.program)
        if order is None:
            return None
        own = _ends(network, work, np.argsort(order).tolist())
        ends.append(np.array(own, dtype=np.float64))
        finish.append(max([work.release_s, *own]))
    return Trace(
        end_s=ends,
        finish_s=finish,
        carried=np.zeros(len(network.resources)),
        cause=[np.full(len(work.program), NOTHING, np.int64) for work in works],
    )


def _ends(network: Network, work: Work, order: list[int]) -> list[float]:
    """When each action ends: after all that it waits for, its connection's sends before it, and what it receives."""
    program = work.program
    actions = actions_of(program, work.host, len(network.hosts))
    kind, partner, connection = actions.kind.tolist(), actions.partner.tolist(), actions.connection.tolist()
    alpha = network.alpha_s.reshape(-1)[actions.pair].tolist()
    after, begins = program.after.tolist(), program.after_bounds.tolist()
    ends = [work.release_s] * len(program)
    left = [work.release_s] * (len(actions.send_at) - 1)
    for action in order:
        when = ends[action]
        for other in after[begins[action] : begins[action + 1]]:
            when = max(when, ends[other])
        if kind[action] == SEND:
            when = left[connection[action]] = max(when, left[connection[action]])
        elif kind[action] == RECEIVE:
            send = partner[action]
            when = max(when, ends[send] + alpha[send])
        ends[action] = when
    return ends

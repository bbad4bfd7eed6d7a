"""A schedule as action lists in JSON: what each host does, for programs that run plans themselves."""

from __future__ import annotations

import json

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.formats.format import ScheduleFormat
from netprobe.plan import proved_schedule
from netprobe.plan.schedule.program import KIND_NAMES


def write_actions(plan: SchedulePlan) -> str:
    """``{algorithm, collective, chunks: [weights], ranks: [{rank, host, actions: [..]}]}``, one rank per line.

    An action has ``kind``, ``chunks`` [first, end), of messages ``peer``, ``channel`` and of receives ``reduces``, and
    ``after``: places in the same list that it waits for.
    """
    schedule, program, proof = proved_schedule(plan)
    head = {
        "algorithm": plan.algorithm,
        "collective": schedule.contract.collective,
        "safe_under": list(proof.safe_under),
        "channels": schedule.channels,
        "chunks": schedule.weights().tolist(),
    }
    lines = []
    for rank, host in enumerate(plan.order):
        actions = []
        for action in program.actions(rank):
            row: dict[str, object] = {"kind": KIND_NAMES[action.kind], "chunks": [action.first, action.last]}
            if action.peer >= 0:
                row |= {"peer": action.peer, "channel": action.channel, "step": action.step}
            if KIND_NAMES[action.kind] == "receive":
                row["reduces"] = action.reduces
            if action.after:
                row["after"] = list(action.after)
            actions.append(row)
        lines.append("    " + json.dumps({"rank": rank, "host": host, "actions": actions}))
    fields = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    return "\n".join(["{", *fields, '  "ranks": [', ",\n".join(lines), "  ]", "}", ""])


SCHEDULE_FORMAT = ScheduleFormat(
    name="json",
    summary="what each host does, as lists of actions in JSON",
    write=write_actions,
    file="schedule.actions.json",
)

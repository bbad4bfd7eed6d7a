"""A drawing of a schedule: one line per rank, one column per step, one arrow per transfer. First blocks only."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from netprobe.core.documents.schedule_plan import SchedulePlan
from netprobe.core.errors import InputError
from netprobe.core.units import count
from netprobe.formats.format import ScheduleFormat
from netprobe.plan import proved_schedule
from netprobe.plan.schedule.schedule import APPLY, REDUCE, Template

MOST_ARROWS = 4000
COLUMN, ROW, LEFT, TOP = 90, 26, 110, 64
REDUCES, COPIES = "#c2410c", "#1d4ed8"


def write_svg(plan: SchedulePlan) -> str:
    """The first template of ``plan`` as SVG, with its hosts as rows. Raises InputError for one too large to draw."""
    schedule, _, _ = proved_schedule(plan)
    template = schedule.templates[0]
    if len(template) > MOST_ARROWS:
        raise InputError(
            f"a template of {len(template)} transfers is too large to draw: at most {MOST_ARROWS}"
        )
    blocks = sum(block.template == 0 for block in schedule.blocks)
    more = f", the first of {len(schedule.templates)} templates" if len(schedule.templates) > 1 else ""
    title = (
        f"{plan.algorithm}: {schedule.contract.collective} among {schedule.ranks} hosts; "
        f"{count(template.chunks, 'chunk')} a block, {blocks} of {count(len(schedule.blocks), 'block')} like this{more}"
    )
    return draw(template, plan.order, title, dict(_phases(schedule.phases)))


def draw(template: Template, names: Sequence[str], title: str, phases: dict[int, str]) -> str:
    """The picture: names (N,) of the ranks, titles of phases by their first step."""
    width = max(LEFT + COLUMN * max(template.steps, 1) + 40, 9 * min(len(title), 110))
    height = TOP + ROW * len(names) + 40
    text = [
        f'<svg id="netprobe" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<defs><marker id="end" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0,0L6,3L0,6z" fill="context-stroke"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="18" font-size="13">{escape(title)}</text>',
        f'<text x="8" y="{height - 12}"><tspan fill="{REDUCES}">reduce</tspan> '
        f'<tspan fill="{COPIES}">copy</tspan></text>',
    ]
    for step in range(template.steps):
        label = phases.get(step, "")
        text.append(f'<text x="{LEFT + COLUMN * step}" y="38" fill="#555">{step} {escape(label)}</text>')
    for rank, name in enumerate(names):
        y = TOP + ROW * rank
        shown = name if len(name) <= 14 else name[:13] + "…"
        text.append(f'<text x="8" y="{y + 4}">{escape(shown)}</text>')
        text.append(f'<path d="M{LEFT},{y}H{width - 30}" stroke="#ddd"/>')
    columns = (template.step, template.src, template.dst, template.first, template.last, template.op)
    for step, src, dst, first, last, op in zip(*(column.tolist() for column in columns)):
        if op == APPLY:
            text.append(f'<circle cx="{LEFT + COLUMN * step + 40}" cy="{TOP + ROW * src}" r="4"/>')
            continue
        begin, end = LEFT + COLUMN * step + 6, LEFT + COLUMN * (step + 1) - 10
        what = f"chunk {first}" if last - first == 1 else f"chunks {first} to {last - 1}"
        colour = REDUCES if op == REDUCE else COPIES
        text.append(
            f'<path d="M{begin},{TOP + ROW * src}L{end},{TOP + ROW * dst}" stroke="{colour}" '
            f'fill="none" marker-end="url(#end)"><title>step {step}: {what}, {escape(names[src])} to '
            f"{escape(names[dst])}</title></path>"
        )
    return "\n".join([*text, "</svg>", ""])


def _phases(phases: Sequence[tuple[str, int]]) -> list[tuple[int, str]]:
    return [(step, name) for name, step in phases]


SCHEDULE_FORMAT = ScheduleFormat(
    name="svg",
    summary="a drawing: one line per host, one column per step, one arrow per transfer",
    write=write_svg,
    file="schedule.svg",
)

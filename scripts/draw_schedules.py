"""Draw every builder's schedule among a few ranks, and print its proof, in docs/schedules.md.

    scripts/draw_schedules.py [--check]

Writes docs/schedules/NAME.svg (what ``netprobe export schedule --format svg`` draws) and the table between the marks of
docs/schedules.md. With --check nothing is written, and what differs from the committed files is an error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from netprobe.core.hosts import Host
from netprobe.formats.schedules.svg import write_svg
from netprobe.plan import build_schedule_plan
from netprobe.plan.schedule.builders import ALGORITHMS, build, proved
from netprobe.plan.schedule.builders.two_level import hierarchical, two_level
from netprobe.plan.schedule.document import Placement
from netprobe.plan.schedule.schedule import Schedule
from netprobe.probe.agent.collective.program import SEND

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "schedules.md"
FOLDER = ROOT / "docs" / "schedules"
BEGIN, END = "<!-- drawn by scripts/draw_schedules.py -->\n", "<!-- end of what is drawn -->\n"
RANKS = {
    "bcube": 8,
    "double-binary-tree": 7,
    "nccl-tree": 8,
    "binomial-tree": 8,
    "halving-doubling": 6,
    "recursive-doubling": 5,
}
"""Where four would not show what is special: 8 is two digits of base 4, and 5 and 6 are no powers of two."""
GROUPS = [[0, 1, 2], [3, 4], [5]]
HEAD = """| algorithm | ranks | steps | messages | most sent by a rank | actions, none in a race, and where it ends |
|---|---|---|---|---|---|
"""


def schedules() -> Iterator[tuple[Schedule, str]]:
    """Every builder's, and its ranks in words."""
    for name in ALGORITHMS:
        ranks = RANKS.get(name, 4)
        yield build(name, ranks), str(ranks)
    groups = "6 in groups of " + ", ".join(str(len(group)) for group in GROUPS)
    yield hierarchical(GROUPS), groups
    yield two_level(GROUPS, 6), groups


def row(schedule: Schedule, ranks: str) -> str:
    """A schedule's line of the table, out of its program and the proof of it."""
    program, proof = proved(schedule)
    sends = np.flatnonzero(program.kind == SEND)
    chunks = (program.last - program.first)[sends]
    most = np.bincount(program.rank_of()[sends], chunks, minlength=program.ranks).max() / program.chunks
    steps = len(np.unique(program.step[sends]))
    return (
        f"| [{schedule.name}](schedules/{schedule.name}.svg) | {ranks} | {steps} | {len(sends)} | {most:.2f} buffers | "
        f"{len(program)} actions; {', '.join(proof.safe_under)} |\n"
    )


def drawing(schedule: Schedule) -> str:
    """The SVG of it on hosts h0, h1, .."""
    hosts = [Host(name=f"h{rank}") for rank in range(schedule.ranks)]
    return write_svg(build_schedule_plan(schedule, Placement(hosts=hosts, order=[h.name for h in hosts])))


def files() -> dict[Path, str]:
    """The text of every file that is drawn, the page among them."""
    made, rows, pictures = {}, [], []
    for schedule, ranks in schedules():
        made[FOLDER / f"{schedule.name}.svg"] = drawing(schedule)
        rows.append(row(schedule, ranks))
        pictures.append(f"![{schedule.name} among {ranks}](schedules/{schedule.name}.svg)\n")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    made[PAGE] = "".join([before, BEGIN, HEAD, *rows, "\n", "\n".join(pictures), END, after])
    return made


def main() -> None:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = files()
    if check:
        different = [
            path
            for path, text in made.items()
            if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        unknown = set(FOLDER.glob("*.svg")) - set(made)
        if different or unknown:
            names = ", ".join(str(path.relative_to(ROOT)) for path in sorted({*different, *unknown}))
            raise SystemExit(f"not what the code draws today: {names}: run scripts/draw_schedules.py")
        return
    FOLDER.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

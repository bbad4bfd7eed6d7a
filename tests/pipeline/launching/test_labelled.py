"""What srun and mpirun label by rank is given back by host, whole lines, however it was cut on the way."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from netprobe.pipeline.launching.labelled import (
    LONGEST_LINE,
    OPENMPI_4,
    OPENMPI_5,
    SRUN,
    LabelledOutput,
    Labels,
)

HOSTS = ["n2", "n1", "n3"]


def lines_of(labels: Labels, *pieces: bytes, hosts: list[str] = HOSTS) -> list[tuple[str | None, bytes]]:
    found: list[tuple[str | None, bytes]] = []
    output = LabelledOutput(labels, hosts, 1, lambda host, _, line: found.append((host, line)))
    for piece in pieces:
        output.feed(piece)
    output.end()
    return found


def test_pieces_of_lines_that_mpirun_41_mixes_are_put_together() -> None:
    # As Open MPI 4.1.4 prints two ranks of: printf "a b"; sleep 0.3; echo c; printf "x\n\nz"
    raw = (
        b"[1,0]<stdout>:a b[1,1]<stdout>:a b[1,0]<stdout>:c\n[1,0]<stdout>:x\n[1,0]<stdout>:\n[1,0]<stdout>:z"
    )
    raw += b"[1,1]<stdout>:c\nmpirun noticed that\n[1,1]<stdout>:x\n[1,1]<stdout>:\n[1,1]<stdout>:z"
    assert lines_of(OPENMPI_4, raw) == [
        ("n2", b"a bc"), ("n2", b"x"), ("n2", b""), ("n1", b"a bc"), (None, b"mpirun noticed that"),
        ("n1", b"x"), ("n1", b""), ("n2", b"z"), ("n1", b"z"),
    ]  # fmt: skip


def test_the_blank_after_a_label_is_the_labels_where_there_is_one() -> None:
    assert lines_of(OPENMPI_5, b"[1,2]<stderr>:   z\n[1,0]<stdout>: \n") == [("n3", b"  z"), ("n2", b"")]
    assert lines_of(OPENMPI_4, b"[1,2]<stderr>:   z\n") == [("n3", b"   z")]
    assert lines_of(SRUN, b"2:   z\n0: \n") == [("n3", b"  z"), ("n2", b"")]


def test_srun_pads_its_labels_and_says_things_itself() -> None:
    hosts = [f"h{at}" for at in range(12)]
    raw = b" 3: a\n11: 2: b\nsrun: error: h3: task 3: Exited with exit code 7\n12: no such rank\n"
    assert lines_of(SRUN, raw, hosts=hosts) == [
        ("h3", b"a"),
        ("h11", b"2: b"),
        (None, b"srun: error: h3: task 3: Exited with exit code 7"),
        (None, b"12: no such rank"),
    ]


def test_a_bar_of_progress_is_lines() -> None:
    assert lines_of(SRUN, b"1: 10%\r 20%\r\n1: done\r\n") == [
        ("n1", b"10%"),
        ("n1", b" 20%"),
        ("n1", b"done"),
    ]


def test_a_line_without_an_end_is_not_held_for_ever() -> None:
    piece = b"x" * LONGEST_LINE
    found = lines_of(SRUN, b"1: ", piece, piece, b"2: y\n0: z\n")
    assert {host for host, _ in found[:-1]} == {"n1"} and found[-1] == ("n2", b"z")
    assert b"".join(line for _, line in found[:-1]) == piece * 2 + b"2: y"


@given(
    said=st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=9)), max_size=20),
    labels=st.sampled_from([SRUN, OPENMPI_4, OPENMPI_5]),
    cuts=st.sets(st.integers(0, 400), max_size=9),
)
def test_lines_come_whole_wherever_the_stream_is_cut(
    said: list[tuple[int, bytes]], labels: Labels, cuts: set[int]
) -> None:
    lines = [(rank, line.replace(b"\n", b".").replace(b"\r", b".")) for rank, line in said]
    label = {"--label": "%d: ", "--tag-output": "[1,%d]<stdout>:"}[labels.flag]
    label += " " if labels is OPENMPI_5 else ""
    raw = b"".join((label % rank).encode() + line + b"\n" for rank, line in lines)
    at = sorted({0, len(raw)} | {cut for cut in cuts if cut < len(raw)})
    pieces = [raw[first:last] for first, last in pairwise(at)]
    assert lines_of(labels, *pieces) == [(HOSTS[rank], line) for rank, line in lines]

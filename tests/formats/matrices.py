"""Texts of matrices as other programs write them, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from netprobe.core.documents.matrix import FloatMatrix
from netprobe.formats.matrix import ForeignMatrix, ReadOptions, read_matrix


def read(text: str | bytes, format_: str = "auto", **options: object) -> ForeignMatrix:
    """The readings of a text."""
    content = text if isinstance(text, bytes) else text.encode()
    name, readings = read_matrix(content, options=ReadOptions(format=format_, **options))  # type: ignore[arg-type]
    assert format_ in ("auto", name)
    return readings


def detected(text: str) -> str:
    """The format that a text is taken for."""
    return read_matrix(text.encode())[0]


def same(found: FloatMatrix, expected: FloatMatrix) -> bool:
    """Whether two matrices agree off the diagonal, missing cells too, and the first has none on it."""
    off = ~np.eye(len(expected), dtype=bool)
    return bool(
        np.isnan(np.diagonal(found)).all()
        and np.allclose(found[off], np.asarray(expected)[off], rtol=1e-12, atol=0, equal_nan=True)
    )


def mpigraph_text(names: Sequence[str], send: FloatMatrix | None, receive: FloatMatrix | None) -> str:
    """What mpiGraph 1.5 prints: ``receive[i][j]`` is what i got from j."""
    hosts = len(names)
    lines = ["START mpiGraph v1.5", "MsgSize\t16384", "Times\t100", "Window\t50", f"Procs\t{hosts}", ""]
    lines += [f"{step} of {hosts} ({100 * step / hosts:.1f}%)" for step in range(1, hosts)]
    lines += ["Gathering results", ""]
    for head, word, table in (("Send", "to", send), ("Recv", "from", receive)):
        if table is None:
            continue
        lines += [f"{head} max\t12.5", f"{head} avg\t10.0", ""]
        lines.append(f"{head}\t" + "".join(f"{name}:{rank}\t" for rank, name in enumerate(names)))
        lines += [
            f"{name}:{rank} {word}\t" + "".join(f"{value:.3f}\t" for value in table[rank])
            for rank, name in enumerate(names)
        ]
        lines.append("")
    return "\n".join([*lines, "END mpiGraph", ""])


def goldpinger_text(times: dict[str, dict[str, dict[str, object]]]) -> str:
    """A reply of /check_all: ``times[src][dst]`` are the fields of one call."""
    return json.dumps(
        {"responses": {src: {"OK": True, "response": {"podResults": calls}} for src, calls in times.items()}}
    )

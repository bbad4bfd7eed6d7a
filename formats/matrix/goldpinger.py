"""The JSON of goldpinger's ``/check_all``: what each pod saw when it called each other one over HTTP.

Times are whole milliseconds (``response-time-ms``), which is coarse for a fleet in one place: a 0 is a time below
half a millisecond. A call that failed has the time of its failure, not of the network: such a link is missing.
Hosts are the pods; their address and, as label ``node``, their host's address are kept.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from netprobe.core.errors import InputError
from netprobe.core.hosts import is_ip_address
from netprobe.core.naming import natural_key
from netprobe.core.text import one_line
from netprobe.formats.matrix.foreign_matrix import ForeignMatrix, check_size, of_links

NODE_LABEL = "node"


def looks_like_goldpinger(text: str) -> bool:
    """Whether a text can be a JSON object with replies of pods."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and '"responses"' in text


def read_goldpinger(text: str, *, zeros: str) -> ForeignMatrix:
    """Readings between the pods, in natural order of their names. Raises InputError."""
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise InputError("is not valid JSON: is it truncated?") from None
    responses = data.get("responses") if isinstance(data, dict) else None
    if not isinstance(responses, dict):
        raise InputError("has no responses: the reply of goldpinger's /check_all is needed")
    calls: list[tuple[str, str, float]] = []
    seen: dict[str, dict[str, Any]] = {}
    for src, reply in responses.items():
        seen.setdefault(src, {}).update(_object(reply))
        results = _object(_object(_object(reply).get("response")).get("podResults"))
        for dst, result in results.items():
            if not isinstance(result, dict):
                raise InputError(f"what {one_line(src, 60)!r} says of {one_line(dst, 60)!r} is not an object")
            seen.setdefault(dst, {}).update({k: result.get(k) for k in ("PodIP", "HostIP") if result.get(k)})
            calls.append((src, dst, _milliseconds(result, src, dst)))
    check_size(len(seen))
    names = sorted(seen, key=natural_key)
    index = {name: i for i, name in enumerate(names)}
    return of_links(
        names,
        np.array([index[src] for src, _, _ in calls], dtype=np.int64),
        np.array([index[dst] for _, dst, _ in calls], dtype=np.int64),
        np.array([value for _, _, value in calls], dtype=np.float64),
        zeros=zeros,
        unit="ms",
        parameters={"probe": "HTTP"},
        addresses={name: ip for name in names if (ip := _address(seen[name].get("PodIP")))},
        labels={name: {NODE_LABEL: ip} for name in names if (ip := _address(seen[name].get("HostIP")))},
    )


def _milliseconds(result: dict[str, Any], src: str, dst: str) -> float:
    """Of a call that went well; NaN for one that failed, for a pod's call of itself and where no time is said."""
    value = result.get("response-time-ms")
    if src == dst or result.get("OK") is not True or value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e12:
        raise InputError(f"the time from {one_line(src, 60)!r} to {one_line(dst, 60)!r} is not a number")
    return float(value)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _address(value: Any) -> str | None:
    return value if isinstance(value, str) and is_ip_address(value) and "%" not in value else None

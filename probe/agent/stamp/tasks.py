"""The tasks of STAMP: open the reflector's port, and run a series of probes."""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

from ..messages import MAX_PROBES, MIN_INTERVAL_NS, TOKEN_BYTES
from .reflector import Reflector
from .sender import Probing, Series

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def open_port(message: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], None]:
    """Open the reflector's port for this scan's token; an earlier one is closed."""
    token = bytes.fromhex(message["token"])
    if len(token) != TOKEN_BYTES:
        raise ValueError("a token of %d bytes" % len(token))
    earlier = resources.pop("reflector", None)
    if earlier is not None:
        earlier.close()
    low, high = message["ports"]
    reflector = Reflector(message["address"], (int(low), int(high)), token, message["stamps"])
    resources["reflector"] = reflector
    answer = {
        "type": "opened",
        "address": reflector.address,
        "port": reflector.port,
        "stamps": reflector.level,
    }
    return answer, None


def probe(message: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], Any]:  # noqa: ARG001
    """Run one series."""
    series = Series(
        message["address"],
        int(message["port"]),
        message["source"],
        bytes.fromhex(message["token"]),
        int(message["ssid"]) & 0xFFFF,
        Probing(
            count=min(int(message["count"]), MAX_PROBES),
            interval_ns=max(int(message["interval_ns"]), MIN_INTERVAL_NS),
            timeout_ns=int(message["timeout_ns"]),
            patience_ns=int(message.get("patience_ns", message["timeout_ns"])),
            best=message["stamps"],
            precision_ns=int(message.get("precision_ns", 0)),
        ),
        [int(port) for port in message.get("avoid", ())],
    )
    result = series.run()
    samples = result.pop("samples")
    return dict(result, type="done"), samples

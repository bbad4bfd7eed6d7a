"""Dialling back: how an agent that one command started among many finds its controller, and each the other.

The secret comes with the first frame on standard input, and is in no argument vector and in no
environment. Either end proves over nonces of both that it knows it, without sending it; then the
connection takes the place of standard input and output. Only agents that dial load OpenSSL for it.
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from . import messages
from .messages import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEY_BYTES = 32
NONCE_BYTES = 16
MAX_GREETING_BYTES = 8192
"""The longest frame that either end takes before the other has proved itself."""
MAX_NAME = 255
TRY_S = 5.0
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 2.0

AGENT, CONTROLLER = b"agent", b"controller"


def proof(key: bytes, role: bytes, challenge: str, nonce: str, names: str) -> str:
    """HMAC-SHA256 of who says it, both nonces and the names an agent goes by."""
    import hmac  # loads OpenSSL, which agents on a pipe do without

    text = b"\0".join([b"netprobe dial 1", role, challenge.encode(), nonce.encode(), names.encode()])
    return hmac.new(key, text, "sha256").hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two proofs are the same, in constant time."""
    import hmac

    return hmac.compare_digest(one.encode(), other.encode())


def dial(config: dict[str, Any]) -> int:
    """Connect to the controller and shake hands; the connection's descriptor. Does not return on failure."""
    names = names_of(config["variables"])
    timeout_s = float(config["timeout_s"])
    signal.setitimer(signal.ITIMER_REAL, timeout_s + TRY_S)
    deadline = time.monotonic() + timeout_s
    delay, why = FIRST_DELAY_S, "no time was left"
    while time.monotonic() < deadline:
        sock = None
        try:
            sock = socket.create_connection((config["address"], config["port"]), TRY_S)
            sock.settimeout(TRY_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _shake_hands(sock, bytes.fromhex(config["key"]), names)
            sock.settimeout(None)
            return sock.detach()
        except (OSError, ProtocolError, KeyError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if sock is not None:
            sock.close()
        # Nobody else waits the same time, so a busy listener is not met by all of them at once again.
        time.sleep(min(delay * (0.5 + os.urandom(1)[0] / 255.0), max(0.0, deadline - time.monotonic())))
        delay = min(2 * delay, LONGEST_DELAY_S)
    where = "%s port %s" % (config["address"], config["port"])
    sys.stderr.write("netprobe agent on %s: cannot reach the controller at %s: %s\n" % (_self(), where, why))
    sys.stderr.flush()
    os._exit(4)


def names_of(variables: list[str]) -> str:
    """What this host is called, as JSON text: its host name and what the launcher's variables say."""
    found = {"hostname": _self()}
    for variable in variables:
        value = os.environ.get(variable)
        if value is not None:
            found[variable] = value[:MAX_NAME]
    return json.dumps(found, sort_keys=True)


def _self() -> str:
    return os.uname().nodename[:MAX_NAME]


def _shake_hands(sock: socket.socket, key: bytes, names: str) -> None:
    challenge = _receive(sock, "challenge")["nonce"]
    nonce = os.urandom(NONCE_BYTES).hex()
    shown = proof(key, AGENT, challenge, nonce, names)
    sock.sendall(messages.json_frame({"type": "dial", "nonce": nonce, "names": names, "proof": shown}))
    if not same(_receive(sock, "welcome")["proof"], proof(key, CONTROLLER, challenge, nonce, names)):
        raise ProtocolError("what answers there is not the controller of this scan")


def _receive(sock: socket.socket, kind: str) -> dict[str, Any]:
    """One message of this type, and not a byte further."""
    _, length = messages.parse_header(_exactly(sock, messages.HEADER_BYTES))
    if length > MAX_GREETING_BYTES:
        raise ProtocolError("the peer is not netprobe")
    message = messages.parse_json(_exactly(sock, length))
    if message["type"] != kind:
        raise ProtocolError("the peer is not a netprobe controller")
    return message


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ProtocolError("the controller closed the connection")
        data += part
    return data

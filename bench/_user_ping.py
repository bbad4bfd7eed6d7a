"""The usual script: a UDP echo server, and a ping that reads its clock in user space. Standard library."""

from __future__ import annotations

import socket
import sys
import time

PORT = 8620


def serve() -> None:
    """Echo until terminated."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", PORT))
    print("ready", flush=True)
    while True:
        data, peer = server.recvfrom(2048)
        server.sendto(data, peer)


def ping(address: str, count: int, period_s: float) -> None:
    """Print one RTT in seconds a line."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(1.0)
    client.connect((address, PORT))
    due = time.perf_counter()
    for number in range(count + 1):
        time.sleep(max(0.0, due - time.perf_counter()))
        due += period_s
        began = time.perf_counter()
        try:
            client.send(number.to_bytes(4, "big") + bytes(60))
            while int.from_bytes(client.recv(2048)[:4], "big") != number:
                continue
        except OSError:
            continue
        if number:  # the first pays for address resolution
            print(f"{time.perf_counter() - began:.9f}")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        ping(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))

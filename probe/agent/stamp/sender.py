"""The STAMP session-sender: one series of probes to one reflector.

A series is a warm-up, whose reply is waited for and whose reading is dropped, ``count`` probes, and a flush
that fetches the departure stamp of the last reply. It has fewer probes where its 10th percentile is known
early. Probes are paced, not closed-loop, so a long path does
not take longer than a short one, with spacing uniform in 0.5..1.5 intervals so that the probes of many
hosts do not fall into step (RFC 2330 section 11.1).
"""

# ruff: noqa: TID251 (relative imports: on a host the package has another name)
from __future__ import annotations

import errno
import select
import time

from .. import kernel_stamps
from ..listening import bind_source
from ..pacing import Pacer
from . import packet
from .readings import SeriesReadings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

WARM_UP_WAIT_NS = 250000000
MIN_GRACE_NS = 20000000
FLUSHES = 3
REFUSALS = 3
COLLECT_PROBES, COLLECT_NS = 16, 20000000
"""How many replies, and for how long, may wait in the socket's queue (it holds more than 200)."""
LOOK_AFTER, LOOK_EVERY = 3, 3
"""Of those sent the warm-up is not a reading, the last reply is under way, and the one before lacks its departure."""
_REFUSED = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM)
_FULL = (errno.ENOBUFS, errno.EAGAIN, errno.ENOMEM)


class Probing:
    """How a series probes: how many probes, how often, how long a reply is waited for (ns), and its best stamps.

    ``patience_ns`` is how long the first reply of all is waited for, at most ``timeout_ns``. A series with stamps of
    the kernel ends once its 10th percentile is known to ``precision_ns``; 0: it has all its probes.
    """

    def __init__(
        self,
        *,
        count: int,
        interval_ns: int,
        timeout_ns: int,
        best: str,
        patience_ns: int | None = None,
        precision_ns: int = 0,
    ) -> None:
        self.count = count
        self.interval_ns = interval_ns
        self.timeout_ns = timeout_ns
        self.patience_ns = timeout_ns if patience_ns is None else min(patience_ns, timeout_ns)
        self.best = best
        self.precision_ns = precision_ns


class Series:
    """One series to run; times in ns. ``run`` may be called once."""

    def __init__(
        self,
        address: str,
        port: int,
        source: str,
        token: bytes,
        ssid: int,
        probing: Probing,
        avoid: Collection[int] = (),
    ) -> None:
        self.ssid = ssid
        self.token = token
        self.count = probing.count
        self.interval_ns = probing.interval_ns
        self.timeout_ns = probing.timeout_ns
        self.patience_ns = probing.patience_ns
        self.precision_ns = probing.precision_ns
        self.readings = SeriesReadings(self.count, self.timeout_ns)
        self.reason = None  # type: str | None
        self.refused = 0
        self.unsent = 0
        self.sends = 0
        self.collect_at = 0
        self.collect_by = 0
        self.pending = {}  # type: dict[int, int]
        self.probe = bytearray(packet.build_probe(0, ssid, 0, token))
        self.sock = kernel_stamps.udp_socket(address)
        try:
            bind_source(self.sock, source, avoid)
            self.sock.connect((address, port))
            self.source_port = int(self.sock.getsockname()[1])
            self.sock.setblocking(False)
            self.level = kernel_stamps.enable(self.sock, probing.best)
        except OSError:
            self.sock.close()
            raise

    def run(self) -> dict[str, Any]:
        """Probe; the counts and samples of the series (``sent`` and ``received`` leave the warm-up out)."""
        self.start = time.monotonic_ns()
        try:
            self._probe()
        finally:
            self.sock.close()
        level, samples, rejected = self.readings.result(self.start)
        sent = sum(1 for seq in self.readings.trips if 1 <= seq <= self.count)
        return {
            "sent": sent,
            "received": self.readings.received,
            "duplicates": self.readings.duplicates,
            "rejected": rejected,
            "unsent": self.unsent,
            "source_port": self.source_port,
            "stamps": level,
            "samples": samples,
            "duration_ns": time.monotonic_ns() - self.start,
            "reason": self.reason,
        }

    def _probe(self) -> None:
        self._send(0)
        self._receive_until(self.start + min(WARM_UP_WAIT_NS, self.patience_ns), 0)
        pacer = Pacer(self.interval_ns, self.ssid)
        seq = 1
        while seq <= self.count:
            room = self._room(pacer.due)
            if self.reason is not None:
                return
            if self.precision_ns and self.level == "kernel" and self.readings.is_p10_known(self.precision_ns):
                self.count = seq - 1
                self.readings.end_at(self.count)
                break
            seq = self._send_paced(pacer, seq, min(seq + room, self.count + 1))
        self._receive_until(pacer.due, None)
        self._flush()

    def _room(self, due: int) -> int:
        """Take up replies if it is time to; how many probes may leave before the next time, one at least.

        Where the kernel stamps what arrives, nobody need be awake when it does: replies are taken up some
        at a time, which costs a third of the processor's time that waking up for each would. Without, they are taken
        as they come until the next probe is ``due``.
        """
        if self.level == "user":
            self._receive_until(due, None)
            return 1
        now = time.monotonic_ns()
        over = self._beyond_look()
        enough = self.precision_ns and over >= 0 and over % LOOK_EVERY == 0
        if self.sends >= self.collect_at or now >= self.collect_by or enough:
            self._receive_waiting()
            over = self._beyond_look()
            self.collect_at, self.collect_by = self.sends + COLLECT_PROBES, time.monotonic_ns() + COLLECT_NS
        room = self.collect_at - self.sends
        if self.precision_ns:
            room = min(room, -over if over < 0 else LOOK_EVERY - over % LOOK_EVERY)
        return max(1, room)

    def _beyond_look(self) -> int:
        """How many more probes have left than it takes to see whether the percentile is known."""
        return self.sends - self.readings.look_at - LOOK_AFTER

    def _send_paced(self, pacer: Pacer, first: int, end: int) -> int:
        """Send probes from ``first`` on, each when it is due, before ``end`` and while no reply waits too long;
        the number of the next one.

        Whoever sleeps in between wakes up to cold caches, so nothing is done there that can be done after the last.
        """
        monotonic_ns, time_ns, sleep = time.monotonic_ns, time.time_ns, time.sleep
        send, restamp, probe = self.sock.send, packet.restamp_probe, self.probe
        due, interval_ns, give_up = pacer.due, pacer.interval_ns, self.collect_by
        gaps = pacer.spacings(end - first)
        left = []  # type: list[tuple[int, int]]
        failed = None  # type: OSError | None
        monotonic = monotonic_ns()
        for gap in gaps:
            if due > monotonic:
                if left and monotonic >= give_up:
                    break
                sleep((due - monotonic) / 1e9)
                monotonic = monotonic_ns()
            now = time_ns()
            restamp(probe, first + len(left), now)
            due = max(due, monotonic - interval_ns) + gap
            try:
                send(probe)
            except OSError as error:
                failed = error
                break
            left.append((now, monotonic))
            monotonic = monotonic_ns()
        pacer.due = due
        for now, monotonic in left:
            self._has_left(first, now, monotonic)
            first += 1
        if failed is not None:
            self._not_sent(failed)
            first += 1
        return first

    def _receive_waiting(self) -> None:
        """Take what has come in by now."""
        for _ in range(2 * COLLECT_PROBES + 8):
            if self.reason is not None or not self._receive():
                return

    def _flush(self) -> None:
        """Fetch the last departure stamp and give late replies their time.

        A probe is lost when its reply is not there ``timeout`` after it was sent, or when a later probe's
        is and four times the longest round trip has gone by. Without any reply the series is over as soon as
        the warm-up is lost: a host that never answers must not cost a time-out beyond that, nor more than ``patience``.
        """
        now = time.monotonic_ns()
        give_up = now + self.timeout_ns
        for flush in range(self.count + 1, self.count + 1 + FLUSHES):
            self._send(flush)
            if not self.readings.arrivals:
                silent_at = max(self.start + self.timeout_ns, now + MIN_GRACE_NS)
                self._receive_until(min(silent_at, now + self.patience_ns), flush)
                if not self.readings.arrivals:
                    break
            grace = max(MIN_GRACE_NS, 4 * self.readings.longest_ns)
            self._receive_until(min(give_up, time.monotonic_ns() + grace), flush)
            if self.readings.is_answered(flush) or self.reason is not None or time.monotonic_ns() >= give_up:
                break
        if self.readings.arrivals and self.readings.received < self.count and self.reason is None:
            grace = max(MIN_GRACE_NS, 4 * self.readings.longest_ns)
            self._receive_until(min(give_up, time.monotonic_ns() + grace), -1)

    def _send(self, seq: int) -> None:
        monotonic = time.monotonic_ns()
        now = time.time_ns()
        packet.restamp_probe(self.probe, seq, now)
        try:
            self.sock.send(self.probe)
        except OSError as error:
            self._not_sent(error)
        else:
            self._has_left(seq, now, monotonic)

    def _has_left(self, seq: int, now: int, monotonic: int) -> None:
        """Probe ``seq`` left at these times of user space, and has the next number of the kernel's."""
        self.readings.sent(seq, now, monotonic)
        if self.level == "kernel":
            self.pending[self.sends] = seq
        self.sends += 1

    def _not_sent(self, error: OSError) -> None:
        self._note_error(error)
        if error.errno in _FULL:
            self.unsent += 1
        self._collect_stamps()  # or they would be taken for those of the next probes, which are numbered anew
        self.pending.clear()
        self.sends = self.collect_at = 0
        # Whether a failed send was numbered differs by kernel.
        kernel_stamps.enable(self.sock, self.level)

    def _receive_until(self, deadline: int, awaited: int | None) -> None:
        """Take replies until ``deadline``, or until probe ``awaited`` (-1: every probe) is answered."""
        watched = (self.sock.fileno(),)
        while self.reason is None:
            if awaited is not None and (self._has(awaited) or (self.refused and not self.readings.arrivals)):
                return
            left = deadline - time.monotonic_ns()
            if left <= 0:
                return
            ready, _, _ = select.select(watched, (), (), left / 1e9)
            if ready:
                self._receive()

    def _has(self, awaited: int) -> bool:
        if awaited == -1:
            return self.readings.received >= self.count
        return self.readings.is_answered(awaited)

    def _receive(self) -> bool:
        """Take a reply, and the stamps of what has left; whether there was a reply or an error."""
        if self.pending:
            self._collect_stamps()
        try:
            data, ancillary, _flags, _peer = self.sock.recvmsg(2048, 256)
        except BlockingIOError:
            if not self.pending:
                kernel_stamps.read_transmit_stamp(self.sock)  # a stray entry would keep select busy
            return False
        except OSError as error:
            self._note_error(error)
            return True
        monotonic = time.monotonic_ns()
        now = time.time_ns()
        reply = packet.parse_reply(data, self.ssid, self.token)
        if reply is not None:
            self.readings.answered(reply, kernel_stamps.kernel_stamp(ancillary), now, monotonic)
        return True

    def _collect_stamps(self) -> None:
        while self.pending:
            found = kernel_stamps.read_transmit_stamp(self.sock)
            if found is None:
                return
            seq = self.pending.pop(found[0], None)
            if seq is not None:
                self.readings.left(seq, found[1])

    def _note_error(self, error: OSError) -> None:
        """Refusals end a series that got no answer at all; a full queue only costs the probe."""
        if error.errno not in _FULL:
            self.refused += 1
        if not self.readings.arrivals and (self.refused >= REFUSALS or error.errno not in _REFUSED + _FULL):
            self.reason = errno_text(error)


def errno_text(error: OSError) -> str:
    """An operating system's error in a few words, with its name."""
    name = errno.errorcode.get(error.errno or 0, "")
    return "%s (%s)" % (error.strerror or error, name) if name else str(error)

"""A series ends once its 10th percentile is known, and not before; what that does to the reading."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from netprobe.probe.agent import kernel_stamps, pacing
from netprobe.probe.agent.stamp import packet
from netprobe.probe.agent.stamp import sender as stamp_sender
from netprobe.probe.agent.stamp.packet import Reply
from netprobe.probe.agent.stamp.readings import LEAST_READINGS, SeriesReadings, p10_ranks
from netprobe.probe.agent.stamp.sender import Probing, Series
from tests.probe.agent.wire import US, Wire

TOKEN = bytes(range(16))
COUNT, PRECISION = 100, 2 * US
START, SPACING, HELD = 10**12, 1000 * US, 40 * US

Noise = Callable[[random.Random], float]


def probing(
    noise_ns: Callable[[int], int], lose: frozenset[int], method: int
) -> Callable[[bytes, int], object]:
    """A far end 50 us away, whose packets come so much later; probes in ``lose`` have no answer."""
    previous = (0, 0, 0)

    def answer(data: bytes, left: int) -> list[tuple[int, bytes]]:
        nonlocal previous
        probe = packet.parse_probe(data, TOKEN)
        assert probe is not None
        if probe.seq in lose:
            return []
        t2 = left + 50 * US + noise_ns(probe.seq)
        reply = packet.build_reply(probe, t2, method, t2 + HELD, packet.METHOD_USER, 64, previous)
        previous = (probe.seq, t2 + HELD, method)
        return [(t2 + HELD + 50 * US, reply)]

    return answer


def ran(
    monkeypatch: pytest.MonkeyPatch,
    *,
    noise_ns: Callable[[int], int] = lambda _seq: 0,
    lose: frozenset[int] = frozenset(),
    method: int = packet.METHOD_SOFTWARE,
    precision: int = PRECISION,
    count: int = COUNT,
) -> tuple[dict[str, object], int]:
    """The result of a series, and how many packets it sent in all."""
    wire = Wire(probing(noise_ns, lose, method))  # type: ignore[arg-type]
    wire.stand_in(monkeypatch, stamp_sender, pacing)
    monkeypatch.setattr(kernel_stamps, "udp_socket", lambda _address: wire)
    monkeypatch.setattr(stamp_sender, "bind_source", lambda *_arguments: None)
    probing_ = Probing(
        count=count, interval_ns=SPACING, timeout_ns=10**9, best="kernel", precision_ns=precision
    )
    result = Series("10.0.0.2", 9, "10.0.0.1", TOKEN, 7, probing_).run()
    return result, wire.sends


def test_a_quiet_link_ends_early_with_all_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    result, sends = ran(monkeypatch, noise_ns=lambda seq: seq % 5 * 200)
    sent = result["sent"]
    assert isinstance(sent, int) and LEAST_READINGS <= sent <= LEAST_READINGS + 20
    assert (result["received"], result["rejected"], result["stamps"]) == (sent, 0, "kernel")
    samples = result["samples"]
    assert isinstance(samples, list) and [sample[0] for sample in samples] == list(range(1, sent + 1))
    assert sends == sent + 2  # the warm-up, and one flush that fetches the last departure


@pytest.mark.parametrize("noise_us", [3, 50])
def test_a_noisy_link_has_all_its_probes(monkeypatch: pytest.MonkeyPatch, noise_us: int) -> None:
    # A tenth of the readings lies on either side of a gap: which side p10 is on cannot be known.
    result, _ = ran(monkeypatch, noise_ns=lambda seq: 0 if seq % 10 == 0 else noise_us * US)
    assert (result["sent"], result["received"]) == (COUNT, COUNT)


@pytest.mark.parametrize(
    ("lose", "method", "precision"),
    [
        (frozenset({9}), packet.METHOD_SOFTWARE, PRECISION),  # what is lost, and how often, needs all of them
        (frozenset(), packet.METHOD_USER, PRECISION),
        (frozenset(), packet.METHOD_SOFTWARE, 0),
    ],
)
def test_without_full_stamps_or_with_a_loss_or_where_it_is_told_so_a_series_is_complete(
    monkeypatch: pytest.MonkeyPatch, lose: frozenset[int], method: int, precision: int
) -> None:
    result, _ = ran(monkeypatch, lose=lose, method=method, precision=precision)
    assert (result["sent"], result["received"]) == (COUNT, COUNT - len(lose))


def test_a_short_series_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, count=LEAST_READINGS)[0]["sent"] == LEAST_READINGS


def test_the_interval_of_p10_covers_it() -> None:
    for count in range(LEAST_READINGS, 400):
        low, high = p10_ranks(count)
        below = [math.comb(count, k) * 0.1**k * 0.9 ** (count - k) for k in range(high)]
        assert sum(below) >= 0.975
        assert sum(below[low:]) >= (0.949 if count >= 30 else 0.915), count


def series_of(rtts_ns: list[int]) -> tuple[list[int], list[int]]:
    """The readings of a series that ends early where it can, and those of the full one."""
    readings, last, ended = SeriesReadings(len(rtts_ns), 10**9), (0, 0, False), 0
    for seq, rtt in enumerate([200 * US, *rtts_ns, 200 * US]):
        # Replies are taken up some at a time, as the sender does.
        if not ended and seq % 16 == 1 and readings.is_p10_known(PRECISION):
            ended = seq - 1
        leaves = START + seq * SPACING
        readings.sent(seq, leaves - 5 * US, leaves - 5 * US)
        readings.left(seq, leaves)
        reply = Reply(seq, leaves + 50 * US, True, leaves + 50 * US + HELD - 3 * US, *last)
        last = (seq, leaves + 50 * US + HELD, True)
        readings.answered(reply, leaves + rtt + HELD, leaves + rtt + HELD, leaves + rtt + HELD)
    full = [rtt for _seq, _sent, rtt in readings.result(START)[1]]
    return full[: ended or len(full)], full


@pytest.mark.parametrize(
    ("name", "noise_us", "share_of_probes"),
    [
        ("a floor with a tail", lambda r: r.expovariate(1 / 0.5) + (r.random() < 0.2) * r.expovariate(1 / 50), 0.4),
        ("exponential", lambda r: r.expovariate(1 / 3), 0.6),
        ("normal", lambda r: abs(r.gauss(20, 1.5)), 0.95),
        ("two paths", lambda r: r.gauss(10, 0.1) + 8 * (r.random() < 0.85), 1.0),
        ("jitter", lambda r: r.uniform(0, 40), 1.0),
    ],
)  # fmt: skip
def test_ending_early_moves_no_reading(name: str, noise_us: Noise, share_of_probes: float) -> None:
    """The bias of p10 is below half a microsecond, and few readings move by more than the precision."""
    draw = random.Random(name)
    moved, share = [], []
    for _ in range(150):
        early, full = series_of([round(1000 * (100 + noise_us(draw))) for _ in range(COUNT)])
        moved.append(float(np.percentile(early, 10) - np.percentile(full, 10)))
        share.append(len(early) / len(full))
    assert abs(sum(moved) / len(moved)) < 0.5 * US
    assert sorted(map(abs, moved))[int(0.95 * len(moved))] <= PRECISION
    assert sum(share) / len(share) <= share_of_probes

"""The size of the buffer with which every order runs often enough in the time that is given; no I/O here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

LEAST_RUNS = 6
"""Of each order: three blocks of four runs, A B B A."""
WARM_UPS = 2
MARGIN = 0.8
"""Of the time is planned; runs differ, and none is started that may end too late."""
FIRST_SHARE = 512
"""The first trial is of such a part of the buffer: it ends in time on a link of 1 Mbit/s too."""
LEAST_BYTES = 1 << 16
GROWTHS = (8, 2)
"""How many times as large the next trial is: the first of these that there is time for."""
TRIAL_RUNS = 4
"""Of one trial: each order twice, the first time over new connections."""
TRIALS_SHARE = 0.15
"""Of the time for all trials but the first."""

Timed = Callable[[int], Awaitable[float]]
"""Mean seconds of a run with a buffer of so many bytes."""


def runs_needed(surveyed: int) -> int:
    """Runs in the time of the comparison, or in the same time for ``surveyed`` more orders: the larger number."""
    return max(WARM_UPS + 2 * LEAST_RUNS, LEAST_RUNS * surveyed)


async def fitted_bytes(most_bytes: int, timed: Timed, *, surveyed: int, time_s: float) -> int:
    """``most_bytes`` where so many fit, else what does by trials of small buffers, in two digits and whole floats.

    The time of a run is taken to grow as the buffer does. It grows less, for latencies do not, so larger trials follow
    as long as there is time for them. The buffer is not smaller than that of the first trial.
    """
    least = min(most_bytes, max(most_bytes // FIRST_SHARE, LEAST_BYTES))
    trial, before, spent = least, (0, 0.0), 0.0
    while trial < most_bytes:
        seconds = await timed(trial)
        spent += TRIAL_RUNS * seconds
        allowed_s = MARGIN * (time_s - spent) / runs_needed(surveyed)
        if seconds * most_bytes <= allowed_s * trial:
            return most_bytes
        slope = max(0.0, seconds - before[1]) / (trial - before[0])
        left_s = TRIALS_SHARE * time_s - spent
        larger = [
            trial * growth
            for growth in GROWTHS
            if TRIAL_RUNS * (seconds + slope * trial * (growth - 1)) <= left_s and trial * growth < most_bytes
        ]
        if not larger:
            fits = trial * allowed_s / seconds
            if fits < trial and slope > 0 and before[0]:
                # Less than this trial saves less than its share: between the two trials, as they say.
                fits = max(before[0], trial - (seconds - allowed_s) / slope)
            return max(least, _rounded(fits))
        trial, before = larger[0], (trial, seconds)
    return most_bytes


def _rounded(size_bytes: float) -> int:
    """Two digits, rounded down, and a multiple of four."""
    whole = int(size_bytes)
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return whole // unit * unit // 4 * 4

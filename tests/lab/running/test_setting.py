"""What ``lab set`` understands, and what it tells the switch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.lab import lay_out, parse_spec
from netprobe.lab.running.setting import KEYS, commands

SPEC = parse_spec("{racks: [2, 2], shuffle: false}")
LAYOUT = lay_out(SPEC)


def _set(what: str, setting: str) -> list[str]:
    key, _, value = setting.partition("=")
    return commands(SPEC, LAYOUT, what, key, value, lab="x")


@pytest.mark.parametrize(
    ("what", "setting", "expected"),
    [
        ("r0h1", "rate=8Mbit/s", ["host r0h1 tx 1000000", "host r0h1 rx 1000000"]),
        ("rack0/1", "tx_rate=unlimited", ["host r0h1 tx 0"]),
        ("10.77.2.1", "loss=0.5%", ["impair host r1h0 loss 5000000"]),
        ("r0h0", "duplicate=15%", ["impair host r0h0 duplicate 150000000"]),
        ("r0h0", "down=true", ["impair host r0h0 blocked 1"]),
        ("r0h0", "delay=2ms", ["impair host r0h0 delay 2000000"]),
        ("r0h0:r1h0", "drop=false", ["impair link r0h0 r1h0 blocked 0", "impair link r1h0 r0h0 blocked 0"]),
        ("r0h0>r1h0", "jitter=1us", ["impair link r0h0 r1h0 jitter 1000"]),
        ("r0h0>rack1/1", "paths=0us,1us", ["impair link r0h0 r1h1 paths 0,1000"]),
        ("r0h0>r1h0", "paths=none", ["impair link r0h0 r1h0 paths 0"]),
        ("r0h0>r1h0", "background=8Mbit/s", ["background r0h0 r1h0 1000000"]),
        ("r0h0>r1h0", "background=none", ["background r0h0 r1h0 0"]),
        ("rack0:rack1", "mtu=1400", ["impair racks 0 1 mtu 1400", "impair racks 1 0 mtu 1400"]),
        ("rack0>rack1", "mtu=none", ["impair racks 0 1 mtu 0"]),
        ("rack1", "loss=1%", ["impair racks 1 1 loss 10000000"]),
        ("rack1", "up_rate=8Mbit/s", ["uplink 1 up 1000000"]),
        ("rack1", "delay=30us", ["delay 1 1 30000"]),
        ("rack0:rack1", "delay=1ms", ["delay 0 1 1000000", "delay 1 0 1000000"]),
        ("all", "faults=none", ["clear impair"]),
        ("all", "background=none", ["clear background"]),
    ],
)
def test_a_setting_is_these_commands(what: str, setting: str, expected: list[str]) -> None:
    assert _set(what, setting) == expected


@pytest.mark.parametrize(
    ("what", "setting", "needed"),
    [
        ("nobody", "loss=1%", "no host 'nobody': it has r0h0"),
        ("r0h0:r0h0", "loss=1%", "a link needs two"),
        ("r0h0:r0h1:r1h0", "loss=1%", "neither one place nor two"),
        ("rack0:r0h0", "loss=1%", "has no 'rack0:r0h0'"),
        ("rack0>rack5", "loss=1%", "its racks are rack0, rack1"),
        ("rack0/7", "loss=1%", "no host 'rack0/7'"),
        ("r0h0", "drop=true", "a host takes rate"),
        ("r0h0>r1h0", "down=true", "two hosts takes loss"),
        ("r0h0", "loss=20", "number and its unit"),
        ("r0h0", "down=1", "true or false"),
        ("r0h0>r1h0", "paths=1us", "2 to 8 paths"),
        ("r0h0>r1h0", "background=unlimited", "background flows go from"),
        ("rack0:rack1", "mtu=20", "from 576"),
        ("all", "faults=some", "faults=none"),
        ("all", "loss=1%", "all takes rate"),
        ("all", "colour=red", "cannot be set: the keys are"),
    ],
)
def test_a_setting_that_cannot_be_is_one_clear_error(what: str, setting: str, needed: str) -> None:
    with pytest.raises(InputError, match=needed) as caught:
        _set(what, setting)
    assert "\n" not in str(caught.value)


WHAT = st.sampled_from(["r0h0", "rack0", "rack1", "all", ":", ">", "rack0/0", "/", "rack99", "\x1b[2J", "é"])
VALUE = st.sampled_from(["1ms", "20%", "none", "true", "1Mbit/s", "0us", ",", "1400", "9" * 40, "²", "\0"])


@given(
    st.lists(WHAT, max_size=4).map("".join),
    st.sampled_from([key for keys in KEYS.values() for key in keys]) | st.text(max_size=9),
    st.lists(VALUE, max_size=4).map("".join) | st.text(max_size=12),
)
def test_no_words_make_it_fail_otherwise_than_by_an_input_error(what: str, key: str, value: str) -> None:
    try:
        expected = commands(SPEC, LAYOUT, what, key, value, lab="x")
    except InputError:
        return
    assert expected
    assert all(line.isascii() and len(line) < 256 and "\n" not in line for line in expected)


def test_every_key_is_documented() -> None:
    text = Path(__file__).parents[3].joinpath("docs/lab.md").read_text(encoding="utf-8")
    table = text.split("## Changing a lab while it runs")[1].split("##")[0]
    assert all(f"`{key}`" in table or f"`{key}=" in table for keys in KEYS.values() for key in keys)

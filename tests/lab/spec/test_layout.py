from __future__ import annotations

import ipaddress
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from netprobe.lab import lay_out, load_spec, parse_spec
from netprobe.lab.spec.layout import NETWORK
from netprobe.lab.switch.control import switch_config

RACKS = st.lists(st.integers(1, 20), min_size=1, max_size=8)


@given(RACKS, st.integers(0, 2**32), st.booleans())
def test_the_same_spec_and_seed_give_the_same_lab(racks: list[int], seed: int, shuffle: bool) -> None:
    text = f"racks: {racks}\nshuffle: {str(shuffle).lower()}"
    assert lay_out(parse_spec(text), seed=seed) == lay_out(parse_spec(text), seed=seed)


@given(RACKS, st.integers(0, 2**32), st.booleans())
def test_a_layout_has_each_host_once_with_its_own_everything(
    racks: list[int], seed: int, shuffle: bool
) -> None:
    layout = lay_out(parse_spec(f"racks: {racks}\nshuffle: {str(shuffle).lower()}"), seed=seed)
    everyone = layout.everyone
    assert Counter(host.rack for host in layout.hosts) == Counter(dict(enumerate(racks)))
    for key in ("name", "target", "address", "hardware_address"):
        assert len({getattr(host, key) for host in everyone}) == len(everyone)
    assert all(ipaddress.ip_address(host.address) in NETWORK for host in everyone)
    assert len(set(layout.namespaces)) == len(everyone) + 1


def test_neither_name_nor_address_nor_order_tells_the_rack() -> None:
    spec = load_spec("racks-4x4")
    same_rack = {"order": 0, "name": 0, "address": 0}
    for seed in range(100):
        hosts = lay_out(spec, seed=seed).hosts
        by_address = sorted(hosts, key=lambda host: ipaddress.ip_address(host.address))
        for key, order in (
            ("order", hosts),
            ("name", sorted(hosts, key=lambda h: h.name)),
            ("address", by_address),
        ):
            same_rack[key] += sum(a.rack == b.rack for a, b in pairwise(order))
    # 15 neighbours, each in the same rack with probability 3/15; 1500 draws, five standard deviations.
    for count in same_rack.values():
        assert 220 < count < 380


def test_another_seed_gives_another_shuffle() -> None:
    spec = load_spec("racks-6-6-4")
    assert lay_out(spec, seed=1).hosts != lay_out(spec, seed=2).hosts


def test_the_labs_name_goes_into_targets_only() -> None:
    spec = load_spec("pair")
    one, two = lay_out(spec, seed=1, name="one"), lay_out(spec, seed=1, name="two")
    assert [host.name for host in one.hosts] == [host.name for host in two.hosts]
    assert [host.target for host in one.hosts] == [f"one.{host.name}" for host in one.hosts]
    assert not set(one.namespaces) & set(two.namespaces)


def test_the_switch_is_told_every_port_rate_and_delay() -> None:
    spec = parse_spec("racks: [1, 1]\nhost_rate: 80Mbit/s\nuplink_rate: 1Gbit/s\nshuffle: false")
    lines = switch_config(spec, lay_out(spec)).splitlines()
    assert lines[0] == "racks 3"
    assert "port p0 r0h0 0 02:4e:0a:4d:01:01" in lines
    assert "port p2 lab-controller 2 02:4e:0a:4d:00:01" in lines
    assert "host r1h0 rx 10000000" in lines
    assert "uplink 1 down 125000000" in lines
    assert "delay 0 1 150000" in lines
    assert "delay 1 1 50000" in lines
    assert not [line for line in lines if line.startswith("host lab-controller")]

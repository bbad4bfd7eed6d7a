"""Which address of a host is probed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from netprobe.core.hosts import Host, make_host
from netprobe.probe.addressing import Chosen, choose_addresses
from netprobe.probe.connection import AddressEntry
from netprobe.probe.options import ScanOptions

from .conftest import hosts_named


def entry(address: str, interface: str = "eth0", *, preferred: bool = False) -> AddressEntry:
    return AddressEntry(address=address, interface=interface, preferred=preferred)


NAMES = {"db": ["fd00::9", "10.9.0.9"], "me": ["127.0.1.1"], "both": ["127.0.1.1", "10.9.0.8"]}


def choose(
    hosts: Sequence[Host], reports: dict[str, list[AddressEntry]], *, local: bool = False, **options: Any
) -> Chosen:
    return choose_addresses(
        hosts, reports, ScanOptions(**options), local=local, resolve=lambda name: NAMES.get(name, [])
    )


def test_the_source_of_the_default_route_comes_first() -> None:
    reports = {
        "a": [entry("10.0.0.1"), entry("10.1.0.1", preferred=True)],
        "b": [entry("10.0.0.2"), entry("10.1.0.2", preferred=True)],
    }
    assert choose(hosts_named("a", "b"), reports).addresses == {"a": "10.1.0.1", "b": "10.1.0.2"}


def test_an_address_on_two_hosts_is_never_probed() -> None:
    docker = entry("172.17.0.1", "docker0", preferred=True)
    reports = {"a": [docker, entry("10.0.0.1")], "b": [docker, entry("10.0.0.2")], "c": [docker]}
    chosen = choose(hosts_named("a", "b", "c"), reports)
    assert chosen.addresses == {"a": "10.0.0.1", "b": "10.0.0.2"}
    assert "172.17.0.1 stands on more than one host" in chosen.failures["c"]
    assert "give it an address in the hosts file" in chosen.failures["c"]


def test_loopback_and_link_local_are_never_probed() -> None:
    reports = {"a": [entry("127.0.0.1"), entry("169.254.1.1"), entry("fe80::1"), entry("nonsense")]}
    assert "no IPv4 address" in choose(hosts_named("a"), reports).failures["a"]


def test_a_name_that_is_loopback_on_the_controller_is_never_probed() -> None:
    hosts = (
        hosts_named("a", address="me")
        + hosts_named("b", address="both")
        + hosts_named("c", address="0.0.0.0")
    )
    chosen = choose(hosts, {name: [entry("10.0.0.1")] for name in "abc"})
    assert chosen.addresses == {"b": "10.9.0.8"}
    assert "its address 'me' is 127.0.1.1 on the controller" in chosen.failures["a"]
    assert "mend /etc/hosts" in chosen.failures["a"]
    assert "no address of one host" in chosen.failures["c"]


def test_subnet_and_interface_choose() -> None:
    reports = {
        "a": [entry("10.0.0.1", preferred=True), entry("10.1.0.1", "ib0")],
        "b": [entry("10.0.0.2", preferred=True), entry("10.1.0.2", "ib0")],
    }
    hosts = hosts_named("a", "b")
    wanted = {"a": "10.1.0.1", "b": "10.1.0.2"}
    assert choose(hosts, reports, subnet="10.1.0.0/16").addresses == wanted
    assert choose(hosts, reports, interface="ib0").addresses == wanted
    assert "in 10.2.0.0/16: it has 10.0.0.1" in choose(hosts, reports, subnet="10.2.0.0/16").failures["a"]


def test_one_family_serves_all_hosts() -> None:
    both = {"a": [entry("10.0.0.1"), entry("fd00::1")], "b": [entry("fd00::2")]}
    assert choose(hosts_named("a", "b"), both).addresses == {"a": "fd00::1", "b": "fd00::2"}
    four = {"a": [entry("fd00::1"), entry("10.0.0.1")], "b": [entry("10.0.0.2"), entry("fd00::2")]}
    assert choose(hosts_named("a", "b"), four).addresses == {"a": "10.0.0.1", "b": "10.0.0.2"}
    assert choose(hosts_named("a", "b"), four, family="ipv6").addresses["a"] == "fd00::1"


def test_a_given_address_wins_and_a_given_name_is_resolved_once() -> None:
    hosts = [
        make_host("a", address="192.0.2.7"),
        make_host("b", address="db"),
        make_host("c", address="gone"),
    ]
    reports = {name: [entry(f"10.0.0.{i}")] for i, name in enumerate("abc")}
    chosen = choose(hosts, reports)
    assert chosen.addresses == {"a": "192.0.2.7", "b": "10.9.0.9"}
    assert chosen.failures["c"] == "its address 'gone' cannot be resolved on the controller"


def test_link_local_addresses_need_an_interface_and_are_refused() -> None:
    chosen = choose([make_host("a", address="fe80::1")], {"a": []})
    assert "link-local" in chosen.failures["a"]


def test_two_hosts_at_one_address_both_fail() -> None:
    hosts = [make_host("a", address="db"), make_host("b", address="10.9.0.9")]
    chosen = choose(hosts, {"a": [], "b": []})
    assert not chosen.addresses
    assert chosen.failures["a"] == "its address 10.9.0.9 is that of b too"


def test_local_agents_get_loopback_addresses_of_their_own() -> None:
    names = [f"h{i}" for i in range(300)]
    chosen = choose(hosts_named(*names), {name: [] for name in names}, local=True)
    assert len(set(chosen.addresses.values())) == 300
    assert all(address.startswith("127.0.") for address in chosen.addresses.values())


def test_hosts_without_a_report_are_left_alone() -> None:
    chosen = choose(hosts_named("a", "b"), {"a": [entry("10.0.0.1")]})
    assert chosen.addresses == {"a": "10.0.0.1"} and not chosen.failures


@pytest.mark.parametrize("name", ["a"])
def test_an_ipv6_literal_is_written_in_its_short_form(name: str) -> None:
    chosen = choose([make_host(name, address="fd00:0:0:0:0:0:0:1")], {name: []})
    assert chosen.addresses[name] == "fd00::1"

"""Which address of a host is probed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from netprobe.core.errors import InputError
from netprobe.core.hosts import Host, make_host
from netprobe.probe.fleet.addressing import Chosen, check_given, choose_addresses
from netprobe.probe.fleet.connection import AddressEntry
from netprobe.probe.records.options import ScanOptions
from tests.probe.conftest import hosts_named


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
    assert "172.17.0.1 is on more than one host" in chosen.failures["c"]
    assert "give it an address in the hosts file" in chosen.failures["c"]


def test_loopback_and_link_local_are_never_probed() -> None:
    reports = {"a": [entry("127.0.0.1"), entry("169.254.1.1"), entry("fe80::1"), entry("nonsense")]}
    assert "no IPv4 address" in choose(hosts_named("a"), reports).failures["a"]


@pytest.mark.parametrize("address", ["255.255.255.255", "224.0.0.1", "0.0.0.0", "::ffff:10.0.0.1", "ff02::1"])
def test_an_address_that_is_no_hosts_is_not_probed_when_an_agent_reports_it(address: str) -> None:
    reports = {"a": [entry(address, preferred=True), entry("10.0.0.1")], "b": [entry("10.0.0.2")]}
    assert choose(hosts_named("a", "b"), reports).addresses == {"a": "10.0.0.1", "b": "10.0.0.2"}


def test_a_name_that_is_loopback_on_the_controller_is_never_probed() -> None:
    hosts = (
        hosts_named("a", address="me")
        + hosts_named("b", address="both")
        + hosts_named("c", address="0.0.0.0")
    )
    chosen = choose(hosts, {name: [entry("10.0.0.1")] for name in "abc"})
    assert chosen.addresses == {"b": "10.9.0.8"}
    assert "its address 'me' is 127.0.1.1 on the controller" in chosen.failures["a"]
    assert "/etc/hosts" in chosen.failures["a"]
    assert "not the address of one host" in chosen.failures["c"]


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


def test_hosts_at_one_address_are_counted_where_they_are_many() -> None:
    names = [f"h{i}" for i in range(490)]
    given = [make_host(name, address="10.0.0.1") for name in names]
    reports = {name: [entry("10.0.0.1")] for name in names}
    assert choose(given, reports).failures["h0"].endswith("that of h1, h2, h3, h4 and 485 more too")


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


@pytest.mark.parametrize(
    ("addresses", "options", "said"),
    [
        (["10.0.0.1", "0.0.0.0"], {}, "b: its address 0.0.0.0 is not the address of one host"),
        (["ff02::1", "224.0.0.1"], {}, "a: its address ff02::1 is not the address"),
        (["255.255.255.255"], {}, "is not the address of one host"),
        (["fe80::1"], {}, "link-local"),
        (["::ffff:10.0.0.1"], {}, "write it as 10.0.0.1"),
        (["10.0.0.1", "fd00::2"], {}, "one family is probed on all hosts, and a has 10.0.0.1, b has fd00::2"),
        (
            ["10.0.0.1", "fd00::2"],
            {"family": "ipv4"},
            "b: its address fd00::2 is not an IPv4 address, which --ipv4",
        ),
        (["10.0.0.1"], {"subnet": "10.1.0.0/16"}, "is not in 10.1.0.0/16, which --subnet asks for"),
        (["10.0.0.1"], {"subnet": "fd00::/8"}, "is not in fd00::/8"),
        (["0.0.0.0"] * 7, {}, "; and 3 more"),
    ],
)
def test_given_addresses_that_cannot_be_probed_are_refused_before_anything_starts(
    addresses: list[str], options: dict[str, Any], said: str
) -> None:
    hosts = [make_host("abcdefg"[i], address=address) for i, address in enumerate(addresses)]
    with pytest.raises(InputError) as caught:
        check_given(hosts, ScanOptions(**options))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_given_addresses_that_can_be_probed_are_let_through() -> None:
    hosts = [make_host("a", address="10.1.0.1"), make_host("b", address="db"), *hosts_named("c")]
    check_given(hosts, ScanOptions(subnet="10.1.0.0/16", family="ipv4"))


def test_a_given_address_is_held_to_what_was_asked() -> None:
    hosts = [make_host("a", address="10.0.0.1"), make_host("b", address="db")]
    reports = {"a": [entry("10.0.0.1"), entry("10.1.0.1", "ib0")], "b": [entry("10.9.0.9", "ib0")]}
    chosen = choose(hosts, reports, interface="ib0")
    assert chosen.addresses == {"b": "10.9.0.9"}
    assert chosen.failures["a"] == "its address 10.0.0.1 is not on interface ib0, which has 10.1.0.1"
    chosen = choose(hosts, reports, subnet="10.0.0.0/16")
    assert chosen.failures["b"] == "its address 10.9.0.9 is not in 10.0.0.0/16, which --subnet asks for"
    assert choose(hosts, reports, family="ipv6").addresses == {"b": "fd00::9"}


def test_given_and_reported_addresses_are_of_one_family() -> None:
    hosts = [make_host("a", address="fd00::1"), *hosts_named("b", "c")]
    both = [entry("10.0.0.2"), entry("fd00::2")]
    chosen = choose(hosts, {"a": [], "b": both, "c": [entry("10.0.0.3"), entry("fd00::3")]})
    assert chosen.addresses == {"a": "fd00::1", "b": "fd00::2", "c": "fd00::3"}
    chosen = choose(hosts, {"a": [], "b": [entry("10.0.0.2")], "c": [entry("10.0.0.3")]})
    assert chosen.failures == {
        "a": "its address fd00::1 is not an IPv4 address, and IPv4 is probed on all hosts"
    }


def test_a_name_that_is_the_controllers_own_loopback_is_not_probed() -> None:
    chosen = choose_addresses(
        [make_host("a", address="me")], {"a": []}, ScanOptions(), resolve=lambda _name: ["127.0.1.1"]
    )
    assert "is 127.0.1.1 on the controller, which every host has for itself" in chosen.failures["a"]


def test_local_agents_are_held_to_it_too() -> None:
    chosen = choose(hosts_named("a"), {"a": []}, local=True, family="ipv6")
    assert "is not an IPv6 address, which --ipv6 asks for" in chosen.failures["a"]

"""Which network is probed where hosts have several: the one they share, and no bridge or tunnel."""

from __future__ import annotations

import subprocess
import sys

import pytest

from netprobe.core.hosts import make_host, read_hosts_file
from netprobe.lab import parse_spec, temporary
from netprobe.probe.fleet.addressing import Chosen, choose_addresses
from netprobe.probe.fleet.connection import AddressEntry, parse_hello
from netprobe.probe.fleet.networks import is_overlay
from netprobe.probe.launchers.via import parse_via
from netprobe.probe.records.events import Event, ScanWarning
from netprobe.probe.records.options import ScanOptions
from netprobe.probe.scan.session import run_scan
from tests.probe.conftest import hosts_named
from tests.probe.fleet.test_connection import HELLO


def entry(cidr: str, interface: str, *, preferred: bool = False) -> AddressEntry:
    address, _, prefix = cidr.partition("/")
    return AddressEntry(address=address, interface=interface, preferred=preferred, prefix=int(prefix))


def choose(reports: dict[str, list[AddressEntry]], **options: str) -> Chosen:
    return choose_addresses(hosts_named(*reports), reports, ScanOptions(**options), resolve=lambda _name: [])  # type: ignore[arg-type]


def lan(number: int, *, preferred: bool = True) -> AddressEntry:
    return entry(f"10.0.0.{number}/24", "eth0", preferred=preferred)


@pytest.mark.parametrize("name", ["tun0", "wg0", "tailscale0", "br-1f2e3d", "docker0", "virbr0", "ppp0"])
def test_a_default_route_through_a_tunnel_on_one_host_does_not_make_it_unreachable(name: str) -> None:
    odd = [entry("10.8.0.5/24", name, preferred=True), lan(3, preferred=False)]
    chosen = choose({"a": [lan(1)], "b": [lan(2)], "c": odd})
    assert chosen.addresses == {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
    (note,) = chosen.notes
    assert note.startswith("c: ") and name in note and "10.0.0.0/24" in note and "10.8.0.0/24" in note


def test_a_default_route_to_a_network_of_its_own_counts_less_than_a_shared_one() -> None:
    """No name tells that this second network leads nowhere; that nobody else is in it does."""
    odd = [entry("192.168.5.7/24", "eth1", preferred=True), lan(3, preferred=False)]
    assert choose({"a": [lan(1)], "b": [lan(2)], "c": odd}).addresses["c"] == "10.0.0.3"


def test_a_tunnel_that_all_hosts_have_is_not_probed_where_they_share_another_network() -> None:
    reports = {
        name: [entry(f"10.8.0.{i}/24", "tun0", preferred=True), lan(i, preferred=False)]
        for i, name in enumerate("abc", 1)
    }
    chosen = choose(reports)
    assert set(chosen.addresses.values()) == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
    assert len(chosen.notes) == 1 and "tun0" in chosen.notes[0]
    assert set(choose(reports, interface="tun0").addresses.values()) == {"10.8.0.1", "10.8.0.2", "10.8.0.3"}
    assert choose(reports, interface="tun0").notes == []  # it was asked for


def test_a_tunnel_that_is_all_there_is_is_probed_and_named() -> None:
    reports = {
        name: [entry(f"100.64.0.{i}/32", "tailscale0", preferred=True)] for i, name in enumerate("abc", 1)
    }
    chosen = choose(reports)
    assert len(chosen.addresses) == 3
    (note,) = chosen.notes
    assert "tailscale0" in note and "--interface" in note


def test_of_two_networks_that_all_hosts_share_the_default_routes_is_probed_without_a_word() -> None:
    reports = {name: [lan(i), entry(f"10.1.0.{i}/16", "ib0")] for i, name in enumerate("abc", 1)}
    chosen = choose(reports)
    assert set(chosen.addresses.values()) == {"10.0.0.1", "10.0.0.2", "10.0.0.3"} and chosen.notes == []


def test_addresses_that_are_networks_of_their_own_are_told_by_their_interface() -> None:
    """As Google's machines have them, all /32: the second interface is in as many hosts."""
    reports = {
        name: [entry(f"10.132.0.{i}/32", "ens4", preferred=True), entry(f"10.9.{i}.1/32", "ens5")]
        for i, name in enumerate("abc", 1)
    }
    assert set(choose(reports).addresses.values()) == {"10.132.0.1", "10.132.0.2", "10.132.0.3"}


def test_hosts_of_several_subnets_keep_their_default_routes() -> None:
    reports = {
        name: [entry(f"10.0.{i}.9/24", "eth0", preferred=True), entry(f"172.30.{i}.1/24", "docker1")]
        for i, name in enumerate("abc", 1)
    }
    chosen = choose(reports)
    assert chosen.addresses == {"a": "10.0.1.9", "b": "10.0.2.9", "c": "10.0.3.9"} and chosen.notes == []


def test_a_given_address_says_which_network_is_meant() -> None:
    two = [lan(1), entry("10.1.0.1/24", "eth1")]
    hosts = (make_host("a"), make_host("b", address="10.1.0.2"))
    chosen = choose_addresses(hosts, {"a": two, "b": []}, ScanOptions(), resolve=lambda _name: [])
    assert chosen.addresses == {"a": "10.1.0.1", "b": "10.1.0.2"}


@pytest.mark.parametrize(
    "name", ["eth0", "ens5", "enp3s0f1", "bond0", "br0", "ib0", "wlan0", "net1", "team0"]
)
def test_the_names_of_the_machines_own_interfaces_are_no_tunnels(name: str) -> None:
    assert not is_overlay(name)


def test_the_length_of_a_prefix_is_read_from_the_hello() -> None:
    message = {**HELLO, "addresses": [{"address": "10.0.0.1", "interface": "eth0", "prefix": 20}]}
    assert parse_hello(message).addresses[0].prefix == 20


@pytest.mark.lab
def test_a_host_whose_default_route_is_a_vpn_is_probed_all_the_same() -> None:
    with temporary(parse_spec("{name: vpn, racks: [3]}"), seed=1) as lab:
        hosts = [host.model_copy(update={"address": None}) for host in read_hosts_file(lab.hosts_path)]
        namespace = hosts[1].target
        for command in (
            "link add tun0 type veth peer name far", "link set far up", "link set tun0 up",
            "addr add 10.8.0.2/24 dev tun0",
            "route replace default dev tun0",
        ):  # fmt: skip
            subprocess.run(["ip", "-n", namespace, *command.split()], check=True, timeout=20)
        warnings: list[str] = []

        def note(event: Event) -> None:
            if isinstance(event, ScanWarning):
                warnings.append(event.text)

        options = ScanOptions(probes_per_visit=10, python=sys.executable, audit=False)
        scan = run_scan(hosts, parse_via("ip netns exec {target}"), options, on_event=note).scan
        assert [host.address for host in scan.hosts] == [lab.host(host.name).address for host in hosts]
        assert scan.status == "ok"
        assert any("tun0" in text and text.startswith(hosts[1].name) for text in warnings)

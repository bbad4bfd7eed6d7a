from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.probe.launchers.listen_address import ListenAt, parse_listen, routed_address
from netprobe.probe.launchers.via import LaunchOptions, parse_via
from tests.probe.conftest import hosts_named

ROUTES = {"10.0.0.1": "10.0.0.9", "10.0.0.2": "10.0.0.9", "10.1.0.1": "10.1.0.9", "127.0.1.1": "127.0.0.1"}
NAMES = {"a": ["10.0.0.1"], "b": ["10.0.0.2"], "c": ["10.1.0.1"], "self": ["127.0.1.1"]}


def routed(*names: str, own: tuple[str, ...] = ()) -> str:
    return routed_address(
        hosts_named(*names), resolve=lambda n: NAMES.get(n, []), source_towards=ROUTES.get, own=lambda: [*own]
    )


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("10.0.0.5", "10.0.0.5", 0),
        ("10.0.0.5:7000", "10.0.0.5", 7000),
        ("fd00::5", "fd00::5", 0),
        ("[fd00::5]", "fd00::5", 0),
        ("[fd00::5]:7000", "fd00::5", 7000),
        ("0.0.0.0:1", "0.0.0.0", 1),
    ],
)
def test_an_address_and_a_port(text: str, address: str, port: int) -> None:
    assert parse_listen(text) == ListenAt(address, port)


@pytest.mark.parametrize(
    "text", ["", "eth0", "10.0.0.5:", "10.0.0.5:x", "10.0.0.5:70000", "[fd00::5", "[::1]7", ":9"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--listen"):
        parse_listen(text)


def test_the_address_that_most_hosts_are_reached_from() -> None:
    assert routed("c", "a", "b") == "10.0.0.9"
    assert routed("self", "c") == "10.1.0.9"


def test_without_a_route_it_is_the_only_address_or_a_clear_line() -> None:
    assert routed("unknown", "self", own=("10.2.0.1",)) == "10.2.0.1"
    with pytest.raises(InputError, match="give --listen ADDRESS"):
        routed("unknown", "self")


@pytest.mark.parametrize(
    ("via", "options", "fault"),
    [
        ("ssh", {"mca": ["a=b"]}, "--mca goes with --via mpi"),
        ("ssh", {"listen": "10.0.0.1"}, "--listen goes with --via slurm or mpi"),
        ("slurm", {"ssh_options": ["A=b"]}, "--ssh-option goes with --via ssh"),
        ("mpi", {"listen": "nonsense"}, "--listen 'nonsense'"),
    ],
)
def test_an_option_of_another_launcher_is_refused(via: str, options: dict[str, object], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        parse_via(via, LaunchOptions(**options))  # type: ignore[arg-type]


@given(st.text(alphabet="0123456789.:[]fd", max_size=24) | st.text(max_size=12))
def test_any_text_is_an_address_with_a_port_or_one_clear_line(text: str) -> None:
    try:
        found = parse_listen(text)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert 0 <= found.port <= 65535 and str(ipaddress.ip_address(found.address)) == found.address


def test_a_port_of_many_digits_is_refused() -> None:
    with pytest.raises(InputError, match="the port is not a number"):
        parse_listen("10.0.0.5:0655359")

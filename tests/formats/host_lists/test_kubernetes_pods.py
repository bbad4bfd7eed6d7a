"""The list of pods that kubectl prints: what is taken from it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError
from netprobe.formats.host_lists.kubernetes_pods import Pod, parse_pods, pod_hosts


def item(name: str = "w-0", **changes: Any) -> dict[str, Any]:
    """One entry of a list; a key such as ``status__phase`` sets ``status.phase``, None removes it."""
    pod: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "podIP": "10.1.0.4"},
    }
    for place, value in changes.items():
        part, _, key = place.partition("__")
        target, last = (pod[part], key) if key else (pod, part)
        target.pop(last, None)
        if value is not None:
            target[last] = value
    return pod


def listed(*items: Any, kind: str = "List") -> str:
    return json.dumps({"apiVersion": "v1", "items": list(items), "kind": kind})


def test_a_pod_is_a_host_with_its_address_and_node() -> None:
    for text in (listed(item()), listed(item(), kind="PodList").encode()):
        (pod,) = parse_pods(text)
        assert pod == Pod(name="w-0", phase="Running", address="10.1.0.4", node="node-1")
    (host,) = pod_hosts([pod])
    assert (host.name, host.target, host.launcher_name, host.address) == ("w-0", "w-0", "w-0", "10.1.0.4")
    assert host.labels == {"node": "node-1"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status__phase": "Pending", "status__podIP": None}, "its pod is Pending"),
        ({"metadata__deletionTimestamp": "2026-11-28T01:02:03Z"}, "its pod is Terminating"),
        ({"status__podIP": None}, "its pod is Pending: it has no address yet"),
        ({"status__phase": None}, "its pod is Unknown"),
        ({"status__phase": "\x1b[31mRunning"}, "its pod is [31mRunning"),
        ({"status__phase": "Failed", "status__reason": "Evicted", "status__message": "low\non disk"},
         "its pod is Failed: Evicted: low on disk"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_run_says_why(changes: dict[str, Any], said: str) -> None:
    (pod,) = parse_pods(listed(item(**changes)))
    assert pod.not_running == said


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "no list of pods"),
        (listed(kind="Table"), "no list of pods"),
        ('{"kind": "List"}', "without items"),
        (listed("x"), r"items\[0\]: is .*Pod: it has no metadata"),
        (listed(item(), item("w-1", spec=None)), r"items\[1\]: is .*Pod: it has no spec"),
        (listed(item(kind="Node")), "is a Node, not a Pod"),
        (listed(item("-oProxy")), "its name '-oProxy' is not"),
        (listed(item("a\x1b[2J")), r"its name 'a\\x1b\[2J' is not"),
        (listed(item(metadata__name=7)), "has no name"),
        (listed(item(status__podIP="10.1.0.4; reboot")), "pod w-0: its podIP"),
        (listed(item(status__podIP="fe80::1%eth0")), "pod w-0: its podIP"),
        (listed(item(spec__nodeName=["x"])), "pod w-0: its nodeName"),
        (listed(*[0] * 65_537), "65537 pods: at most 65536"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(HostsError, match=fault) as caught:
        parse_pods(text)
    assert str(caught.value).isprintable()


def test_pods_that_cannot_be_told_apart_or_have_all_ended_are_refused() -> None:
    with pytest.raises(HostsError, match="hosts 'a' and 'b' have the same address"):
        pod_hosts(parse_pods(listed(item("a"), item("b"))))
    with pytest.raises(HostsError, match=r"all 1 have ended: a \(Succeeded\)"):
        pod_hosts(parse_pods(listed(item("a", status__phase="Succeeded"))))
    with pytest.raises(HostsError, match="no pod has that label"):
        pod_hosts(parse_pods(listed()))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
places = st.sampled_from(
    ["kind", "metadata", "spec", "status", "metadata__name", "metadata__deletionTimestamp", "spec__nodeName",
     "status__phase", "status__podIP", "status__reason", "status__message", "status__conditions"]
)  # fmt: skip


@given(st.dictionaries(places, values, max_size=3), st.binary(max_size=60))
def test_no_list_whatever_is_in_it_breaks_the_parser(changes: dict[str, Any], noise: bytes) -> None:
    whole = dict(sorted(changes.items(), reverse=True))  # parts last
    for text in (listed(item(**whole)), noise):
        try:
            pods = parse_pods(text)
        except HostsError as error:
            assert str(error).isprintable()
            continue
        for pod in pods:
            assert f"{pod.name}{pod.node}{pod.not_running}{pod.address}".isprintable()
            assert len(pod.not_running or "") < 300


def dual(name: str, *addresses: str) -> dict[str, Any]:
    ips = [{"ip": address} for address in addresses]
    return item(name, status__podIP=addresses[0], status__podIPs=ips)


def test_pods_with_addresses_of_both_families_are_probed_in_one_that_all_have() -> None:
    pods = parse_pods(listed(dual("a", "10.1.0.4", "fd00::4"), dual("b", "fd00::5", "10.1.0.5")))
    assert pods[1] == Pod(name="b", phase="Running", address="fd00::5", node="node-1", others=("10.1.0.5",))
    assert [host.address for host in pod_hosts(pods)] == ["10.1.0.4", "10.1.0.5"]
    pods = parse_pods(listed(dual("a", "10.1.0.4", "fd00::4"), dual("b", "fd00::5")))
    assert [host.address for host in pod_hosts(pods)] == ["fd00::4", "fd00::5"]
    pods = parse_pods(listed(dual("a", "fd00::4", "10.1.0.4"), dual("b", "fd00::5", "10.1.0.5")))
    assert [host.address for host in pod_hosts(pods)] == ["fd00::4", "fd00::5"]
    with pytest.raises(HostsError, match="podIPs is not an IP address"):
        parse_pods(listed(dual("a", "10.1.0.4", "x")))


def test_who_asks_for_an_address_gets_one_of_those_that_the_agents_report() -> None:
    from netprobe.pipeline.scanning.hosts import hosts_to_scan
    from netprobe.probe.launchers.kubectl import KubectlLauncher
    from netprobe.probe.records.options import ScanOptions

    class Listing(KubectlLauncher):
        def list_pods(self, selector: str) -> bytes:
            return listed(dual("a", "10.1.0.4", "fd00::4"), dual("b", "10.1.0.5", "fd00::5")).encode()

    for options, addresses in (
        (ScanOptions(), ["10.1.0.4", "10.1.0.5"]),
        (ScanOptions(family="ipv6"), [None, None]),
        (ScanOptions(subnet="fd00::/64"), [None, None]),
        (ScanOptions(interface="net1"), [None, None]),
    ):
        hosts = hosts_to_scan("k8s:app=x", "kubectl", Listing(), lambda _text: None, options=options)
        assert [host.address for host in hosts] == addresses

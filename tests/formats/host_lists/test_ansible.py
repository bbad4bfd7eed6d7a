"""Hosts of Ansible inventories. The orders and variables are those that ansible-core 2.19 gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, Host, make_host
from netprobe.formats import read_ansible_inventory
from netprobe.formats.host_lists import ansible
from netprobe.formats.host_lists.ansible_ranges import expand_pattern, split_port

INVENTORY = """\
# a comment
mail.example.com ansible_user=bob
; another
www[01:03].x.y
[web]
w[1:5:2] ansible_port=2222 http_port=80
db-[a:c].z
foo:2200   # its port

[db]
mail.example.com
w1

[both:children]
web # a comment
db

[db:vars]
ansible_port = 2200 # c
ansible_user = "dba"

[all:vars]
ansible_user=root
"""


def names(hosts: tuple[Host, ...]) -> list[str]:
    return [host.name for host in hosts]


def test_all_hosts_come_in_the_order_of_ansible() -> None:
    www, web = (
        ["www01.x.y", "www02.x.y", "www03.x.y"],
        ["w1", "w3", "w5", "db-a.z", "db-b.z", "db-c.z", "foo"],
    )
    assert names(read_ansible_inventory(INVENTORY)) == [*www, *web, "mail.example.com"]
    assert names(read_ansible_inventory(INVENTORY, group="both")) == [*web, "mail.example.com"]
    assert names(read_ansible_inventory(INVENTORY, group="db")) == ["mail.example.com", "w1"]
    assert names(read_ansible_inventory(INVENTORY, group="ungrouped")) == www


def test_a_host_s_own_variables_win_then_those_of_the_nearest_group() -> None:
    targets = {host.name: host.target for host in read_ansible_inventory(INVENTORY)}
    assert targets["mail.example.com"] == "ssh://bob@mail.example.com:2200"
    assert targets["w1"] == "ssh://dba@w1:2222"
    assert targets["w3"] == "ssh://root@w3:2222"
    assert targets["foo"] == "ssh://root@foo:2200"
    assert targets["www01.x.y"] == "root@www01.x.y"


def one(text: str) -> Host:
    (host,) = read_ansible_inventory(text)
    return host


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a", "a"),
        ("a ansible_host=10.0.0.1", "10.0.0.1"),
        ("a ansible_host='10.0.0.1' ansible_user=\"bob\"", "bob@10.0.0.1"),
        ("a ansible_ssh_host=10.0.0.2 ansible_host=10.0.0.1", "10.0.0.2"),
        ("a ansible_ssh_user=bob ansible_ssh_port='22'", "ssh://bob@a:22"),
        ("a ansible_host=::1", "::1"),
        ("[2001:db8::1]:22 ansible_host=b", "ssh://b:22"),
        ("a ansible_connection=ssh http_port=80 x='{{ y }}'", "a"),
        ("[g]\na\n[g:vars]\nansible_user=x\n[h]\na\n[h:vars]\nansible_user=y", "y@a"),
        ("[h]\na\n[h:vars]\nansible_user=y\n[g]\na\n[g:vars]\nansible_user=x", "y@a"),
        (
            "[h]\na\n[h:vars]\nansible_user=y\n[g]\na\n[g:vars]\nansible_user=x\nansible_group_priority=10",
            "x@a",
        ),
        ("[p:children]\nc\n[c]\na\n[c:vars]\nansible_user=child\n[p:vars]\nansible_user=parent", "child@a"),
        ("a ansible_user=x\n[g]\na ansible_user=y", "y@a"),
        ("a\n[g]\na:22", "a"),
        ("a:22\n[g]\na:23", "ssh://a:22"),
        ("a:22 ansible_port=24", "ssh://a:24"),
        ("a\n[g]\na\n[ungrouped:vars]\nansible_user=z", "a"),
    ],
)
def test_variables_make_the_target(text: str, target: str) -> None:
    assert one(text).target == target
    assert one(text).address is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("www[01:03].x", "www01.x www02.x www03.x"),
        ("n[8:11]", "n8 n9 n10 n11"),
        ("n[0:10:5]", "n0 n5 n10"),
        ("n[:2]", "n0 n1 n2"),
        ("db-[a:f:2]", "db-a db-c db-e"),
        ("[x:z]", "x y z"),
        ("r[1:2]n[08:09]", "r1n08 r1n09 r2n08 r2n09"),
        ("plain", "plain"),
    ],
)
def test_ranges(pattern: str, expected: str) -> None:
    assert expand_pattern(pattern) == expected.split()


@pytest.mark.parametrize(
    ("pattern", "port"),
    [
        ("a:22", "22"),
        ("a[1:3]:22", "22"),
        ("a[1:3]", None),
        ("::1", None),
        ("[::1]:22", "22"),
        ("10.0.0.1:2", "2"),
    ],
)
def test_ports(pattern: str, port: str | None) -> None:
    assert split_port(pattern)[1] == port


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n[3:1]", r"runs backwards: write \[1:3\]"),
        ("n[c:a]", "runs backwards"),
        ("n[1]", "FIRST:LAST"),
        ("n[1-3]", "FIRST:LAST"),
        ("n[1:]", "neither numbers nor single letters"),
        ("n[a:3]", "neither numbers"),
        ("n[ab:cd]", "neither numbers"),
        ("n[01:100]", "two lengths"),
        ("n[1:3:0]", "step"),
        ("n[1:2:3:4]", "FIRST:LAST"),
        ("n[1:2", "unbalanced"),
        ("n]1:2[", "unbalanced"),
        ("n[1:99999]", "more than"),
        ("n[1:300]m[1:300]", "more than"),
        ("b c", "KEY=VALUE"),
        ("b x='", "unbalanced quotes"),
        ("b:c", "HOST:PORT"),
        ("b:", "YAML"),
        ("---", "YAML"),
        ("b ansible_port=0", "ansible_port="),
        ("b ansible_port=99999", "ansible_port="),
        ("b ansible_port=ssh", "ansible_port="),
        ("b ansible_host=::1 ansible_port=22", "'Host b' in ssh_config"),
        ("b ansible_user=-oX", "ansible_user"),
        ("b ansible_user=a@b", "ansible_user"),
        ("b ansible_user='{{ me }}'", "template"),
        ("b ansible_host='-oProxyCommand=x'", "starts with '-'"),
        ("b ansible_host='x y'", "characters outside"),
        ("localhost ansible_connection=local", "not over ssh"),
        ("b ansible_connection=docker", "not over ssh"),
        ("-b", "starts with '-'"),
        ("$(reboot)", "characters outside"),
        ("[web:colour]", "not one of hosts, children, vars"),
        ("[a b]", "unbalanced|FIRST:LAST|characters"),
        ("[g:vars]", "'g'"),
    ],
)
def test_a_malformed_line_is_named(line: str, message: str) -> None:
    with pytest.raises(HostsError, match=message) as caught:
        read_ansible_inventory(f"[web]\na\n{line}\n", source="inv")
    assert str(caught.value).startswith("inv:3: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no host in group 'all'"),
        ("[g]\n", "no host"),
        ("[p:children]\nnone\n", "inv:2: .*child 'none'"),
        ("[p:children]\na b\n", "inv:2: .*'a b'"),
        ("[p:children]\nall\n", "cannot be a child"),
        ("a\n[p:children]\nq\n[q:children]\np\n", "circle"),
        ("a\n[p:children]\np\n", "circle"),
        ("a\n[all:vars]\nx\n", "KEY=VALUE"),
        ("[g]\na\n[g:vars]\nansible_group_priority=x\n", "ansible_group_priority='x'"),
        ("a ansible_host=x\nb ansible_host=x\n", "same target"),
    ],
)
def test_groups_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(HostsError, match=message):
        read_ansible_inventory(text, source="inv")
    with pytest.raises(HostsError, match="no group 'web': there are all, ungrouped"):
        read_ansible_inventory("a\n", group="web")


def test_a_host_outside_the_group_is_not_judged() -> None:
    text = "localhost ansible_connection=local\n[web]\na\n"
    assert read_ansible_inventory(text, group="web") == (make_host("a"),)


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (MAX_HOSTS, ansible.MAX_ENTRIES) == (65536, 4 * 65536)
    with monkeypatch.context() as patch:  # the same with fewer takes a hundredth of the time
        patch.setattr(ansible, "MAX_HOSTS", 500)
        patch.setattr(ansible, "MAX_ENTRIES", 2000)
        with pytest.raises(HostsError, match="more than 500 hosts"):
            read_ansible_inventory("".join(f"n{i}-[0:99]\n" for i in range(9)))
        with pytest.raises(HostsError, match="more than 500 hosts"):
            read_ansible_inventory("".join(f"[g{i}]\nn[0:499]\n" for i in range(40)))
    with pytest.raises(HostsError, match="inv:1: a line of"):
        read_ansible_inventory("," * 1_000_000, source="inv")
    chain = "".join(f"[g{i}:children]\ng{i + 1}\n" for i in range(5_000)) + "[g5000]\na\n"
    assert names(read_ansible_inventory(chain, group="g0")) == ["a"]


sections = st.sampled_from(["[g]", "[h]", "[g:children]", "[h:children]", "[g:vars]", "[all:vars]", "[all]"])
members = st.sampled_from(
    ["a", "b", "h", "n[1:3]", "a ansible_port=2", "ansible_user=x", "g", "c ansible_host=d"]
)


@given(st.lists(sections | members, max_size=12).map("\n".join))
def test_groups_in_any_order_are_hosts_or_one_clear_line(text: str) -> None:
    for group in (None, "g"):
        try:
            hosts = read_ansible_inventory(text, source="inv", group=group)
        except HostsError as error:
            assert "\n" not in str(error)
        else:
            assert hosts and len({host.name for host in hosts}) == len(hosts)


@given(st.text() | st.text(alphabet="ab[]:=# '\"\n12;-.{", max_size=60))
def test_any_text_is_hosts_or_one_clear_line(text: str) -> None:
    try:
        assert read_ansible_inventory(text, source="inv")
    except HostsError as error:
        assert "\n" not in str(error)

"""Hosts in YAML and JSON, in ssh_config, and what a file of another kind is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import HostsError
from netprobe.formats import load_hosts, read_hosts_text
from netprobe.formats.host_lists.ssh_config import ssh_config_hosts
from netprobe.formats.recognize import recognize

YAML = """\
---
all:
  hosts:
    login:
  children:
    web:
      hosts:
        www[01:03].example.com:
      vars:
        ansible_user: deploy
    db:
      hosts:
        db1: {ansible_host: 10.0.0.9, ansible_port: 2222, ansible_user: root, secret: !vault x}
"""
INI = """\
login
[web]
www[01:03].example.com
[web:vars]
ansible_user=deploy
[db]
db1 ansible_host=10.0.0.9 ansible_port=2222 ansible_user=root
"""
LISTED = {
    "_meta": {
        "hostvars": {
            **{f"www0{n}.example.com": {"ansible_user": "deploy"} for n in (1, 2, 3)},
            "db1": {"ansible_host": "10.0.0.9", "ansible_port": 2222, "ansible_user": "root", "x": [1]},
        }
    },
    "all": {"children": ["ungrouped", "web", "db"]},
    "ungrouped": {"hosts": ["login"]},
    "web": {"hosts": [f"www0{n}.example.com" for n in (1, 2, 3)]},
    "db": {"hosts": ["db1"]},
}


def test_yaml_and_the_printed_list_are_the_hosts_of_the_ini_form() -> None:
    expected = read_hosts_text(INI)
    assert expected[0].name == "login"
    assert expected[-1].target == "ssh://root@10.0.0.9:2222"
    assert expected[1].target == "deploy@www01.example.com"
    assert read_hosts_text(YAML) == expected
    assert read_hosts_text(json.dumps(LISTED)) == expected


def test_one_group_of_each_form(tmp_path: Path) -> None:
    for name, text in (("i.ini", INI), ("i.yml", YAML), ("i.json", json.dumps(LISTED))):
        (tmp_path / name).write_text(text)
        assert [host.name for host in load_hosts(f"ansible:{tmp_path / name}:db")] == ["db1"]
        with pytest.raises(HostsError, match="no group 'nope'"):
            load_hosts(f"ansible:{tmp_path / name}:nope")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('["b", "a"]', ["b", "a"]),
        ('[{"name": "a", "slots": 8, "colour": 1}, {"hostname": "b"}, "c"]', ["a", "b", "c"]),
        ('{"hosts": [{"name": "a"}, {"name": "b"}]}', ["a", "b"]),
        (Path(__file__).parents[1].joinpath("golden", "map-1.0.json").read_text(), None),
    ],
)
def test_a_list_in_json(text: str, names: list[str] | None) -> None:
    hosts = read_hosts_text(text)
    expected = names or [host["name"] for host in json.loads(text)["hosts"]]
    assert [host.name for host in hosts] == expected
    assert all(host.slots == 8 for host in hosts if host.name == "a" and "slots" in text[:40])


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '["a", "a"]', '{"a": 1}', '[{"x": "a"}]', '["-o"]', '[["a"]]', "[" * 10_000,
        '["a", {"name": "b", "slots": "many"}]', '["a", {"name": "b", "slots": -1}]', '{"hosts": "a"}',
        '{"_meta": 3}', '{"all": {"hosts": 3}}', '{"all": {"children": ["all"]}}',
        '{"g": {"children": ["g"], "hosts": ["a"]}}',
        "all:\n  hosts:\n    a: &x\n    b: *x\n", "all:\n  hosts: [a\n", "all:\n  hosts:\n    $(x):\n",
        "all:\n  hosts:\n    a[1:9999999]:\n", "all:\n  children:\n    g:\n      children:\n        all:\n",
        '["a\\u001b[31m"]', "!!python/object/apply:os.system [ls]\nall:\n  hosts:\n    a:\n",
    ],
)  # fmt: skip
def test_bad_json_and_yaml_is_a_hosts_error(text: str) -> None:
    with pytest.raises(HostsError):
        read_hosts_text(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(["all", "hosts", "children"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["all", "hosts", "children", "vars", "_meta", "hostvars", "g", "name"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_hosts_or_a_hosts_error(data: object) -> None:
    try:
        assert read_hosts_text(json.dumps({"all": data}))
        assert read_hosts_text(json.dumps([data]))
    except HostsError:
        pass


def config(tmp_path: Path) -> Path:
    (tmp_path / ".ssh" / "conf.d").mkdir(parents=True)
    (tmp_path / ".ssh" / "config").write_text(
        "Include conf.d/*\nHost *\n  User me\nHost gpu-1 gpu-2 !gpu-3 x*\n  HostName 10.0.0.1\n"
        'host="login" # comment\nMatch host foo\n  Port 3\n'
    )
    (tmp_path / ".ssh" / "conf.d" / "a.conf").write_text("Host gpu-9\nHost gpu-1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("", ["gpu-9", "gpu-1", "gpu-2", "login"]),
        ("gpu-*", ["gpu-9", "gpu-1", "gpu-2"]),
        ("gpu-*,!gpu-9", ["gpu-1", "gpu-2"]),
        ("login,gpu-2", ["gpu-2", "login"]),
    ],
)
def test_hosts_of_ssh_config(tmp_path: Path, wanted: str, names: list[str]) -> None:
    home = config(tmp_path)
    read = lambda path: Path(path).read_text()  # noqa: E731
    assert [h.name for h in ssh_config_hosts(wanted, read, home=home)] == names
    other = f"{home / '.ssh' / 'config'}:{wanted}"
    assert [h.name for h in ssh_config_hosts(other, read, home=home)][-1] == names[-1]


def test_ssh_config_without_a_match_or_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(config(tmp_path)))
    with pytest.raises(HostsError, match="it has gpu-9"):
        load_hosts("ssh-config:nope*")
    (tmp_path / ".ssh" / "config").write_text("Include config\n")
    with pytest.raises(HostsError, match="circle"):
        load_hosts("ssh-config:")
    (tmp_path / ".ssh" / "config").unlink()
    with pytest.raises(HostsError, match="no such"):
        load_hosts("ssh-config:")


def test_a_table_given_as_hosts_is_named(tmp_path: Path) -> None:
    (tmp_path / "lat.csv").write_text("host,a,b\na,,0.2\nb,0.3,\n")
    with pytest.raises(HostsError, match=r"is a CSV, not a list of hosts: netprobe import matrix"):
        load_hosts(str(tmp_path / "lat.csv"))


@given(st.binary(max_size=300))
def test_any_bytes_are_recognized_as_something(head: bytes) -> None:
    assert recognize(head).what

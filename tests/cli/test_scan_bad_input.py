"""`netprobe scan` given what cannot be: one line, the documented exit code, nothing made or lost."""

from __future__ import annotations

import ctypes
import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netprobe.cli.commands.scan_output import next_commands
from netprobe.cli.entry import run


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no host in it"),
        ("# none\n", "no host in it"),
        ("a\na\n", "twice"),
        ("a b c d\n", "nor a KEY=VALUE: write one host a line"),
        ("a;reboot\n", "characters outside"),
        ("$(touch /tmp/pwned)\n", "characters outside"),
        ("-oProxyCommand=reboot\n", "starts with '-'"),
        ("../../etc/passwd\n", "characters outside"),
        ("'a b'\n", "characters outside"),
        ("a target=-oProxyCommand=reboot\n", "starts with '-'"),
    ],
)
def test_a_bad_hosts_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    (tmp_path / "hosts").write_text(text)
    assert run(["scan", "--hosts", str(tmp_path / "hosts"), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--hosts", "missing-file"], "no such hosts file"),
        ([], "either --hosts FILE or --lab SPEC"),
        (["--hosts", "a,b", "--lab", "pair"], "either --hosts FILE or --lab SPEC"),
        (["--hosts", "a,b", "--only", "bogus"], "--only"),
        (["--hosts", "a,b", "--via", ""], "via"),
        (["--hosts", "a,b", "--via", "ip netns exec {nonsense}"], "nonsense"),
        (["--hosts", "a,b", "--via", "ip netns 'exec"], "quot"),
        (["--hosts", "a,b", "--via", "/no/such/program {target}"], "/no/such/program"),
        (["--hosts", "a,b", "--root", "c"], "--root 'c'"),
        (["--hosts", "a,b", "--format", "bogus"], "known are"),
        (["--hosts", "a,b", "--algorithm", "bogus"], "no algorithm 'bogus'"),
        (["--hosts", "a,b", "--algorithm", "bcube", "--objective", "bottleneck"], "for the algorithm ring"),
        (["--hosts", "a,b", "--port-range", "9-x"], "--port-range"),
        (["--hosts", "a,b", "--port-range", "9000-80"], "port range"),
        (["--hosts", "a,b", "--port-range", "0"], "ports from 1 to 65535"),
        (["--hosts", "a,b", "--port-range", "0-9"], "ports from 1 to 65535"),
        (["--hosts", "a,b", "--ipv4", "--ipv6"], "one family"),
        (
            ["--hosts", "a,b", "--latency", "ping"],
            "latency 'ping' is not one of auto, stamp, icmp, fping, tcp",
        ),
        (["--hosts", "a,b", "--latency", "fping", "--source-ports", "2"], "fping has none"),
        (["--hosts", "a,b", "--source-ports", "99"], "99 source ports: 1 to 64"),
        (["--hosts", "a,b", "--measure", "path"], "rtt is needed"),
        (["--hosts", "a,b", "--measure", "rtt,capacity", "--only", "scan"], "needs the groups of the map"),
        (["--lab", "pair", "--ipv6"], "which --ipv6 asks for"),
        (["--hosts", "a,b", "--probes", "0"], "probes"),
        (["--hosts", "a,b", "--interval", "-1"], "interval"),
        (["--hosts", "a,b", "--subnet", "bogus"], "subnet"),
        (["--hosts", "a,b", "--via", "local", "--ssh-option", "X=y"], "--via ssh"),
        (["--hosts", "n[3-1]"], "backwards"),
        (["--hosts", "a,b", "--k", "3"], "cannot form 3 groups of 2 hosts"),
        (["--hosts", "a,b", "--root", "c", "--dry-run"], "--root 'c'"),
        (["--hosts", "a,b", "--interface", ""], "interface ''"),
        (["--hosts", "a,b", "--measure", "rtt,bandwidth"], "'bandwidth' is not one of rtt, path, goodput"),
        (["--lab", "no-such-example"], "no-such-example"),
        (["--hosts", "a,b", "--like", "no-such-map.json"], "no-such-map.json: no such document"),
        (["--lab", "pair", "--like", "no-such-map.json"], "no-such-map.json: no such document"),
        (
            ["--hosts", "a,b", "--like", "m.json", "--only", "scan"],
            "--like is of the map, and --only scan stops before it",
        ),
    ],
)
def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], says: str) -> None:
    assert run(["scan", *args, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_all_faults_of_a_lab_spec_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.yaml").write_text("name: x\nracks: [0, 3]\ndelay_inside: 1us\ncolour: red\n")
    assert run(["scan", "--lab", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "colour" in err and "delay_inside" in err and "racks.0" in err
    assert not (tmp_path / "out").exists()


def test_an_output_directory_that_holds_anything_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "scan.json").write_text("precious")
    args = ["scan", "--hosts", "one,", "--via", "local", "--out", str(out)]
    assert run(args) == 2
    assert "scan.json" in capsys.readouterr().err
    assert (out / "scan.json").read_text() == "precious"
    (out / "mine.txt").write_text("keep")
    assert run([*args, "--force", "-q"]) == 0
    assert json.loads((out / "scan.json").read_text())["schema"] == "netprobe.scan/1.0"
    assert (out / "mine.txt").read_text() == "keep"


def test_one_host_is_a_trivial_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["scan", "--hosts", "one,", "--via", "local", "--out", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"]["locality"] == "cannot_tell"
    assert data["order"] == ["one"]
    assert {"scan.json", "map.json", "plan.json", "hostfile"} <= {p.name for p in out.iterdir()}


def test_a_scan_names_its_order_by_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As export does; a second scan puts the order of the first one aside, in any format."""
    out = tmp_path / "out"
    args = ["scan", "--hosts", "one,", "--via", "local", "--out", str(out)]
    assert run([*args, "--format", "slurm-hostfile"]) == 0
    assert f"next: env SLURM_HOSTFILE={out}/hostfile.slurm srun" in capsys.readouterr().out
    assert run([*args, "--format", "json", "--force"]) == 0
    assert f"next: give the order in {out}/ranks.json to" in capsys.readouterr().out
    orders = {path.name for path in out.iterdir() if path.name.startswith(("hostfile", "ranks"))}
    assert orders == {"hostfile.slurm.old", "ranks.json"}


def test_two_local_hosts_are_measured_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["scan", "--hosts", "a,b", "--via", "local", "--out", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"]["locality"] == "cannot_tell"
    scan = json.loads((out / "scan.json").read_text())
    assert 0 < scan["rtt_s"]["min"][0][1] <= scan["rtt_s"]["p10"][0][1] < 1
    assert scan["loss_ratio"][0][1] < 1


def test_a_scan_keeps_the_group_ids_of_an_earlier_map_which_it_never_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier, out = tmp_path / "earlier" / "map.json", tmp_path / "out"
    scan = ["scan", "--hosts", "a,b", "--via", "local", "--probes", "3", "-q"]
    assert run([*scan, "--out", str(earlier.parent)]) == 0
    written = json.loads(earlier.read_text())
    assert [group["id"] for group in written["groups"]] == ["g1"]
    written["groups"][0]["id"] = "g7"
    earlier.write_text(json.dumps(written))
    assert run([*scan, "--like", str(earlier), "--out", str(out)]) == 0
    assert [group["id"] for group in json.loads((out / "map.json").read_text())["groups"]] == ["g7"]
    before = earlier.read_bytes()
    for where in (["--hosts", "a,b", "--via", "local"], ["--lab", "pair"]):
        args = ["scan", *where, "--like", str(earlier), "--out", str(earlier.parent), "--force"]
        assert run(args) == 2
        assert "is an input, and would be written" in capsys.readouterr().err
    assert earlier.read_bytes() == before
    for bad, says in (("{", "map.json"), ('{"schema": "netprobe.scan/1.0"}', "a map is needed")):
        earlier.write_text(bad)
        assert run([*scan, "--like", str(earlier), "--out", str(tmp_path / "none")]) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1
        assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_host_that_cannot_be_reached_makes_the_scan_partial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = tmp_path / "prefix"
    prefix.write_text(
        '#!/bin/sh\n[ "$1" = dead ] && { echo "no route to dead" >&2; exit 255; }\nshift\nexec "$@"\n'
    )
    prefix.chmod(0o755)
    (tmp_path / "hosts").write_text("a 127.0.0.1\nb 127.0.0.2\ndead 127.0.0.3\nc 127.0.0.4\n")
    out = tmp_path / "out"
    args = ["scan", "--hosts", str(tmp_path / "hosts"), "--via", f"{prefix} {{target}}", "--out", str(out)]
    assert run([*args, "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    assert data["status"] == "partial"
    dead = next(h for h in data["hosts"] if h["name"] == "dead")
    assert dead["status"] == "unreachable"
    assert "no route to dead" in dead["reason"]
    assert data["left_out"] == ["dead"]
    assert sorted(data["order"]) == ["a", "b", "c"]
    hostfile = (out / "hostfile").read_text()
    assert not any(line.split()[0] == "dead" for line in hostfile.splitlines() if not line.startswith("#"))


def test_no_python_and_nobody_reached_is_exit_4_and_the_scan_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    args = ["scan", "--hosts", "a,b", "--via", "local", "--python", "no-such-python", "--out", str(out)]
    assert run(args) == 4
    err = capsys.readouterr().err
    assert "no-such-python" in err or "Python" in err
    scan = json.loads((out / "scan.json").read_text())
    assert scan["status"] == "failed"
    assert [host["status"] for host in scan["hosts"]] == ["unreachable", "unreachable"]
    assert not (out / "map.json").exists()


@pytest.mark.parametrize("option", [["--via", "local"], ["--ssh-config", "x"], ["--fan-out", "3"]])
def test_a_lab_has_its_own_way_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert run(["scan", "--lab", "pair", *option, "--out", str(tmp_path / "out")]) == 2
    assert f"{option[0]} cannot go with --lab" in capsys.readouterr().err


def test_a_lab_without_root_is_one_line_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Kernel:
        def unshare(self, flags: int) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("netprobe.core.system.namespaces._libc", Kernel())
    monkeypatch.setattr("netprobe.core.system.namespaces._is_alone", lambda: True)
    assert run(["scan", "--lab", "pair", "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert "refuses an ordinary user's namespaces (unshare: Operation not permitted)" in err
    assert "needs root" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_name_the_launcher_would_misread_is_refused_before_the_scan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["scan", "--hosts", "007,b_2", "--via", "local", "--out", str(tmp_path / "out")]
    assert run([*args, "--format", "openmpi"]) == 2
    assert "'007'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    # Who named no format has a scan, and is told so.
    assert run(args) == 0
    said = capsys.readouterr()
    assert (
        "warning: no hostfile for openmpi: mpirun would misread the launcher name '007'"
        in said.out + said.err
    )
    assert (tmp_path / "out" / "hostfile.plain").read_text().split() == ["007", "b_2"]


def test_what_force_replaces_is_kept_aside(tmp_path: Path) -> None:
    args = ["scan", "--hosts", "one,", "--via", "local", "--out", str(tmp_path / "out"), "-q"]
    assert run(args) == 0
    before = (tmp_path / "out" / "map.json").read_bytes()
    assert run([*args, "--force"]) == 0
    assert (tmp_path / "out" / "map.json.old").read_bytes() == before


def test_a_single_host_that_is_not_reached_gets_no_hostfile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["scan", "--hosts", "one,", "--via", "local", "--python", "no-such-python"]
    assert run([*args, "--out", str(tmp_path / "out")]) == 4
    assert "one" in capsys.readouterr().err
    assert not (tmp_path / "out" / "hostfile").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--rate", "10"], "a number and its unit"),
        (["--rate", "1kbit/s"], "--rate 1kbit/s is less than one link of rtt needs"),
        (["--rate", "9Tbit/s", "--measure", "rtt,goodput"], "--rate does not go with goodput"),
        (["--rate", "9Tbit/s", "--measure", "rtt,capacity"], "--rate does not go with capacity"),
        (["--gentle", "--measure", "rtt,capacity"], "--gentle does not go with capacity"),
        (["--links-at-once", "-1"], "links at once"),
    ],
)
def test_a_pace_that_cannot_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], says: str
) -> None:
    out = tmp_path / "out"
    assert run(["scan", "--hosts", "a,b,c,d", "--via", "local", "--out", str(out), *args]) == 2
    assert says in capsys.readouterr().err and not out.exists()


def test_a_dry_run_says_what_it_would_cost_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    # No such program: a dry run that starts anything fails.
    base = ["scan", "--hosts", "h[01-16]", "--via", "ssh", "--out", str(out), "--dry-run", "--json"]
    assert run(base) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["hosts"], plain["rounds"], plain["links"]) == (16, 30, 240)
    assert run([*base, "--rate", "5Mbit/s"]) == 0
    capped = json.loads(capsys.readouterr().out)
    assert capped["links"] == 240 and capped["seconds"] > 3 * plain["seconds"]
    assert capped["measurements"][0]["bytes_per_s"] <= 5e6 / 8
    assert run([*base, "--gentle"]) == 0
    gentle = json.loads(capsys.readouterr().out)["measurements"][0]
    assert gentle["links_at_once"] == 4 and gentle["bytes_per_s"] < 1e6 / 8 * 8
    assert not out.exists()


def test_a_dry_run_says_what_goodput_and_capacity_would_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["scan", "--hosts", "h[01-16]", "--out", str(tmp_path / "out"), "--dry-run"]
    flows = [*base, "--measure", "rtt,goodput,capacity", "--goodput", "tcp"]
    assert run([*flows, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    rtt, goodput, capacity = plain["measurements"]
    # 4 groups of 4, say: 2 n (N - n) rounds of tests of 0.42 s at a gigabit a second, headers besides.
    assert (goodput["rounds"], goodput["links"]) == (96, 240)
    assert 96 * 0.42 < goodput["seconds"] < 96 * 0.55
    assert 240 * 0.42 * 125e6 < goodput["bytes"] < 1.05 * 240 * 0.42 * 125e6
    assert (capacity["rounds"], capacity["links"], capacity["links_at_once"]) == (
        6 + 4 * 4,
        6 * 8 + 2 * 4 * 6,
        8,
    )
    assert 22 < capacity["seconds"] < 33 and capacity["bytes"] > 96 * 125e6
    assert plain["seconds"] == pytest.approx(rtt["seconds"] + goodput["seconds"] + capacity["seconds"])
    assert run([*base, "--measure", "rtt,goodput", "--goodput", "tcp", "--gentle", "--json"]) == 0
    gentle = json.loads(capsys.readouterr().out)["measurements"][1]
    assert (gentle["links_at_once"], gentle["rounds"], gentle["links"]) == (1, 240, 240)
    assert run(flows) == 0
    said = capsys.readouterr().out
    assert "goodput (tcp): 96 rounds, 240 links, at most 3 at once: about" in said
    assert "capacity (tcp): 22 tests, 96 flows" in said and "4 equal groups" in said


@pytest.mark.parametrize(("status", "named"), [("partial", True), ("ok", False)])
def test_what_comes_next_after_a_partial_scan_is_resuming_it(status: str, named: bool) -> None:
    chain: Any = SimpleNamespace(
        folder=Path("my scans"), scan=SimpleNamespace(status=status), plan=object(), verify=None, score=None,
        exported=None, via=None, capacity=None, schedule=None,
    )  # fmt: skip
    assert not any("plan auto" in command for command in next_commands(chain))
    chain.capacity = chain.schedule = object()
    assert "netprobe plan auto 'my scans'" in next_commands(chain)[:3]
    chain.capacity = chain.schedule = None
    commands = next_commands(chain)
    assert ("netprobe scan --resume --out 'my scans'" in commands) == named
    assert commands[0] == f"netprobe export hostfile {Path('my scans') / 'plan.json'}"

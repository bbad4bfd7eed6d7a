"""Argument vectors: nothing a host or a user names is ever read by a shell on this machine."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError, PlatformError
from netprobe.core.hosts import Host, make_host
from netprobe.core.naming import target_fault
from netprobe.probe.launchers import exec_launcher
from netprobe.probe.launchers.bootstrap import new_payload
from netprobe.probe.launchers.exec_launcher import ExecLauncher, LocalLauncher, allow_descriptors
from netprobe.probe.launchers.launch import Channel, LaunchFailure
from netprobe.probe.launchers.ssh import SshLauncher, first_jump
from netprobe.probe.launchers.via import LaunchOptions, parse_via
from tests.probe.conftest import hosts_named

HOSTILE = [
    "a b",
    "$(reboot)",
    "; reboot",
    "`reboot`",
    "../../etc/passwd",
    "it's",
    'say "hi"',
    "a\\b",
    "*",
    "{x}",
]
COMMAND = ["python3", "-ISB", "-c", "print('it is $HOME')"]
targets = st.text(min_size=1, max_size=30).filter(lambda text: target_fault(text) is None)


def host_of(target: str) -> Host:
    return make_host("h1", target=target)


@given(targets)
def test_a_target_stays_one_word_of_the_template(target: str) -> None:
    argv = ExecLauncher("ip netns exec {target} --x={target}").argv(host_of(target), COMMAND)
    assert argv == ["ip", "netns", "exec", target, f"--x={target}", *COMMAND]


@given(targets)
def test_ssh_gets_the_target_behind_two_dashes_and_one_quoted_command(target: str) -> None:
    argv = SshLauncher().argv(host_of(target), COMMAND)
    assert argv[-3:-1] == ["--", target]
    assert shlex.split(argv[-1]) == ["exec", *COMMAND]


@pytest.mark.parametrize("target", HOSTILE)
def test_hostile_targets_run_nothing(target: str) -> None:
    launcher = ExecLauncher(f"{sys.executable} -c 'import sys; sys.exit(repr(sys.argv[1:2]))' {{target}}")

    async def outcomes() -> list[Channel | LaunchFailure]:
        return [outcome async for outcome in launcher.launch([host_of(target)], new_payload(lease_s=60), 120)]

    (outcome,) = asyncio.run(outcomes())
    assert isinstance(outcome, LaunchFailure)
    assert repr([target]) in outcome.reason


def test_a_template_is_split_as_a_shell_would() -> None:
    launcher = ExecLauncher("kubectl exec -i {target} --namespace 'my space' --")
    assert launcher.argv(host_of("pod-1"), ["py"])[3:] == ["pod-1", "--namespace", "my space", "--", "py"]
    host = make_host("n", target="t", address="10.0.0.1")
    assert ExecLauncher("x {name} {target} {host} {address}").argv(host, ["py"]) == [
        "x", "n", "t", "t", "10.0.0.1", "py",
    ]  # fmt: skip


def test_braces_of_a_shell_are_no_placeholders() -> None:
    argv = ExecLauncher("sh -c 'f() { echo {name}; }; f' {target}").argv(host_of("t"), ["py"])
    assert argv == ["sh", "-c", "f() { echo h1; }; f", "t", "py"]


def test_a_command_for_a_shell_is_one_quoted_word() -> None:
    argv = ExecLauncher("su -c {command} {target}").argv(host_of("u"), COMMAND)
    assert argv[:2] == ["su", "-c"] and argv[3:] == ["u"]
    assert shlex.split(argv[2]) == COMMAND
    argv = ExecLauncher("/usr/bin/ssh -p 22 {target}").argv(host_of("u"), COMMAND)
    assert argv[:4] == ["/usr/bin/ssh", "-p", "22", "u"]
    assert shlex.split(argv[4]) == COMMAND and len(argv) == 5


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("ip netns exec {node}", r"unknown placeholder \{node\}: known are \{name\}"),
        ("ip netns exec {}", "unknown placeholder"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("ip 'netns", "no closing quotation"),
    ],
)
def test_a_template_that_is_none_is_refused(template: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        parse_via(template)


def test_a_template_without_a_placeholder_serves_one_host_only() -> None:
    launcher = ExecLauncher("env")
    launcher.check(hosts_named("a"))
    with pytest.raises(InputError, match=r"no \{target\}.* all 2 hosts"):
        launcher.check(hosts_named("a", "b"))


def test_missing_programs_and_addresses_are_one_clear_line() -> None:
    with pytest.raises(InputError, match="no program 'no-such-program'"):
        ExecLauncher("no-such-program {target}").check(hosts_named("a"))
    with pytest.raises(InputError, match="host 'a' has none"):
        ExecLauncher("env {address}").check(hosts_named("a"))
    with pytest.raises(PlatformError, match="OpenSSH"):
        SshLauncher(program="no-such-ssh").check(hosts_named("a"))


def test_ssh_takes_the_users_configuration_and_options(tmp_path: Path) -> None:
    config = tmp_path / "my config"
    config.write_text("")
    launcher = parse_via(
        "ssh", LaunchOptions(ssh_config=config, ssh_options=["Port=2222", "ConnectTimeout=3"])
    )
    assert isinstance(launcher, SshLauncher)
    argv = launcher.argv(host_of("h"), COMMAND)
    assert argv[argv.index("-F") + 1] == str(config)
    assert "-oPort=2222" in argv and "-oBatchMode=yes" in argv
    # ssh takes the first value it meets, so the user's comes first.
    assert argv.index("-oConnectTimeout=3") < argv.index("-oConnectTimeout=10")
    assert not any("StrictHostKeyChecking" in word for word in argv)


@pytest.mark.parametrize("option", ["", "-oProxyCommand=x", "a\nb"])
def test_ssh_options_that_are_none_are_refused(option: str) -> None:
    with pytest.raises(InputError, match="--ssh-option"):
        parse_via("ssh", LaunchOptions(ssh_options=[option]))


def test_ssh_settings_without_ssh_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="goes with --via ssh"):
        parse_via("local", LaunchOptions(ssh_options=["Port=1"]))
    with pytest.raises(InputError, match="no such file"):
        parse_via("ssh", LaunchOptions(ssh_config=tmp_path / "nothing"))
    with pytest.raises(InputError, match="fan-out"):
        parse_via("local", LaunchOptions(fan_out=0))


def test_no_secret_stands_in_an_argument_vector() -> None:
    payload = new_payload(lease_s=5)
    for launcher in (LocalLauncher(), SshLauncher(), ExecLauncher("env {target}")):
        argv = launcher.argv(host_of("h"), payload.command("python3"))
        assert payload.nonce not in " ".join(argv)


DROPS_TWICE = """#!/bin/sh
# An ssh whose server drops the first two logins, as one under MaxStartups does.
case " $* " in *" -G "*) exit 0 ;; esac
test -e "$0.twice" && { shift $(($# - 1)); exec sh -c "$1"; }
test -e "$0.once" && touch "$0.twice" || touch "$0.once"
echo "kex_exchange_identification: Connection closed by remote host" >&2
exit 255
"""


def test_logins_that_are_dropped_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_launcher, "RETRY_DELAY_S", 0.05)
    program = tmp_path / "ssh"
    program.write_text(DROPS_TWICE)
    program.chmod(0o755)
    payload = new_payload(lease_s=5, python=sys.executable)

    async def outcomes() -> list[Channel | LaunchFailure]:
        launcher = SshLauncher(program=str(program))
        found = [outcome async for outcome in launcher.launch(hosts_named("a"), payload, 120)]
        for outcome in found:
            if not isinstance(outcome, LaunchFailure):
                outcome.kill()
        return found

    (outcome,) = asyncio.run(outcomes())
    assert not isinstance(outcome, LaunchFailure), outcome.reason
    assert (tmp_path / "ssh.twice").exists()


@pytest.mark.parametrize(
    ("config", "jump"),
    [
        ("host h1\nproxyjump bastion\n", "bastion"),
        ("ProxyJump me@a:22,b\n", "me@a:22"),
        ("proxyjump none\n", None),
        ("", None),
    ],
)
def test_the_first_jump_host_is_the_route(config: str, jump: str | None) -> None:
    assert first_jump(config) == jump


def test_at_most_eight_logins_at_a_time_go_through_one_jump_host(tmp_path: Path) -> None:
    """The stand-in counts how many of it run at once, and never starts an agent."""
    program = tmp_path / "ssh"
    program.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" -G "*) echo "proxyjump bastion"; exit 0 ;; esac\n'
        f'mkdir {tmp_path}/$$; ls {tmp_path} | grep -c "^[0-9]*$" >>{tmp_path}/counts\n'
        f"sleep 0.2; rmdir {tmp_path}/$$; exit 1\n"
    )
    program.chmod(0o755)

    async def main() -> int:
        launcher = SshLauncher(program=str(program), fan_out=32)
        outcomes = launcher.launch(hosts_named(*(f"h{i}" for i in range(24))), new_payload(lease_s=60), 120)
        return len([outcome async for outcome in outcomes if isinstance(outcome, LaunchFailure)])

    assert asyncio.run(main()) == 24
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 24 and 2 <= max(counts) <= 8


def test_too_many_hosts_for_the_open_file_limit_is_said_before_anything_starts() -> None:
    with pytest.raises(PlatformError, match="ulimit -n"):
        allow_descriptors(2**40)


@pytest.mark.parametrize("target", ["x;y", "$(id)", "a b", "`id`", "a|b", "a&b", "a'b", 'a"b', "a>b", "a\\b"])
def test_a_target_that_a_proxy_commands_shell_would_read_is_refused(target: str) -> None:
    with pytest.raises(InputError, match="ssh target"):
        SshLauncher().check([make_host("a", target=target)])


@pytest.mark.parametrize("target", ["host", "user@host.example", "ssh://user@[fd00::1]:22", "fe80::1%eth0"])
def test_usual_targets_are_taken(target: str) -> None:
    SshLauncher().check([make_host("a", target=target)])


@pytest.mark.parametrize(
    "template", ["ssh jump ip netns exec {target}", "sh -c 'nsenter {target} {command}'"]
)
def test_a_template_whose_words_a_shell_reads_takes_harmless_targets_only(template: str) -> None:
    with pytest.raises(InputError, match="a shell at the far end"):
        ExecLauncher(template).check([make_host("a", target="x; touch /tmp/pwned;"), make_host("b")])
    ExecLauncher(template).check([make_host("a", target="user@x"), make_host("b")])

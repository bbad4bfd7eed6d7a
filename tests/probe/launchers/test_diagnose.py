"""What programs print when they fail, and the one line that becomes of it."""

from __future__ import annotations

import pytest

from netprobe.probe.launchers.diagnose import explain

CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("stderr", "code", "said"),
    [
        ("No ED25519 host key is known for h1 and you have requested strict checking.\r\n"
         "Host key verification failed.\r\n", 255, "host key is unknown: log in once by ssh"),
        (CHANGED, 255, "host key has changed .* 'ssh-keygen -R h1'"),
        ("root@h1: Permission denied (publickey,password).\n", 255, "permission denied: ssh must log in"),
        ("ssh: Could not resolve hostname h1: Name or service not known\n", 255, "its name h1 cannot be"),
        ("ssh: connect to host h1 port 22: Connection refused\n", 255, "refused: does sshd run there"),
        ("ssh: connect to host h1 port 22: Connection timed out\n", 255, "timed out"),
        ("ssh: connect to host h1 port 22: No route to host\n", 255, "no route"),
        ("bash: line 1: exec: python3: not found\n", 127, r"no Python on the host \(python3 not found\): install"),
        ("sh: 1: exec: python3: not found\n", 127, "no Python"),
        ('exec of "python3" failed: No such file or directory\n', 255, "no Python"),
        ("nsenter: failed to execute python3: No such file or directory\n", 127, "no Python"),
        ('OCI runtime exec failed: exec failed: unable to start: exec: "python3": executable file not found in'
         " $PATH: unknown\n", 126, "no Python"),
        ('Cannot open network namespace "h1": No such file or directory\n', 255, "no network namespace h1"),
        ("nsenter: cannot open /run/netns/h1: No such file or directory\n", 1, "no network namespace h1"),
        ("netprobe: this is Python 3.6, and 3.8 or later is needed\n", 3, "Python 3.6 is too old"),
        ("Unknown option: -I\nusage: python [option]\n", 2, "version 2"),
        ("command-line: line 0: Bad configuration option: nonsense\n", 255, "refuses an option: nonsense"),
        ("Can't open user config file /x/y: No such file or directory\n", 255, "configuration /x/y cannot"),
        ("something else\nlast words\n", 9, r"the agent ended \(exit code 9\): last words"),
        ("----\nORTE was unable to start\na daemon\n----\n", 1, r"\(exit code 1\): ORTE was unable to start$"),
        ("said before\n====\n", 1, r"\(exit code 1\): said before$"),
        ("", -9, r"the agent ended \(killed by signal 9\)"),
    ],
)  # fmt: skip
def test_each_failure_is_one_clear_line(stderr: str, code: int, said: str) -> None:
    import re

    found = explain(
        stderr=stderr, stdout="", code=code, target="h1", python="python3", cause="the agent ended"
    )
    assert re.search(said, found.reason), found.reason
    assert "\n" not in found.reason and not found.retry


@pytest.mark.parametrize(
    "stderr",
    [
        "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.1 port 22\n",
        "kex_exchange_identification: read: Connection reset by peer\n",
        "ssh_exchange_identification: Connection closed by remote host\n",
        "Not allowed at this time\n",
    ],
)
def test_logins_that_a_busy_sshd_dropped_are_tried_again(stderr: str) -> None:
    found = explain(stderr=stderr, stdout="", code=255, target="h", python="python3", cause="ended")
    assert found.retry and "MaxStartups" in found.reason


@pytest.mark.parametrize(
    ("stderr", "said", "retry"),
    [
        (
            "sh: 1: no-such-proxy: not found\nkex_exchange_identification: Connection closed by remote host\n"
            "Connection closed by UNKNOWN port 65535\n",
            "its ProxyCommand or jump host failed: sh: 1: no-such-proxy: not found",
            False,
        ),
        (
            "channel 0: open failed: administratively prohibited: open failed\nstdio forwarding failed\n"
            "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535\n",
            "its ProxyCommand or jump host failed: stdio forwarding failed",
            False,
        ),
        (
            "ssh: connect to host 10.0.0.9 port 9: Connection refused\n"
            "kex_exchange_identification: Connection closed by remote host\n",
            "its jump host: connection refused: does sshd run there, and on this port?",
            False,
        ),
        (
            "channel 0: open failed: connect failed: No route to host\nstdio forwarding failed\n"
            "Connection closed by UNKNOWN port 65535\n",
            "seen from its jump host: no route to it",
            False,
        ),
        (
            "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535\n",
            "its ProxyCommand or jump host ended before sshd answered",
            True,
        ),
    ],
)
def test_a_proxy_that_fails_is_not_blamed_on_sshd(stderr: str, said: str, retry: bool) -> None:
    found = explain(stderr=stderr, stdout="", code=255, target="h", python="python3", cause="ended")
    assert (found.reason, found.retry) == (said, retry)


def test_a_jump_host_that_drops_logins_is_tried_again() -> None:
    stderr = (
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.9 port 22\n"
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535\n"
    )
    found = explain(stderr=stderr, stdout="", code=255, target="h", python="python3", cause="ended")
    assert found.retry and "MaxStartups" in found.reason


def test_terminal_codes_of_a_host_do_not_reach_the_reader() -> None:
    found = explain(
        stderr="\x1b[31mred\x07\n", stdout="", code=1, target="h", python="python3", cause="ended"
    )
    assert found.reason.isprintable()

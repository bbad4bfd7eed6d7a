"""Pods as hosts: a scan through a stand-in for kubectl from start to end, and kubectl's errors in a line each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netprobe.cli.entry import run
from netprobe.core.errors import InputError
from netprobe.core.hosts import make_host
from netprobe.probe.launchers import kubectl as kubectl_module
from netprobe.probe.launchers.kubectl import KubectlLauncher
from netprobe.probe.launchers.via import LaunchOptions, parse_via
from tests.probe import kubectl_stand_in

Capture = pytest.CaptureFixture[str]

NO_PYTHON = (
    "error: Internal error occurred: error executing command in container: failed to exec in container: failed to "
    'start exec "5e0a": OCI runtime exec failed: exec failed: unable to start container process: exec: "python3": '
    "executable file not found in $PATH: unknown"
)
FORBIDDEN = (
    'Error from server (Forbidden): pods "w-4" is forbidden: User "system:serviceaccount:training:viewer" cannot '
    'create resource "pods/exec" in API group "" in the namespace "training"'
)
LOG = (
    'E1128 06:35:36.713807   24321 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API group '
    'list: Get \\"http://localhost:8080/api?timeout=32s\\": dial tcp 127.0.0.1:8080: connect: connection refused"\n'
)


def pod(name: str, phase: str = "Running", address: str | None = None, **status: Any) -> dict[str, Any]:
    """A pod as the API server describes one, the parts that netprobe does not read among it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": "2026-11-20T09:12:44Z",
            "generateName": "w-",
            "labels": {"app": "worker", "controller-revision-hash": "6bb8d9c9f5"},
            "name": name,
            "namespace": "training",
            "uid": "0d1a3f0e-8a4f-4a53-9c0f-1f7f4f2b9a11",
        },
        "spec": {
            "containers": [{"image": "python:3.12-slim", "name": "agent", "resources": {}}],
            "nodeName": f"node-{name}.example.com",
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists"}
            ],
        },
        "status": {
            "conditions": [{"lastProbeTime": None, "status": "True", "type": "Ready"}],
            "phase": phase,
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
            **status,
        },
    }


UNSCHEDULED = [
    {
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
    }
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A cluster of which kubectl knows; change it and ``save`` it before a call."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -IS\nexec(open({kubectl_stand_in.__file__!r}).read())\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECTL_WORLD", str(tmp_path / "world"))
    return {
        "context": "lab",
        "namespace": "training",
        "selector": "app=worker",
        "containers": ["agent", "sidecar"],
        "list": [],
        "refuse": {},
        "calls": str(tmp_path / "calls"),
    }


def save(world: dict[str, Any]) -> None:
    Path(os.environ["KUBECTL_WORLD"]).write_text(json.dumps(world))


def scan(folder: Path, *args: str) -> int:
    return run(["scan", "--via", "kubectl", "--out", str(folder), "--only", "scan", "--probes", "20", *args])


def test_the_pods_of_a_label_are_scanned_and_the_others_are_named(
    world: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    world["list"] = [pod(f"w-{i}", address=f"127.0.9.{i + 1}") for i in range(5)]
    world["list"] += [pod("w-5", "Pending", conditions=UNSCHEDULED), pod("w-6", "Succeeded", "127.0.9.7")]
    world["refuse"] = {"w-3": [NO_PYTHON, 126], "w-4": [FORBIDDEN, 1]}
    save(world)
    code = scan(tmp_path / "out", "--selector", "app=worker", "--context", "lab", "--namespace", "training")
    said = capsys.readouterr().err
    assert code == 3, said
    assert "left out, since they have ended: w-6 (Succeeded)" in said
    document = json.loads((tmp_path / "out" / "scan.json").read_text())
    hosts = {host["name"]: host for host in document["hosts"]}
    assert {name: host["status"] for name, host in hosts.items()} == {
        "w-0": "ok", "w-1": "ok", "w-2": "ok", "w-3": "unreachable", "w-4": "unreachable", "w-5": "unreachable",
    }  # fmt: skip
    assert hosts["w-1"]["address"] == "127.0.9.2" and hosts["w-1"]["launcher_name"] == "w-1"
    assert hosts["w-1"]["labels"] == {"node": "node-w-1.example.com"}
    assert len([cell for row in document["rtt_s"]["p10"] for cell in row if cell is not None]) == 6
    assert hosts["w-3"]["reason"].startswith("no Python on the host (python3 not found)")
    assert hosts["w-4"]["reason"] == (
        "user system:serviceaccount:training:viewer is not allowed to create pods/exec in namespace training: "
        "a Role needs get and list of pods, and create of pods/exec"
    )
    assert hosts["w-5"]["reason"] == (
        "its pod is Pending: Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    )
    calls = [json.loads(line) for line in Path(world["calls"]).read_text().splitlines()]
    executed = [call for call in calls if "exec" in call]
    assert sorted(call[4] for call in executed) == ["w-0", "w-1", "w-2", "w-3", "w-4"]
    assert all(call[:4] == ["--context=lab", "--namespace=training", "exec", "-i"] for call in executed)
    assert all(call[5:9] == ["--", "python3", "-ISB", "-c"] and len(call) == 10 for call in executed)


def test_pods_by_name_and_a_container_are_passed_on(
    world: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    save(world)
    (tmp_path / "hosts").write_text("a target=w-0 address=127.0.9.11\nb target=w-1 address=127.0.9.12\n")
    hosts = ("--hosts", str(tmp_path / "hosts"), "--namespace", "training")
    assert scan(tmp_path / "out", *hosts, "--container", "sidecar") == 0, capsys.readouterr().err
    capsys.readouterr()
    assert scan(tmp_path / "no", *hosts, "--container", "none") == 4
    assert "a: its pod has no container none (--container)" in capsys.readouterr().err.splitlines()
    assert scan(tmp_path / "no", "--selector", "app=worker", "--context", "nope") == 2
    assert capsys.readouterr().err == (
        "netprobe: kubectl cannot list the pods of 'app=worker': kubectl has no context nope: see "
        "'kubectl config get-contexts', and give --context\n"
    )
    assert scan(tmp_path / "no", "--hosts", "k8s:app=worker") == 2
    assert capsys.readouterr().err == "netprobe: kubectl: no pod has that label (--namespace, --context)\n"


def test_doctor_asks_every_pod_of_a_label(world: dict[str, Any], capsys: Capture) -> None:
    world["list"] = [pod("w-0", address="127.0.9.21"), pod("w-1", "Pending", conditions=UNSCHEDULED)]
    save(world)
    argv = ["doctor", "--via", "kubectl", "--namespace", "training", "--selector", "app=worker"]
    code, said = run(argv), capsys.readouterr()
    assert code == 3, said.err
    assert "w-1" in said.out and "its pod is Pending: Unschedulable" in said.out


@pytest.mark.parametrize(
    ("stderr", "reason", "retry"),
    [
        ('Error from server (NotFound): pods "w-0" not found', "there is no pod w-0 in namespace ns", False),
        ('Error from server (NotFound): namespaces "ns" not found', "there is no namespace ns", False),
        (f'error: unable to upgrade connection: {FORBIDDEN.partition(": ")[2]}', "user system:serviceaccount:", False),
        ("Error from server (BadRequest): container x is not valid for pod w-0", "its pod has no container x", False),
        ('error: Internal error occurred: unable to upgrade connection: container not found ("agent")',
         "its container agent is not running: see 'kubectl describe pod w-0'", True),
        ("error: cannot exec into a container in a completed pod; current phase is Succeeded",
         "its pod has ended (Succeeded)", False),
        ("Error from server (BadRequest): pod w-0 does not have a host assigned", "its pod is not running yet", True),
        ("Error from server: error dialing backend: dial tcp 10.0.0.3:10250: connect: connection refused",
         "the API server does not reach the kubelet of its node", True),
        ("error: You must be logged in to the server (Unauthorized)", "the API server does not know this user", False),
        ("Please enter Username: error: EOF", "the API server does not know this user", False),
        ('error: context "nope" does not exist', "kubectl has no context nope", False),
        ('error: error loading config file "/tmp/bad": yaml: line 1: did not find expected node content',
         "kubectl cannot use its configuration: error: error loading", False),
        (LOG * 4 + "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
         "the API server cannot be reached: The connection to the server localhost:8080 was refused", False),
        ("Unable to connect to the server: dial tcp: lookup c.example.com: no such host",
         "the API server cannot be reached: Unable to connect", False),
        ("Unable to connect to the server: net/http: TLS handshake timeout", "the API server cannot be reached", False),
        ('Defaulted container "a" out of: a, b\ncommand terminated with exit code 137', "the stream ended", False),
        ("Defaulted container \"a\" out of: a\nerror: exec: \"/opt/py3\": stat /opt/py3: no such file or directory",
         "no Python on the host (/opt/py3 not found)", False),
    ],
)  # fmt: skip
def test_what_kubectl_says_is_one_clear_line(stderr: str, reason: str, retry: bool) -> None:
    launcher = KubectlLauncher(namespace="ns")
    found = launcher.explain(
        make_host("w-0"), stderr=stderr, stdout="", code=1, python="/opt/py3", cause="the stream ended"
    )
    assert found.reason.startswith(reason)
    assert found.retry == retry and "\n" not in found.reason


@given(st.text(max_size=40))
def test_no_name_becomes_an_option_or_more_than_a_word(text: str) -> None:
    try:
        launcher = KubectlLauncher(context=text, namespace="n")
    except InputError:
        pass
    else:
        assert launcher.argv(make_host("p"), ["py"]) == [
            "kubectl", f"--context={text}", "--namespace=n", "exec", "-i", "p", "--", "py",
        ]  # fmt: skip
    for fields in ({"namespace": text}, {"container": text}):
        try:
            KubectlLauncher(namespace=fields.get("namespace"), container=fields.get("container"))
        except InputError as error:
            assert str(error).isprintable()
        else:
            assert text.replace("-", "").isalnum() and text.isascii() and text[0] != "-"


def test_bad_input_is_refused_before_kubectl_runs(tmp_path: Path) -> None:
    launcher = KubectlLauncher(program=sys.executable)
    with pytest.raises(
        InputError, match=r"host 'a': its target must be a pod's name, and 'A\\x1b' is not valid"
    ):
        launcher.check([make_host("a").model_copy(update={"target": "A\x1b"})])
    for selector in ("", "  ", "a=b\n", "a;b", "x" * 1025):
        with pytest.raises(InputError, match="label selector"):
            launcher.list_pods(selector)
    with pytest.raises(InputError, match="no such file"):
        parse_via("kubectl", LaunchOptions(kubeconfig=tmp_path / "none"))
    with pytest.raises(InputError, match="--namespace goes with --via kubectl"):
        parse_via("ssh", LaunchOptions(namespace="n"))


def test_a_list_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setattr(kubectl_module, "MAX_LIST_BYTES", 1 << 20)
    with pytest.raises(InputError, match="printed more than 1 MiB: choose fewer pods"):
        KubectlLauncher(program=str(program)).list_pods("a=b")
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(kubectl_module, "LIST_TIMEOUT_S", 0.3)
    with pytest.raises(InputError, match="did not end within"):
        KubectlLauncher(program=str(program)).list_pods("a=b")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_real_kubectl_knows_every_option_that_is_used(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=30, env=env)
        return done.stdout + done.stderr

    env = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": ""}
    of_all, of_exec, of_get = said("options"), said("exec", "--help"), said("get", "--help")
    assert all(
        f"{option}=" in of_all for option in ("--context", "--namespace", "--kubeconfig", "--request-timeout")
    )
    assert "-c, --container=" in of_exec and "-i, --stdin=" in of_exec
    assert "-l, --selector=" in of_get and "-o, --output=" in of_get
    with pytest.raises(InputError, match="kubectl has no context no-such-context"):
        KubectlLauncher(context="no-such-context").list_pods("a=b")


def test_the_container_that_lacks_python_is_named() -> None:
    lacks = 'error: exec: "python3": executable file not found in $PATH'
    found = {
        container: KubectlLauncher(container=container).explain(
            make_host("w-0"), stderr=lacks, stdout="", code=1, python="python3", cause="x"
        )
        for container in (None, "proxy")
    }
    assert found["proxy"].reason.endswith("it was looked for in the container proxy")
    assert found[None].reason.endswith("--container NAME")
    # With set-up lines a shell is what does not find it.
    said = KubectlLauncher().explain(
        make_host("w-0"),
        stderr='Defaulted container "proxy" out of: proxy, main, first (init)\nsh: python3: not found',
        stdout="",
        code=127,
        python="python3",
        cause="x",
    )
    assert said.reason.endswith("in proxy, the default container: give --container main")

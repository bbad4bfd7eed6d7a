"""Manifests for Kubernetes: read back, and as restricted as they say."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer.main
import yaml
from hypothesis import given
from hypothesis import strategies as st

from netprobe.core.errors import InputError
from netprobe.formats.kubernetes_manifest import (
    DEFAULT_IMAGE,
    IDLE,
    ManifestOptions,
    manifest_objects,
    manifest_text,
    parse_node_selector,
    parse_toleration,
)

HOSTILE = [
    "",
    "A",
    "a_b",
    "-a",
    "a-",
    "a b",
    "a\nb",
    "a: b",
    "*",
    "a" * 300,
    "\x1b[2J",
    "{{x}}",
    "é",
    "a\u202eb",
]


def both(**options: Any) -> dict[str, Any]:
    """The manifest with the Job, read back, by kind."""
    made = ManifestOptions(job=True, job_image="scan:1", **options)
    read = list(yaml.safe_load_all(manifest_text(made)))
    assert read == manifest_objects(made)
    return {one["kind"]: one for one in read}


def made(option: str, value: Any) -> ManifestOptions:
    """The options with the Job and one more."""
    fields: dict[str, Any] = {"job": True, "job_image": "x", option: value}
    return ManifestOptions(**fields)


def test_the_objects_fit_together() -> None:
    objects = both(name="np", namespace="training")
    assert list(objects) == ["DaemonSet", "ServiceAccount", "Role", "RoleBinding", "Job"]
    assert {one["metadata"]["namespace"] for one in objects.values()} == {"training"}
    daemon_set, binding, job = objects["DaemonSet"]["spec"], objects["RoleBinding"], objects["Job"]["spec"]
    labels = daemon_set["template"]["metadata"]["labels"]
    assert daemon_set["selector"]["matchLabels"] == labels
    account = objects["ServiceAccount"]["metadata"]["name"]
    assert binding["roleRef"]["name"] == objects["Role"]["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "training"}]
    assert job["template"]["spec"]["serviceAccountName"] == account
    # The Job scans the DaemonSet's pods and not its own.
    (container,) = job["template"]["spec"]["containers"]
    (selector,) = [word for word in container["command"] if word.startswith("--selector=")]
    wanted = dict(part.split("=") for part in selector.removeprefix("--selector=").split(","))
    assert wanted.items() <= labels.items()
    assert not wanted.items() <= job["template"]["metadata"]["labels"].items()


def test_the_job_gives_scan_options_that_it_has() -> None:
    from netprobe.cli.app import app

    (container,) = both()["Job"]["spec"]["template"]["spec"]["containers"]
    program, command, *words = container["command"]
    assert (program, command) == ("netprobe", "scan")
    known = typer.main.get_command(app).commands["scan"]  # type: ignore[attr-defined]
    context = known.make_context("scan", list(words))
    assert context.params["via"] == "kubectl" and context.params["namespace"] == "default"


def test_the_rights_are_those_of_two_calls_in_one_namespace() -> None:
    objects = both()
    assert objects["Role"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    ]
    assert objects["DaemonSet"]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("kind", ["DaemonSet", "Job"])
def test_pods_keep_to_the_restricted_standard(kind: str) -> None:
    spec = both()[kind]["spec"]["template"]["spec"]
    assert spec["hostNetwork"] is False and not {"hostPID", "hostIPC"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= set(container["resources"])
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    assert not any("hostPath" in volume for volume in volumes.values())
    # The agent writes nowhere; kubectl's cache is in memory.
    assert list(volumes) == ([] if kind == "DaemonSet" else ["scratch", "results"])
    assert kind == "DaemonSet" or volumes["scratch"]["emptyDir"]["medium"] == "Memory"


def test_what_is_asked_for_is_in_it() -> None:
    options = ManifestOptions(
        host_network=True,
        node_selector=parse_node_selector(["example.com/gpu=true", "zone=1e3"]),
        tolerations=[
            parse_toleration(text)
            for text in ("nvidia.com/gpu=present:NoSchedule", "spot", "all", "a=:NoExecute")
        ],
    )
    (daemon_set,) = yaml.safe_load_all(manifest_text(options))
    spec = daemon_set["spec"]["template"]["spec"]
    assert spec["hostNetwork"] is True
    assert spec["nodeSelector"] == {"example.com/gpu": "true", "zone": "1e3"}  # text, not true and 1000.0
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
        {"operator": "Exists"},
        {"key": "a", "operator": "Equal", "value": "", "effect": "NoExecute"},
    ]
    assert spec["containers"][0]["image"] == DEFAULT_IMAGE
    claim = ManifestOptions(job=True, job_image="x", claim="results")
    assert {"name": "results", "persistentVolumeClaim": {"claimName": "results"}} in manifest_objects(claim)[
        -1
    ]["spec"]["template"]["spec"]["volumes"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_are_refused(hostile: str) -> None:
    for option in ("name", "namespace", "claim"):
        with pytest.raises(InputError, match=f"--{option}") as caught:
            made(option, hostile)
        assert str(caught.value).isprintable()
    if not hostile.replace("_", "").isalnum() or not hostile.isascii():
        with pytest.raises(InputError):
            ManifestOptions(image=hostile + "\n")
        with pytest.raises(InputError):
            ManifestOptions(node_selector={"key": hostile + "-"})
        with pytest.raises(InputError, match="--toleration"):
            parse_toleration(hostile + ":")


def test_options_that_do_not_fit_are_refused_all_at_once() -> None:
    with pytest.raises(InputError, match=r"--namespace 'B' is not .*; --job-image and --claim go with --job"):
        ManifestOptions(namespace="B", claim="x")
    with pytest.raises(InputError, match="--job needs --job-image IMAGE"):
        ManifestOptions(job=True)
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_node_selector(["a"])


@given(st.text(max_size=70), st.text(max_size=70), st.text(max_size=30))
def test_whatever_is_accepted_reads_back_the_same(name: str, image: str, label: str) -> None:
    values: dict[str, Any] = {"name": name, "image": image, "node_selector": {"k": label}, "namespace": label}
    for option, value in (*values.items(), ("tolerations", label)):
        try:
            options = made(option, [parse_toleration(value)] if option == "tolerations" else value)
        except InputError as error:
            assert str(error).isprintable()
        else:
            text = manifest_text(options)
            assert list(yaml.safe_load_all(text)) == manifest_objects(options)
            assert text.replace("\n", "").isprintable()


def test_the_idle_process_ends_when_it_is_told_to() -> None:
    """Also as process 1, which the kernel spares every signal that it has not asked for."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    able = subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0
    # The inner shell is not process 1 itself: it starts the idle one, and ends it.
    idle = shlex.join([os.path.realpath(sys.executable), "-ISB", "-c", IDLE])
    if able:
        script = f"({{ sleep 0.5; kill -TERM 1; }} &) ; exec {idle}"
        argv = [*alone, "sh", "-c", script]
    else:
        argv = ["sh", "-c", f"{idle} & sleep 0.5; kill -TERM $!; wait $!"]
    assert subprocess.run(argv, timeout=20).returncode == 0


def test_the_command_prints_it() -> None:
    argv = [sys.executable, "-m", "netprobe", "manifest", "kubernetes"]
    done = subprocess.run(
        [*argv, "--namespace", "gpu", "--host-network"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout == manifest_text(
        ManifestOptions(namespace="gpu", host_network=True)
    )
    done = subprocess.run([*argv, "--name", "\x1b]0;x"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("netprobe: manifest: --name '\\x1b]0;x' is not")

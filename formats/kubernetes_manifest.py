"""Manifests for Kubernetes: idle pods on the nodes for a scan from outside, and a Job that scans them from inside.

Without the host's network the pods keep to the Pod Security Standard "restricted". netprobe needs no privilege,
no capability and nothing to write to: the agent lives in an anonymous file in memory (memfd), so not even /tmp is
mounted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from netprobe.core.errors import InputError
from netprobe.core.kubernetes import (
    image_fault,
    label_fault,
    label_key_fault,
    label_value_fault,
    subdomain_fault,
)

DEFAULT_IMAGE = "python:3.12-slim"
APP_LABEL = "app.kubernetes.io/name"
ROLE_LABEL = "app.kubernetes.io/component"
USER_ID = 65532
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RESULTS = "/results"
SCRATCH = "/tmp"
IDLE = (
    "import signal as s; s.signal(s.SIGCHLD, s.SIG_IGN); "
    "s.pthread_sigmask(s.SIG_BLOCK, [s.SIGTERM]); s.sigwait([s.SIGTERM])"
)
"""Waits to be ended, and collects what agents leave behind: it is process 1 of its container."""

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ManifestOptions:
    """The options of a manifest. Raises InputError that lists every fault at once."""

    name: str = "netprobe"
    namespace: str = "default"
    image: str = DEFAULT_IMAGE
    host_network: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, str]] = ()
    job: bool = False
    job_image: str | None = None
    """An image with netprobe and kubectl in it."""
    claim: str | None = None
    """PersistentVolumeClaim for the results of the Job; without one they end with its pod."""

    def __post_init__(self) -> None:
        faults = [*self._faults()]
        if faults:
            raise InputError("manifest: " + "; ".join(faults))

    def _faults(self) -> Sequence[str]:
        found = [f"--name {fault}" for fault in [label_fault(self.name)] if fault]
        # A label's value and the names of what is made out of the name have the same limit.
        found += ["--name is longer than 50 characters"] if not found and len(self.name) > 50 else []
        found += [f"--namespace {fault}" for fault in [label_fault(self.namespace)] if fault]
        found += [f"--image {fault}" for fault in [image_fault(self.image)] if fault]
        if self.job and self.job_image is None:
            found.append(
                "--job needs --job-image IMAGE, an image with netprobe and kubectl (netprobe docs launchers)"
            )
        if not self.job and (self.job_image is not None or self.claim is not None):
            found.append("--job-image and --claim go with --job")
        if self.job_image is not None and (fault := image_fault(self.job_image)):
            found.append(f"--job-image {fault}")
        if self.claim is not None and (fault := subdomain_fault(self.claim)):
            found.append(f"--claim {fault}")
        for key, value in self.node_selector.items():
            found += [f"--node-selector {f}" for f in (label_key_fault(key), label_value_fault(value)) if f]
        return found


def parse_node_selector(texts: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` each. Raises InputError."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--node-selector {text[:60]!a} is not KEY=VALUE")
        found[key] = value
    return found


def parse_toleration(text: str) -> dict[str, str]:
    """``KEY[=VALUE][:EFFECT]``, as kubectl writes a taint, or ``all`` for every taint. Raises InputError."""
    if text == "all":
        return {"operator": "Exists"}
    rest, colon, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    fault = label_key_fault(key) or label_value_fault(value)
    if fault is None and colon and effect not in EFFECTS:
        fault = f"effect {effect[:60]!a} is not one of {', '.join(EFFECTS)}"
    if fault is not None:
        raise InputError(f"--toleration {fault}: write KEY[=VALUE][:EFFECT], or all")
    found = (
        {"key": key, "operator": "Equal", "value": value} if equals else {"key": key, "operator": "Exists"}
    )
    return found | ({"effect": effect} if colon else {})


def manifest_objects(options: ManifestOptions) -> list[Object]:
    """The objects in the order in which they are to be made."""
    objects = [_daemon_set(options)]
    return objects + _job_objects(options) if options.job else objects


def manifest_text(options: ManifestOptions) -> str:
    """YAML, a document an object, with a note on what to do with it."""
    scan = f"netprobe scan --via kubectl --namespace {options.namespace} --selector {agent_selector(options)}"
    after = f"kubectl -n {options.namespace} logs -f job/{options.name}-scan" if options.job else scan
    network = "the nodes' own network" if options.host_network else "the pods' network"
    head = f"# kubectl apply -f FILE; {after}; kubectl delete -f FILE\n# Measures {network}.\n"
    return head + yaml.safe_dump_all(manifest_objects(options), sort_keys=False, width=1000)


def agent_selector(options: ManifestOptions) -> str:
    """The label selector of the pods that are probed."""
    return f"{APP_LABEL}={options.name},{ROLE_LABEL}=agent"


def _metadata(options: ManifestOptions, suffix: str, component: str) -> Object:
    return {
        "name": options.name + suffix,
        "namespace": options.namespace,
        "labels": {APP_LABEL: options.name, ROLE_LABEL: component},
    }


def _pod(component: str, options: ManifestOptions, container: Object, **spec: Any) -> Object:
    """A pod's template: as restricted as its one container allows."""
    return {
        "metadata": {"labels": {APP_LABEL: options.name, ROLE_LABEL: component}},
        "spec": {
            **spec,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "runAsGroup": USER_ID,
                "fsGroup": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    **container,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "privileged": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def _daemon_set(options: ManifestOptions) -> Object:
    container = {
        "name": "agent",
        "image": options.image,
        "command": ["python3", "-ISB", "-c", IDLE],
        # No limit of the processor: throttling would show in the readings.
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
    }
    placing: Object = {"nodeSelector": dict(options.node_selector)} if options.node_selector else {}
    placing |= {"tolerations": [dict(one) for one in options.tolerations]} if options.tolerations else {}
    labels = {APP_LABEL: options.name, ROLE_LABEL: "agent"}
    pod = _pod(
        "agent",
        options,
        container,
        hostNetwork=options.host_network,
        automountServiceAccountToken=False,
        terminationGracePeriodSeconds=2,
        **placing,
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(options, "", "agent"),
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }


def _job_objects(options: ManifestOptions) -> list[Object]:
    """What may list the pods and start agents in them, in this namespace and nowhere else, and the Job that does."""
    account = options.name + "-scan"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    ]
    of_rbac = "rbac.authorization.k8s.io"
    binding = {
        "roleRef": {"apiGroup": of_rbac, "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": options.namespace}],
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(options, "-scan", "scan"),
         "automountServiceAccountToken": False},
        {"apiVersion": f"{of_rbac}/v1", "kind": "Role", "metadata": _metadata(options, "-scan", "scan"),
         "rules": rules},
        {"apiVersion": f"{of_rbac}/v1", "kind": "RoleBinding", "metadata": _metadata(options, "-scan", "scan"),
         **binding},
        _job(options, account),
    ]  # fmt: skip


def _job(options: ManifestOptions, account: str) -> Object:
    """One scan, tried once. Its JSON is in the log; kubectl keeps its cache in memory."""
    command = ["netprobe", "scan", "--via", "kubectl", f"--namespace={options.namespace}"]
    command += [f"--selector={agent_selector(options)}", f"--out={RESULTS}/scan", "--json"]
    container = {
        "name": "scan",
        "image": options.job_image,
        "command": command,
        "env": [{"name": "HOME", "value": SCRATCH}],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH},
            {"name": "results", "mountPath": RESULTS},
        ],
    }
    results: Object = {"emptyDir": {"sizeLimit": "1Gi"}}
    if options.claim is not None:
        results = {"persistentVolumeClaim": {"claimName": options.claim}}
    pod = _pod(
        "scan",
        options,
        container,
        hostNetwork=False,
        serviceAccountName=account,
        automountServiceAccountToken=True,
        restartPolicy="Never",
        volumes=[
            {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "results", **results},
        ],
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(options, "-scan", "scan"),
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 3600, "template": pod},
    }

"""The pods of a Kubernetes list, as ``kubectl get pods -o json`` prints it."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from netprobe.core.errors import HostsError
from netprobe.core.hosts import MAX_HOSTS, Host, check_hosts, is_ip_address, make_host
from netprobe.core.kubernetes import subdomain_fault
from netprobe.core.text import one_line

ENDED = ("Succeeded", "Failed")
RUNNING = "Running"
NODE_LABEL = "node"
_MAX_WORD = 63
_MAX_WHY = 160


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod. ``phase`` is the API's, or Terminating; ``why`` is what the API adds to a phase but Running."""

    name: str
    phase: str
    why: str = ""
    address: str | None = None
    node: str | None = None
    others: tuple[str, ...] = ()
    """Its addresses of the other family (``podIPs``)."""

    @property
    def not_running(self) -> str | None:
        """Why no agent can be started in it; None when one may be."""
        if self.phase == RUNNING:
            return None
        return f"its pod is {self.phase}" + (f": {self.why}" if self.why else "")


def parse_pods(text: str | bytes, *, source: str = "kubectl") -> tuple[Pod, ...]:
    """The pods of a list. Raises HostsError for anything else, naming the place."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise HostsError("not JSON: a list of pods is needed", source=source) from None
    if not isinstance(data, dict) or data.get("kind") not in ("List", "PodList"):
        raise HostsError("no list of pods (its kind must be List)", source=source)
    items = data.get("items")
    if not isinstance(items, list):
        raise HostsError("a list of pods without items", source=source)
    if len(items) > MAX_HOSTS:
        raise HostsError(f"{len(items)} pods: at most {MAX_HOSTS} are allowed", source=source)
    return tuple(_pod(item, f"{source}: items[{place}]") for place, item in enumerate(items))


def pod_hosts(pods: Sequence[Pod], *, source: str = "kubectl") -> tuple[Host, ...]:
    """A host for each pod that has not ended: named as the pod, probed at its address, labelled with its node.

    The address is the pod's first one, or of the family that all pods have where the first ones differ in family.
    Raises HostsError when none is left, and for two pods with one address: they share a node's network.
    """
    living = [pod for pod in pods if pod.phase not in ENDED]
    if not living:
        ended = ", ".join(f"{pod.name} ({pod.phase})" for pod in pods[:3])
        what = f"all {len(pods)} have ended: {ended}" if pods else "no pod has that label"
        raise HostsError(f"{what} (--namespace, --context)", source=source)
    family = _family([pod for pod in living if pod.phase == RUNNING])
    return check_hosts(
        [
            make_host(
                pod.name,
                source=source,
                address=_address(pod, family) if pod.phase == RUNNING else None,
                labels={} if pod.node is None else {NODE_LABEL: pod.node},
            )
            for pod in living
        ],
        source=source,
    )


def _family(pods: Sequence[Pod]) -> int | None:
    """The family that all pods have an address of, where their first addresses differ in it; else None."""
    if len({_version(pod.address) for pod in pods if pod.address is not None}) < 2:
        return None
    families = [{_version(text) for text in (pod.address, *pod.others) if text is not None} for pod in pods]
    return next((version for version in (4, 6) if all(version in of_pod for of_pod in families)), None)


def _address(pod: Pod, family: int | None) -> str | None:
    of_family = [text for text in (pod.address, *pod.others) if text and _version(text) == family]
    return of_family[0] if of_family else pod.address


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version


def _pod(item: Any, source: str) -> Pod:
    metadata, spec, status = (_part(item, key, source) for key in ("metadata", "spec", "status"))
    if item.get("kind", "Pod") != "Pod":
        raise HostsError(f"is a {_word(item['kind'])}, not a Pod", source=source)
    name = metadata.get("name")
    if not isinstance(name, str) or (fault := subdomain_fault(name)):
        raise HostsError("has no name" if not isinstance(name, str) else f"its name {fault}", source=source)
    phase = _word(status.get("phase"))
    if metadata.get("deletionTimestamp") is not None and phase not in ENDED:
        phase = "Terminating"
    node = spec.get("nodeName") or None
    if node is not None and (not isinstance(node, str) or subdomain_fault(node)):
        raise HostsError(f"pod {name}: its nodeName is not the name of a node", source=source)
    address = status.get("podIP") or None
    others: list[Any] = [entry.get("ip") for entry in _dicts(status.get("podIPs"))]
    for what, found in (("podIP", [] if address is None else [address]), ("podIPs", others)):
        if not all(isinstance(ip, str) and is_ip_address(ip) and "%" not in ip for ip in found):
            raise HostsError(f"pod {name}: its {what} is not an IP address", source=source)
    why = "" if phase == RUNNING else _why(status)
    if phase == RUNNING and address is None:
        phase, why = "Pending", "it has no address yet"
    return Pod(
        name=name,
        phase=phase,
        why=why,
        address=address,
        node=node,
        others=tuple(ip for ip in others if ip != address),
    )


def _part(item: Any, key: str, source: str) -> dict[str, Any]:
    part = item.get(key) if isinstance(item, dict) else None
    if not isinstance(part, dict):
        raise HostsError(f"is not a Pod: it has no {key}", source=source)
    return part


def _why(status: dict[str, Any]) -> str:
    """What the API says of a pod that does not run: its own reason, or the first condition that is not met."""
    for where in (status, *_dicts(status.get("conditions"))):
        reason = where.get("reason")
        if isinstance(reason, str) and reason and where.get("status") != "True":
            message = where.get("message")
            said = f"{reason}: {message}" if isinstance(message, str) and message else reason
            return one_line(said, _MAX_WHY)
    return ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value[:16] if isinstance(entry, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str:
    return one_line(value, _MAX_WORD) if isinstance(value, str) and value else "Unknown"

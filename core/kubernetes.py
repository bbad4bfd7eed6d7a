"""Names of Kubernetes, as its API server checks them (RFC 1123, labels and selectors)."""

from __future__ import annotations

import re

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_SELECTOR = 1024
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SELECTOR = re.compile(r"[A-Za-z0-9._/=!,() -]+")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")


def label_fault(name: str) -> str | None:
    """Why ``name`` is not a DNS label (a namespace, a container); None when it is one."""
    if len(name) <= MAX_LABEL and _LABEL.fullmatch(name):
        return None
    return f"{_short(name)} is not a name of up to {MAX_LABEL} characters a-z 0-9 and - inside (RFC 1123)"


def subdomain_fault(name: str) -> str | None:
    """Why ``name`` is not a DNS subdomain (a pod, a node); None when it is one."""
    if len(name) <= MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name):
        return None
    return f"{_short(name)} is not valid: up to {MAX_SUBDOMAIN} characters a-z 0-9 . - (RFC 1123)"


def label_key_fault(key: str) -> str | None:
    """Why ``key`` is not a key of a label or a taint (``[PREFIX/]NAME``); None when it is one."""
    prefix, slash, name = key.rpartition("/")
    if slash and subdomain_fault(prefix):
        return f"{_short(key)} has no DNS name before its '/'"
    if len(name) <= MAX_LABEL and _VALUE.fullmatch(name):
        return None
    return f"{_short(key)} is not a key such as example.com/rack"


def label_value_fault(value: str) -> str | None:
    """Why ``value`` is not a value of a label; None when it is one. It may be empty."""
    if not value or (len(value) <= MAX_LABEL and _VALUE.fullmatch(value)):
        return None
    return f"{_short(value)} is not a value of a label: up to {MAX_LABEL} characters A-Z a-z 0-9 . _ -"


def selector_fault(selector: str) -> str | None:
    """Why ``selector`` can be no label selector; None when the API server may judge it."""
    if not selector.strip():
        return "is empty: give one such as app=worker"
    if len(selector) > MAX_SELECTOR:
        return f"of {len(selector)} characters: at most {MAX_SELECTOR} are allowed"
    if not _SELECTOR.fullmatch(selector):
        return f"{_short(selector)} has characters that none has: give one such as app=worker"
    return None


def image_fault(image: str) -> str | None:
    """Why ``image`` is not a reference to an image; None when it can be one."""
    if len(image) <= 512 and _IMAGE.fullmatch(image):
        return None
    return f"{_short(image)} is not a reference such as python:3.12-slim"


def _short(text: str) -> str:
    return ascii(text if len(text) <= 60 else text[:57] + "...")

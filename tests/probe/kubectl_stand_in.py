"""A kubectl for tests: it takes no other arguments than kubectl does, and answers as a recorded cluster did.

KUBECTL_WORLD names a JSON file: ``context``, ``namespace``, ``containers`` (of every pod), ``selector`` and ``list``
(what ``get pods`` prints for it), ``refuse`` (pod: what exec writes to standard error, exit code) and ``calls`` (a
file that gets a line of JSON a call). What is executed in a pod runs on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def fail(text: str, code: int = 1) -> None:
    sys.stderr.write(text + "\n")
    sys.exit(code)


def main() -> None:
    world: dict[str, Any] = json.loads(Path(os.environ["KUBECTL_WORLD"]).read_text())
    words = sys.argv[1:]
    with open(world["calls"], "a") as calls:
        calls.write(json.dumps(words) + "\n")
    given: dict[str, str] = {}
    while words and words[0].startswith("--"):
        key, equals, value = words.pop(0).partition("=")
        if key not in ("--kubeconfig", "--context", "--namespace") or not equals:
            fail(f"error: unknown flag: {key}\nSee 'kubectl --help' for usage.")
        given[key] = value
    if given.get("--context", world["context"]) != world["context"]:
        fail(f"Error in configuration: context was not found for specified context: {given['--context']}")
    verb = words.pop(0)
    if verb == "get":
        get(world, given, words)
    elif verb == "exec":
        execute(world, given, words)
    fail(f'error: unknown command "{verb}" for "kubectl"')


def get(world: dict[str, Any], given: dict[str, str], words: list[str]) -> None:
    if sorted(words) != sorted(
        ["pods", f"--selector={world['selector']}", "--output=json", "--request-timeout=30s"]
    ):
        fail(f"error: unexpected arguments {words}")
    items = world["list"] if given.get("--namespace") == world["namespace"] else []
    json.dump(
        {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}, sys.stdout
    )
    sys.stdout.flush()
    sys.exit(0)


def execute(world: dict[str, Any], given: dict[str, str], words: list[str]) -> None:
    assert words.pop(0) == "-i", "without -i a pod gets no input"
    pod = words.pop(0)
    container = ""
    if words[0].startswith("--container="):
        container = words.pop(0).partition("=")[2]
    assert words.pop(0) == "--", "what follows would be taken for kubectl's own"
    if given.get("--namespace") != world["namespace"]:
        fail(f'Error from server (NotFound): pods "{pod}" not found')
    if not container:
        listed = ", ".join(world["containers"])
        sys.stderr.write(f'Defaulted container "{world["containers"][0]}" out of: {listed}\n')
        sys.stderr.flush()
    elif container not in world["containers"]:
        fail(f"Error from server (BadRequest): container {container} is not valid for pod {pod}")
    if pod in world["refuse"]:
        fail(*world["refuse"][pod])
    code = subprocess.run(words, env={**os.environ, "POD": pod}).returncode
    if code:
        fail(f"command terminated with exit code {code & 255}", code & 255)
    sys.exit(0)


if __name__ == "__main__":
    main()

"""``netprobe manifest``: what an engine needs to know to hold the hosts of a scan."""

from __future__ import annotations

from typing import Annotated

import typer

from netprobe.cli.help import Command
from netprobe.cli.lazy import commands

app = commands("Print what an engine needs to hold the hosts of a scan.")


@app.callback()
def _group() -> None:
    """Print what an engine needs to hold the hosts of a scan."""


@app.command("kubernetes", cls=Command)
def kubernetes(
    name: Annotated[
        str, typer.Option("--name", help="Name of the DaemonSet, and label of its pods.")
    ] = "netprobe",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of everything.")] = "default",
    image: Annotated[
        str | None, typer.Option("--image", help="Image with Python 3.8 or later (python:3.12-slim).")
    ] = None,
    host_network: Annotated[
        bool,
        typer.Option("--host-network/--pod-network", help="Measure the nodes' network, or that of the pods."),
    ] = False,
    node_selector: Annotated[
        list[str] | None,
        typer.Option("--node-selector", metavar="KEY=VALUE", help="Nodes of this label only."),
    ] = None,
    toleration: Annotated[
        list[str] | None,
        typer.Option("--toleration", metavar="KEY[=VALUE][:EFFECT]", help="Tolerate this taint, or all."),
    ] = None,
    job: Annotated[
        bool, typer.Option("--job", help="Add a Job in the cluster that scans, with its rights.")
    ] = False,
    job_image: Annotated[
        str | None, typer.Option("--job-image", metavar="IMAGE", help="Image with netprobe and kubectl.")
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option("--claim", metavar="NAME", help="PersistentVolumeClaim for what the Job writes."),
    ] = None,
) -> int:
    """Print YAML for kubectl apply: an idle pod a node, and with --job the scan of them."""
    from netprobe.formats.kubernetes_manifest import (
        DEFAULT_IMAGE,
        ManifestOptions,
        manifest_text,
        parse_node_selector,
        parse_toleration,
    )

    options = ManifestOptions(
        name=name,
        namespace=namespace,
        image=DEFAULT_IMAGE if image is None else image,
        host_network=host_network,
        node_selector=parse_node_selector(node_selector or []),
        tolerations=[parse_toleration(text) for text in toleration or []],
        job=job,
        job_image=job_image,
        claim=claim,
    )
    typer.echo(manifest_text(options), nl=False)
    return 0

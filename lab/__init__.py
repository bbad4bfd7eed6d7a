"""A fleet of network namespaces on one machine: the embedded default, and the test bed.

A YAML spec (racks of hosts, delays, rates) becomes namespaces joined by one user-space switch, with a
controller without a rank, a hosts file, and the ground truth. See docs/lab.md.

    spec = load_spec("racks-6-6-4")
    with temporary(spec, seed=1) as lab:
        subprocess.run(lab.exec_argv(None, ["ping", "-c1", lab.hosts[0].address]))
"""

from __future__ import annotations

from netprobe.lab.running.build import check_machine, down, down_all, temporary, up
from netprobe.lab.running.fleet import Lab, find, list_labs, set_value
from netprobe.lab.running.orphans import Orphan, orphans
from netprobe.lab.spec.layout import LabHost, Layout, lay_out
from netprobe.lab.spec.reader import example_names, load_spec, parse_spec
from netprobe.lab.spec.spec import LabSpec
from netprobe.lab.truth import Truth, load_truth, make_truth

__all__ = [
    "Lab",
    "LabHost",
    "LabSpec",
    "Layout",
    "Orphan",
    "Truth",
    "check_machine",
    "down",
    "down_all",
    "example_names",
    "find",
    "lay_out",
    "list_labs",
    "load_spec",
    "load_truth",
    "make_truth",
    "orphans",
    "parse_spec",
    "set_value",
    "temporary",
    "up",
]

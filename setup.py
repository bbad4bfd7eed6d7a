"""Map the import package ``netprobe`` onto the folders of the root.

``netprobe.probe`` is the folder ``probe/``, and so on. Sub-packages are found here, at build time,
because a static list would silently drop a new one from the wheel. Everything else about the
distribution is in pyproject.toml.
"""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
FOLDERS = (
    "core",
    "probe",
    "embed",
    "cluster",
    "plan",
    "formats",
    "lab",
    "report",
    "verify",
    "runtime",
    "pipeline",
    "cli",
    "face",
)

packages = ["netprobe"]
package_dir = {"netprobe": "netprobe"}
for folder in FOLDERS:
    for init in sorted((ROOT / folder).rglob("__init__.py")):
        path = init.parent.relative_to(ROOT)
        name = "netprobe." + ".".join(path.parts)
        packages.append(name)
        package_dir[name] = path.as_posix()

# The pages of documentation are data: `netprobe docs PAGE` prints them.
packages.append("netprobe.docs")
package_dir["netprobe.docs"] = "docs"

setup(packages=packages, package_dir=package_dir)

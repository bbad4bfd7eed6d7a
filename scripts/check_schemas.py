"""Compare the published JSON Schemas in docs/schemas/ with the models; ``--write`` rewrites them.

A document's shape is a promise to programs elsewhere, so a change of a model has to show in a diff.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from netprobe.pipeline import schemas

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"


def published(schema: dict[str, object]) -> str:
    """The text of one schema's file."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files instead of comparing them")
    write = parser.parse_args().write

    wanted = {f"{kind}.json": published(schema) for kind, schema in schemas().items()}
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    if write:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        for name in present.keys() - wanted.keys():
            (FOLDER / name).unlink()
        print(f"wrote {len(wanted)} schemas to {FOLDER}")
        return 0

    faults = [
        *(f"docs/schemas/{name}: missing" for name in sorted(wanted.keys() - present.keys())),
        *(
            f"docs/schemas/{name}: no document is of this kind"
            for name in sorted(present.keys() - wanted.keys())
        ),
        *(
            f"docs/schemas/{name}: differs from the model"
            for name in sorted(wanted.keys() & present.keys())
            if wanted[name] != present[name]
        ),
    ]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print("if the change is meant, run `make schemas` and commit the files", file=sys.stderr)
        return 1
    print(f"{len(wanted)} published schemas are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())

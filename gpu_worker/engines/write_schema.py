"""Regenerates the schema file of the job seam: `python -m gpu_worker.engines.write_schema`."""

import json
from pathlib import Path

from gpu_worker.engines.events import schema

PATH = Path(__file__).resolve().parent.parent / "child" / "optimize_child" / "events.schema.json"


def text() -> str:
    """The file's content for the present types."""
    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())

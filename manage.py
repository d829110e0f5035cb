#!/usr/bin/env python
"""Runs the box's commands: `manage.py NOUN VERB …` and Django's own."""

import os
import sys
from pathlib import Path

SINGULAR = {"run": "runs", "dataset": "datasets", "evaluation": "evaluations", "workload": "workloads",
            "project": "workloads", "projects": "workloads", "token": "tokens", "user": "users",
            "base_model": "base_models", "bundle": "bundles", "snapshot": "snapshots",
            "trained_model": "trained_models", "pipeline": "pipelines", "comparison": "comparisons"}


def normalise(argv: list[str]) -> list[str]:
    """Drop a leading `training` word, map a noun's hyphens and singular form to its command, and read `help NOUN VERB`
    as `NOUN VERB --help`."""
    words = argv[1:]
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if words and words[0] == "training":
        words = words[1:]
    if words and not words[0].startswith("-"):
        noun = words[0].replace("-", "_")
        words = [SINGULAR.get(noun, noun), *words[1:]]
    return [argv[0], *words]


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "optimize_site.settings")
    from optimize_site.kernel.dispatch import run_command

    run_command(normalise(["./optimize", *sys.argv[1:]]))


if __name__ == "__main__":
    main()

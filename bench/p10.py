"""P10: how long a dry run takes over a dataset of 256 MiB with a workload to judge by, as the API answers it."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator

from bench.material import EXAMPLES
from bench.measure import arguments, load_before, seconds, spread, verdict

LIMIT_SECONDS = 0.7
SIZE = 255 * 1024 * 1024
NAME = "support-triage"


def main(argv: list[str]) -> int:
    """The requests go to the application inside this process, over a scratch database beside the one that is set."""
    parser = arguments(__doc__ or "", repeats=7)
    parser.add_argument("--bytes", type=int, default=SIZE)
    options = parser.parse_args(argv)
    load = load_before()
    os.environ["OPTIMIZE_HOME"] = tempfile.mkdtemp(prefix="bench-p10-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "optimize_site.settings"
    import django

    django.setup()
    from django.db import connection

    connection.creation.create_test_db(verbosity=0)
    try:
        document = prepare(options.bytes)
        values = [seconds(lambda: dry_run(document)) for _ in range(options.repeats + 1)][1:]
    finally:
        connection.creation.destroy_test_db(os.environ.get("DATABASE_URL", ""), verbosity=0)
    median = statistics.median(values)
    print(f"  a dry run over {options.bytes / 2**20:.0f} MiB   median {median:.3f} s   {spread(values)}")
    return verdict(f"P10: {median:.3f} s (bar ≤ {LIMIT_SECONDS} s)", median <= LIMIT_SECONDS, len(values), load,
                   options.max_load)


def prepare(size: int) -> dict:
    """A box with the example's workload, a ready base model and a dataset of so many bytes; the run to ask about."""
    from datasets.operations import register_dataset
    from optimize_site.kernel.auth import LOCAL
    from tests import factories as make

    make.make_device()
    make.make_base_model()
    register_dataset(f"{NAME}/train", many_rows(size), actor=LOCAL)
    register_dataset(f"{NAME}/eval", [(EXAMPLES / "eval.jsonl").read_bytes()], actor=LOCAL)
    make.make_workload(NAME, dataset=f"{NAME}/eval", grader="json-label-match")
    return {"kind": "run", "workload": NAME, "baseModel": make.TINY, "config": {"dataset": f"{NAME}/train"}}


def many_rows(size: int) -> Iterator[bytes]:
    """The example's rows over and over, each different from the others."""
    lines, number, sent = (EXAMPLES / "train.jsonl").read_bytes().splitlines(), 0, 0
    while sent < size:
        block = b"".join(line.replace(b'"content": "', b'"content": "%d ' % (number + place), 1) + b"\n"
                         for place, line in enumerate(lines))
        number, sent = number + len(lines), sent + len(block)
        yield block


def dry_run(document: dict) -> None:
    from optimize_site.kernel.client import client_for

    found = client_for("").post("/v1/training/runs/dry-run", document)
    coverage, leakage = found["diagnostics"]["coverage"], found["diagnostics"]["leakage"]
    if not found["valid"] or not coverage["read"] or not leakage:
        raise SystemExit(f"the dry run did not look at the data: {found['problems']} {coverage} {leakage}")

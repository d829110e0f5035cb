"""Rows and uploads as the tests of uploads make them."""

import hashlib
import json

from datasets import operations
from datasets.operations import Announced
from optimize_site.kernel.auth import Actor

OPERATOR = Actor("olga", "operator")


def row(number, *, tools=False):
    row = {"messages": [{"role": "user", "content": f"question {number // 2}"},
                        {"role": "assistant", "content": json.dumps({"queue": ["billing", "returns"][number % 2]})}]}
    offered = {"tools": [{"type": "function", "function": {"name": "f"}}]} if tools else {}
    return json.dumps(row | offered).encode() + b"\n"


PAIR = json.dumps({"prompt": [{"role": "user", "content": "?"}], "chosen": {"role": "assistant", "content": "a"},
                   "rejected": {"role": "assistant", "content": "b"}}).encode() + b"\n"


def write_rows(folder):
    """A file of rows of some kinds, a blank line among them, and no LF at the end."""
    path = folder / "rows.jsonl"
    path.write_bytes((b"".join(row(number, tools=number % 5 == 0) for number in range(40)) + b"\n" + row(0))[:-1])
    return path


def announced(*bodies, reference="support/train", **more):
    return Announced(reference, [(hashlib.sha256(body).hexdigest(), len(body)) for body in bodies], **more)


def opened(*bodies, **more):
    return operations.open_upload(announced(*bodies, **more), actor=OPERATOR)[0]


def put(upload, place, body):
    operations.put_shard(upload, upload.planned[place]["path"], [body], actor=OPERATOR)


def uploaded(*bodies, **more):
    upload = opened(*bodies, **more)
    for place, body in enumerate(bodies):
        put(upload, place, body)
    return operations.complete_upload(upload, actor=OPERATOR)

"""Prepared token rows: a ZIP of Parquet files and the prepared.json that says what their rows were made with."""

import heapq
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets.formats import Archive, ArchiveFormat, FormatFacts
from datasets.formats.archives import object_of, read_descriptor, refuse, refuse_one, sizes, unpack
from datasets.token_rows import NAMED_ROWS, BadTokenRow, TokenFile, measure_files
from optimize_site.kernel.errors import Problem

FORMAT = "prepared-tokens-v1"
DESCRIPTOR = "prepared.json"
SUFFIX = ".parquet"
DESCRIBE = "`./optimize datasets describe-prepared FILE…` writes it."
SHA256 = re.compile(r"[0-9a-f]{64}")
HINTS = {
    "column_missing": "Each file has the columns input_ids and loss_mask; others are ignored.",
    "column_type": "Both columns hold lists of whole numbers, of one length in a row.",
    "mask_length": "A mask has one mark a token.",
    "first_token_marked": "Set the first mark of each row to 0.",
    "nothing_marked": "Mark the tokens to train with 1, or leave the row out.",
}


@contextmanager
def read_prepared(path: Path) -> Iterator[Archive]:
    """A ZIP of prepared rows, every row checked. Raises DatasetInvalid, ArchiveRefused."""
    files = sizes(path)
    descriptor = read_descriptor(path, DESCRIPTOR, files[DESCRIPTOR])
    names = _row_files(files)
    with tempfile.TemporaryDirectory(prefix="prepared-") as folder:
        found = measured(names, list(unpack(path, names, Path(folder))))
    facts = facts_of(descriptor, dict(zip(names, found, strict=True)))
    objects = [object_of(path, name) for name in [DESCRIPTOR, *names]]
    rows = {name: file.rows for name, file in zip(names, found, strict=True)}
    yield Archive(FORMAT, sum(rows.values()), objects, rows, facts)


PREPARED = ArchiveFormat(FORMAT, DESCRIPTOR, read_prepared)


def _row_files(files: Mapping[str, int]) -> list[str]:
    names = [name for name in files if name.endswith(SUFFIX)]
    others = [name for name in files if name not in {DESCRIPTOR, *names}]
    if others:
        refuse_one(others[0], "unexpected_object", f"The archive holds {others[0]}; prepared rows are {DESCRIPTOR} and "
                   f"files that end in {SUFFIX}.", "Leave it out.")
    if not names:
        refuse_one("file", "no_rows", f"The archive holds no file that ends in {SUFFIX}.")
    return names


def measured(names: list[str], paths: list[Path]) -> list[TokenFile]:
    """What the files of rows hold, in order. Raises DatasetInvalid naming file and row."""
    found = measure_files(paths)
    if found.num_bad:
        refuse([_problem(names, bad) for bad in found.bad], found.num_bad)
    return found.files


def _problem(names: list[str], bad: BadTokenRow) -> Problem:
    name = names[bad.file] if bad.file >= 0 else "file"
    return Problem(place(bad.row, name) if bad.row else name, bad.code, bad.message, HINTS.get(bad.code, ""))


def place(row: int, name: str) -> str:
    """How a row is named, here and in a job: by its number in its file, from 1, and the file's name."""
    return f"row {row} of {name}"


def facts_of(descriptor: Mapping[str, Any], files: Mapping[str, TokenFile]) -> FormatFacts:
    """What is known of prepared rows: as their descriptor states it, and as it was measured.

    Raises DatasetInvalid where the descriptor is incomplete or states another longest row or number of rows.
    """
    problems = list(_descriptor_problems(descriptor))
    if problems:
        refuse(problems)
    counted = counts_of(files)
    for key in ("rows", "longestRow", "trainedTokens"):
        if descriptor.get(key) not in (None, counted[key]):
            refuse_one(f"{DESCRIPTOR}: {key}", "described_otherwise", f"{key} is {descriptor[key]}, and the rows give "
                       f"{counted[key]}.", f"Describe the files again: {DESCRIBE}")
    tokenizer = descriptor["tokenizer"]
    details = {"tokenizer": {"repository": tokenizer["repository"], "revision": tokenizer["revision"]},
               "chatTemplateSha256": descriptor["chatTemplateSha256"]} | counted | _lengths_of(files)
    return FormatFacts(details=details)


def _lengths_of(files: Mapping[str, TokenFile]) -> dict[str, Any]:
    """What tells the rows that are longer than any maxSeqLength: `lengths` counts them all, as `[tokens, rows]`, and
    `longestRows` names the first that a refusal names."""
    counts: Counter[int] = Counter()
    for file in files.values():
        for tokens, rows in file.lengths:
            counts[tokens] += rows
    longest = heapq.nlargest(NAMED_ROWS, ((tokens, -number, -row, name) for number, (name, file)
                                          in enumerate(files.items()) for tokens, row in file.longest_rows))
    return {"lengths": sorted(map(list, counts.items())),
            "longestRows": [{"place": place(-row, name), "tokens": tokens} for tokens, _, row, name in longest]}


def counts_of(files: Mapping[str, TokenFile]) -> dict[str, Any]:
    """The counts that a descriptor of prepared rows gives."""
    return {"rows": sum(file.rows for file in files.values()),
            "longestRow": max(file.longest_rows[0][0] for file in files.values()),
            "trainedTokens": sum(file.trained_tokens for file in files.values()),
            "totalTokens": sum(file.tokens for file in files.values()),
            "files": [{"path": name, "rows": file.rows, "tokens": file.tokens} for name, file in files.items()]}


def _descriptor_problems(descriptor: Mapping[str, Any]) -> Iterator[Problem]:
    tokenizer = descriptor.get("tokenizer")
    for name in ("repository", "revision"):
        value = tokenizer.get(name) if isinstance(tokenizer, dict) else None
        if not isinstance(value, str) or not value:
            yield Problem(f"{DESCRIPTOR}: tokenizer.{name}", "tokenizer_missing", f"The {name} of the tokenizer that "
                          "made the rows is missing.", DESCRIBE)
    digest = descriptor.get("chatTemplateSha256", "")
    if digest is not None and not (isinstance(digest, str) and SHA256.fullmatch(digest)):
        yield Problem(f"{DESCRIPTOR}: chatTemplateSha256", "template_missing", "The SHA-256 of the chat template that "
                      "the rows were rendered under is missing; null says that none was.", DESCRIBE)

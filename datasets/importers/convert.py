"""The whole of an import: the kind of the records, each as a row, each row by the registry's rule, the report."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from datasets.errors import ImportRefused, SourceUnreadable
from datasets.importers import openai, table, trl, turns
from datasets.importers.records import Convert, Record, RecordLeftOut, RecordRefused, holds_messages
from datasets.importers.report import Report
from datasets.importers.sources import Found, read_records
from datasets.pairs import FORMAT as PREFERENCE
from datasets.pairs import read_pair
from datasets.rows import FORMAT as CHAT
from datasets.rows import RowRefused, read_row
from optimize_site.kernel.errors import Problem

DETECTED_FROM = 50


@dataclass(frozen=True)
class Kind:
    """A kind of record: how it becomes a row, and of which format that is."""

    convert: Convert
    format: str


KINDS: dict[str, Kind] = {
    "openai-chat": Kind(openai.chat, CHAT), "openai-dpo": Kind(openai.dpo, PREFERENCE),
    "openai-rft": Kind(openai.rft, CHAT), "sharegpt": Kind(turns.sharegpt, CHAT), "alpaca": Kind(turns.alpaca, CHAT),
    "prompt-completion": Kind(trl.prompt_completion, CHAT), "unpaired": Kind(trl.unpaired, CHAT),
    "preference": Kind(trl.preference, PREFERENCE), "table": Kind(table.table, CHAT),
}
READERS: dict[str, Callable[[bytes], Any]] = {CHAT: read_row, PREFERENCE: read_pair}


def detect_kind(fields: Mapping[str, Any], mapping: Mapping[str, str]) -> str:
    """The kind of a record by its fields; empty where it shows none."""
    if mapping and "messages" not in fields:
        return _mapped_kind(fields, mapping)
    if "preferred_output" in fields:
        return "openai-dpo"
    if "conversations" in fields:
        return "sharegpt"
    if "chosen" in fields and "rejected" in fields:
        return "preference"
    if "messages" in fields:
        return "openai-rft" if openai.REFERENCE in fields or mapping else "openai-chat"
    if {"prompt", "completion", "label"} <= fields.keys() and isinstance(fields["label"], bool):
        return "unpaired"
    if "prompt" in fields and ("completion" in fields or holds_messages(fields["prompt"])):
        return "prompt-completion"
    if "instruction" in fields and "output" in fields:
        return "alpaca"
    if table.guess_mapping(fields):
        return "table"
    return "prompt-completion" if "prompt" in fields else ""


def _mapped_kind(fields: Mapping[str, Any], mapping: Mapping[str, str]) -> str:
    """The kind of records of which columns are named: a table, unless what is named holds messages."""
    holding = {part for part, name in mapping.items() if holds_messages(fields.get(name))} - {"messages"}
    if "chosen" in mapping:
        return "preference" if holding else "table"
    beside_prompt = "prompt" in fields and mapping.keys().isdisjoint(("user", "messages")) and "assistant" in mapping
    return "prompt-completion" if holding or beside_prompt else "table"


def import_file(source: Path, out: Path, *, kind: str = "", mapping: Mapping[str, str] | None = None,
                keep: Sequence[str] = (), split: str = "", skip_refused: bool = False) -> Report:
    """Write the records of a file or folder to `out` as rows of a format; the kind is told from them where not stated.

    Nothing is written where a record gives no row, unless `skip_refused`. Raises SourceUnreadable, ImportRefused.
    """
    mapping = mapping or {}
    records = read_records(source, split)
    first = list(islice(records, DETECTED_FROM))
    if not first:
        raise SourceUnreadable(f"{source} holds no record.")
    kind = kind or _detected(first, mapping)
    chosen = KINDS[kind]
    format = PREFERENCE if kind == "table" and "chosen" in mapping else chosen.format
    report = Report(kind, format)
    rows = _rows(chain(first, records), chosen.convert, report, mapping, frozenset(keep))
    _write(rows, out, report, skip_refused=skip_refused)
    return report


def _detected(first: list[Found], mapping: Mapping[str, str]) -> str:
    fields = next((found.value for found in first if isinstance(found.value, dict)), None)
    if fields is None:
        report = Report("", "")
        for found in first:
            report.refuse(found.place, [found.problem or Problem("", "not_an_object", "A record is a JSON object.")])
        raise ImportRefused(f"None of the first {len(first)} records can be read.", problems=report.problems,
                            hint="Nothing was written. Mend them and import the file again.")
    kind = detect_kind(fields, mapping)
    if not kind and "text" in fields:
        raise ImportRefused("The records have a text, and nothing that tells an answer in it from what was asked.",
                            hint="Give the answer a column of its own, or name it: --map user=COLUMN --map "
                            "assistant=COLUMN.")
    if not kind:
        raise ImportRefused(f"The records have the fields {', '.join(map(str, fields))[:200] or 'none'}, which is none "
                            f"of {', '.join(KINDS)}.", hint="Name the columns: --map user=COLUMN --map "
                            "assistant=COLUMN.")
    return kind


def _rows(records: Iterator[Found], convert: Convert, report: Report, mapping: Mapping[str, str],
          keep: frozenset[str]) -> Iterator[bytes]:
    """The rows as lines; a record that gives none is in the report."""
    for found in records:
        report.records += 1
        try:
            yield _line(found, convert, report, mapping, keep)
            report.written += 1
        except RowRefused as error:
            report.refuse(found.place, error.problems)
        except RecordRefused as error:
            report.refuse(found.place, [error.problem])
        except RecordLeftOut as left:
            report.change(left.code, found.place)


def _line(found: Found, convert: Convert, report: Report, mapping: Mapping[str, str], keep: frozenset[str]) -> bytes:
    if found.problem is not None:
        raise RowRefused([found.problem])
    if not isinstance(found.value, dict):
        raise RecordRefused("", "not_an_object", "A record is a JSON object.")
    fields = found.value
    if found.is_filled and has_nulls(fields):
        report.change("null_fields", found.place)
        fields = without_nulls(fields)
    row = convert(Record(found.place, fields, report, mapping, keep))
    try:
        line = orjson.dumps(row, default=_plain)
    except TypeError as error:
        raise RecordRefused("", "not_json", f"The record holds what JSON does not: {error}.") from None
    READERS[report.format](line)  # by the bytes that are written, as the registry will read them
    return line


def _plain(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(type(value).__name__)


def has_nulls(value: Any) -> bool:
    """Whether an object somewhere inside holds a field that is null."""
    if isinstance(value, dict):
        return any(item is None or has_nulls(item) for item in value.values())
    return isinstance(value, list) and any(map(has_nulls, value))


def without_nulls(value: Any) -> Any:
    """The value without the fields that are null: a table of structs gives every record the fields of all of them."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _write(rows: Iterator[bytes], out: Path, report: Report, *, skip_refused: bool) -> None:
    with tempfile.NamedTemporaryFile(dir=out.absolute().parent, prefix=f".{out.name}-", delete=False) as file:
        try:
            for row in rows:
                file.write(row + b"\n")
            file.close()
            if report.refused and not skip_refused:
                raise ImportRefused(f"{report.refused} of {report.records} records give no row.",
                                    hint="Nothing was written. Mend them, or leave them out with --skip-refused.",
                                    problems=report.problems, report=report.document())
            if not report.written:
                raise ImportRefused("No record gives a row.", problems=report.problems, report=report.document())
            Path(file.name).chmod(0o666 & ~_umask())
            Path(file.name).replace(out)
        finally:
            Path(file.name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

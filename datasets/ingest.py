"""Reads a file of chat rows once, in constant memory: checks each line, hashes the examples, counts what they are."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from datasets.errors import DatasetInvalid, DatasetTooLarge
from datasets.findings import MAX_COMPARED_ROWS, file_findings
from datasets.formats import RowExaminer
from datasets.formats.known import ROW_FORMATS, format_of
from datasets.lines import MAX_LINE_BYTES, Line, LineSplitter
from optimize_site.kernel.errors import Problem

MAX_BAD_LINES = 20
HEAD_BYTES = 4
MEBIBYTE = 1024 * 1024

# What a file may be instead of text, by its first bytes; and what to do about it.
OTHER_FILES: tuple[tuple[bytes, str, str, str], ...] = (
    (b"\x1f\x8b", "gzip_file", "The file is compressed with gzip.", "Unpack it first: `gunzip FILE.gz`."),
    (b"\x28\xb5\x2f\xfd", "zstd_file", "The file is compressed with zstd.", "Unpack it first: `unzstd FILE.zst`."),
    (b"BZh", "bzip2_file", "The file is compressed with bzip2.", "Unpack it first: `bunzip2 FILE.bz2`."),
    (b"PK\x03\x04", "zip_file", "The file is a ZIP archive.", "Unpack it and register the JSONL file inside."),
    (b"PAR1", "parquet_file", "The file is Parquet.", "Export it as JSON lines, one object a row."),
    (b"\xff\xfe", "utf16_file", "The file is UTF-16.", "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > NEW`."),
    (b"\xfe\xff", "utf16_file", "The file is UTF-16.", "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > NEW`."),
)


@dataclass(frozen=True)
class Examined:
    """What a good file holds."""

    content_hash: str
    num_examples: int
    num_tool_rows: int | None
    num_blank_lines: int
    size_bytes: int
    statistics: dict[str, Any]
    findings: list[dict[str, Any]]


@dataclass
class BadLines:
    """The bad lines of a file: the first MAX_BAD_LINES whole, the others as a number."""

    problems: list[Problem] = field(default_factory=list)
    number: int = 0

    def add(self, line: int, problems: list[Problem]) -> None:
        self.number += 1
        if self.number > MAX_BAD_LINES:
            return
        for problem in problems:
            where = f"line {line}: {problem.path}" if problem.path else f"line {line}"
            self.problems.append(Problem(where, problem.code, problem.message, problem.hint))


class Examination:
    """Takes a body chunk by chunk; `finish` says what it is. Raises DatasetInvalid, DatasetTooLarge."""

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self.num_rows = 0
        self.num_blank_lines = 0
        self.bad = BadLines()
        self._examiner: RowExaminer | None = None
        self._lines = LineSplitter()
        self._hash = hashlib.sha256()
        self._head = b""

    @property
    def examiner(self) -> RowExaminer:
        """The examiner of the format that the first row showed."""
        if self._examiner is None:
            raise ValueError("no row was examined")
        return self._examiner

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, each examined before it is handed on; after the last one the file is known to be good."""
        for chunk in chunks:
            self.take(chunk)
            yield chunk
        self.end()

    def take(self, chunk: bytes) -> None:
        """Examine one more chunk."""
        self.size_bytes += len(chunk)
        refuse_too_large(self.size_bytes, self.max_bytes)
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[:HEAD_BYTES]
            _refuse_other_file(self._head)
        for line in self._lines.feed(chunk):
            self._examine(line)

    def end(self) -> None:
        """Examine what is left. Raises DatasetInvalid where any line was bad or there is no row."""
        for line in self._lines.finish():
            self._examine(line)
        if self.bad.number:
            raise self._bad_lines()
        if not self.num_rows:
            raise _file_refused("empty_file", "The file holds no row.", "A dataset has at least one line.")

    def result(self) -> Examined:
        """What the file holds, after its end."""
        skipped = {"blank_lines": self.num_blank_lines, "carriage_returns": self._lines.num_carriage_returns,
                   "byte_order_mark": int(self._lines.has_byte_order_mark)}
        facts = self.examiner.facts()
        return Examined(self._hash.hexdigest(), self.num_rows, facts.num_tool_rows, self.num_blank_lines,
                        self.size_bytes, facts.statistics, file_findings(skipped) + facts.findings)

    def _examine(self, line: Line) -> None:
        if line.is_blank:
            self.num_blank_lines += 1
            return
        if not self.num_rows:
            _refuse_other_form(line)
        self._hash.update(b"\n" + line.data if self.num_rows else line.data)
        self.num_rows += 1
        problems = self._row_problems(line)
        if problems:
            self.bad.add(line.number, problems)

    def _row_problems(self, line: Line) -> list[Problem]:
        if line.is_too_long:
            return [Problem("", "line_too_long", f"The line is longer than {MAX_LINE_BYTES // MEBIBYTE} MiB.",
                            "A row is one conversation; cut it into several.")]
        if self._examiner is None:
            self._examiner = ROW_FORMATS[format_of(line.data)](MAX_COMPARED_ROWS)
        return self._examiner.row(line.data, line.number)

    def _bad_lines(self) -> DatasetInvalid:
        bad, more = self.bad.number, max(0, self.bad.number - MAX_BAD_LINES)
        said = f"{bad} of {self.num_rows} lines {'is' if bad == 1 else 'are'} not a chat row"
        said += f"; here are the first {MAX_BAD_LINES}, {more} more follow." if more else "."
        return DatasetInvalid(said, hint="Nothing was registered. Mend the lines and send the file again.",
                              problems=self.bad.problems, badLines=bad, moreBadLines=more, lines=self.num_rows)


def examine(chunks: Iterable[bytes], max_bytes: int) -> Examined:
    """Examine a whole file without keeping it. Raises DatasetInvalid, DatasetTooLarge."""
    examination = Examination(max_bytes)
    for _ in examination.passing(chunks):
        pass
    return examination.result()


def refuse_too_large(size: int, max_bytes: int) -> None:
    """Raises DatasetTooLarge where a file is beyond the limit."""
    if size > max_bytes:
        raise DatasetTooLarge(f"The file is larger than {max_bytes:,} bytes ({max_bytes / MEBIBYTE:.0f} MiB), the most "
                              "this box takes.", hint="Split it, or raise trainer.datasets.max-bytes in settings.toml.",
                              maxBytes=max_bytes)


def _refuse_other_file(head: bytes) -> None:
    for magic, code, sentence, advice in OTHER_FILES:
        if head.startswith(magic):
            raise _file_refused(code, sentence, advice)
    if b"\0" in head:
        raise _file_refused("binary_file", "The file is not UTF-8 text.",
                            "If it is UTF-16, convert it: `iconv -f UTF-16LE -t UTF-8 FILE > NEW`.")


def _refuse_other_form(line: Line) -> None:
    """Whole-file forms that people send in place of lines, told by the first line that is not blank."""
    text = line.data.strip(b" \t")
    if text.startswith(b"["):
        raise _file_refused("json_array", "The file is one JSON array; a dataset has one object a line.",
                            "Turn it into lines: `jq -c '.[]' FILE > FILE.jsonl`.")
    if text == b"{":
        raise _file_refused("pretty_printed", "The objects are spread over several lines; each stands on one.",
                            "Put each on one line: `jq -c . FILE > FILE.jsonl`.")


def _file_refused(code: str, sentence: str, advice: str) -> DatasetInvalid:
    return DatasetInvalid(sentence, hint=f"{advice} Nothing was registered.",
                          problems=[Problem("file", code, sentence, advice)], badLines=0, moreBadLines=0)

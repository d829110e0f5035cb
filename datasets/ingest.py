"""Reads a file of rows once, in constant memory: checks each line, hashes bytes and rows, counts what they are.

The file lies on disk, and may grow there while it is read: what was written is looked at in stretches, by several
processes where the machine has cores to spare, and hashed in order beside that.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from datasets.crew import Crew, crew
from datasets.errors import DatasetInvalid, DatasetTooLarge
from datasets.findings import MAX_COMPARED_ROWS, file_findings
from datasets.formats import FormatFacts
from datasets.identity import Identity
from datasets.stretches import MAX_BAD_LINES, MEBIBYTE, Region, Stretch, file_refused, read_region
from optimize_site.kernel.errors import Problem

STRETCH_BYTES = 4 * MEBIBYTE
HEAD_BYTES = 4
CHUNK = STRETCH_BYTES
"""Hashed at once, without asking for the interpreter in between: the threads that parse would not give it back soon."""
MOST_BAD_LINES = 1_000_000
"""With so many the rest of a file is not looked at: saying what is wrong with a line takes longer than reading it."""

# What a file may be instead of text, by its first bytes; and what to do about it.
OTHER_FILES: tuple[tuple[bytes, str, str, str], ...] = (
    (b"\x1f\x8b", "gzip_file", "The file is compressed with gzip.", "Unpack it first: `gunzip FILE.gz`."),
    (b"\x28\xb5\x2f\xfd", "zstd_file", "The file is compressed with zstd.", "Unpack it first: `unzstd FILE.zst`."),
    (b"BZh", "bzip2_file", "The file is compressed with bzip2.", "Unpack it first: `bunzip2 FILE.bz2`."),
    (b"PK\x03\x04", "zip_file", "The file is a ZIP archive.", "Unpack it and register the JSONL file inside."),
    (b"PAR1", "parquet_file", "The file is Parquet.",
     "Turn it into rows: `./optimize datasets import FILE --out ROWS.jsonl`."),
    (b"\xff\xfe", "utf16_file", "The file is UTF-16.", "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > NEW`."),
    (b"\xfe\xff", "utf16_file", "The file is UTF-16.", "Convert it: `iconv -f UTF-16 -t UTF-8 FILE > NEW`."),
)


@dataclass(frozen=True)
class Examined:
    """What a good file of rows holds, and how its bytes and rows are hashed.

    `together` are its rows behind those of the files before it, where these were given.
    """

    stretch: Stretch
    identity: Identity
    size_bytes: int
    together: Identity

    @property
    def content_hash(self) -> str:
        """What identifies the rows, without images."""
        return self.identity.rows_hash()

    @property
    def num_examples(self) -> int:
        """How many rows there are."""
        return self.stretch.num_rows

    def facts(self) -> FormatFacts:
        """What the rows hold."""
        return facts_of(self.stretch)


class Examination:
    """Looks at a file that is written while it is looked at: `grow` after each chunk, `end` after the last.

    Raises DatasetInvalid for what is no file of lines as soon as it shows.
    """

    def __init__(self, path: Path, helpers: Crew, *, compared: int = MAX_COMPARED_ROWS, before: Identity | None = None):
        self.path, self.size_bytes, self.compared = path, 0, compared
        self._crew, self._hashing, self._hashed = helpers, ThreadPoolExecutor(1), list[Future[None]]()
        self._buffer = memoryview(b"")
        self._whole, self._identity = Stretch(), Identity()
        self._together = before.going_on() if before is not None else None
        self._pending: deque[tuple[Region, Future[Stretch]]] = deque()
        self._head = b""
        self._start = self._line_end = 0

    def grow(self, chunk: bytes) -> None:
        """This chunk now stands at the file's end."""
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[:HEAD_BYTES]
            refuse_other_file(self._head)
        last = chunk.rfind(b"\n")
        if last >= 0:
            self._line_end = self.size_bytes + last + 1
        self.size_bytes += len(chunk)
        if self._line_end - self._start >= STRETCH_BYTES:
            self._examine(self._line_end)

    def end(self, name: str = "") -> Examined:
        """What the file holds; `name` is the file's among several.

        Raises DatasetInvalid where any line was bad or there is no row.
        """
        if self.size_bytes > self._start:
            self._examine(self.size_bytes)
        while self._pending:
            self._merge()
        for hashed in self._hashed:
            hashed.result()
        refuse_bad(self._whole, name=name)
        return Examined(self._whole, self._identity, self.size_bytes, self._together or self._identity)

    def close(self) -> None:
        """Wait for what still reads the file."""
        self._hashing.shutdown()

    def _examine(self, end: int) -> None:
        compared = max(0, self.compared - self._whole.num_rows)
        region = Region(str(self.path), self._start, end, self._whole.format, compared)
        # The first rows are looked at here: they say what the format is.
        self._pending.append((region, self._crew.examine(region, alone=not self._whole.format)))
        self._start = end
        while self._pending and self._pending[0][1].done():
            self._merge()

    def _merge(self) -> None:
        region, found = self._pending.popleft()
        stretch = found.result()
        self._whole.merge(stretch)
        if self._whole.bad.number >= MOST_BAD_LINES:
            raise bad_lines(self._whole, is_whole=False)
        if not stretch.bad.number:
            self._hashed.append(self._hashing.submit(self._hash, region, stretch.is_exact))

    def _hash(self, region: Region, is_exact: bool) -> None:
        identities = list(filter(None, (self._identity, self._together)))
        if not is_exact:
            for identity in identities:
                identity.add(read_region(region))
            return
        for view in self._views(region):
            for identity in identities:
                identity.add_exact([view])

    def _views(self, region: Region) -> Iterator[memoryview]:
        """A region's bytes, in large pieces of one buffer: hashing one lets the other threads run."""
        if not self._buffer:
            self._buffer = memoryview(bytearray(CHUNK))
        at = region.start
        with Path(region.path).open("rb", buffering=0) as file:
            while at < region.end:
                size = os.preadv(file.fileno(), [self._buffer[:region.end - at]], at)
                at += size
                yield self._buffer[:size]


@contextmanager
def examination(path: Path, *, compared: int = MAX_COMPARED_ROWS,
                before: Identity | None = None) -> Iterator[Examination]:
    """An examination of this file, with the helpers that the machine has cores for; `before` are the rows it follows.
    """
    with crew() as helpers:
        it = Examination(path, helpers, compared=compared, before=before)
        try:
            yield it
        finally:
            it.close()


def examine_file(path: Path, *, compared: int = MAX_COMPARED_ROWS, name: str = "") -> Examined:
    """Examine a file as it lies; `name` is its among several. Raises DatasetInvalid."""
    with examination(path, compared=compared) as it, path.open("rb") as file:
        while chunk := file.read(CHUNK):
            it.grow(chunk)
        return it.end(name)


def facts_of(stretch: Stretch) -> FormatFacts:
    """What good rows hold, with what was noticed about their files."""
    if stretch.examiner is None:
        raise ValueError("there is no row")
    facts = stretch.examiner.facts()
    skipped = {"blank_lines": stretch.num_blank_lines, "byte_order_mark": int(stretch.has_byte_order_mark),
               "carriage_returns": stretch.num_carriage_returns}
    facts.findings[:0] = file_findings(skipped)
    return facts


def refuse_bad(stretch: Stretch, *, name: str = "") -> None:
    """Raises DatasetInvalid where a file has a bad line, or no row; `name` is the file's among several."""
    if stretch.bad.number:
        raise bad_lines(stretch, name)
    if not stretch.num_rows:
        what = f"{name} holds no row." if name else "The file holds no row."
        raise file_refused("empty_file", what, "A dataset has at least one line.")


def bad_lines(stretch: Stretch, name: str = "", *, is_whole: bool = True) -> DatasetInvalid:
    """The refusal that names the first bad lines of a file, of which not all was looked at unless `is_whole`."""
    bad, more = stretch.bad.number, max(0, stretch.bad.number - MAX_BAD_LINES)
    row = "a preference pair" if stretch.format.startswith("preference") else "a chat row"
    looked_at = f"{'' if is_whole else 'the first '}{stretch.num_rows} lines"
    said = f"{bad} of {looked_at}{f' of {name}' if name else ''} {'is' if bad == 1 else 'are'} not {row}"
    said += f"; here are the first {MAX_BAD_LINES}, {more} more follow." if more else "."
    return DatasetInvalid(said, hint="Nothing was registered. Mend the lines and send the file again.",
                          problems=[_placed(line, problem, name) for line, problem in stretch.bad.lines],
                          badLines=bad, moreBadLines=more, lines=stretch.num_rows)


def _placed(line: int, problem: Problem, name: str) -> Problem:
    where = f"line {line} of {name}" if name else f"line {line}"
    return Problem(f"{where}: {problem.path}" if problem.path else where, problem.code, problem.message, problem.hint)


def refuse_too_large(size: int, max_bytes: int) -> None:
    """Raises DatasetTooLarge where a file is beyond the limit."""
    if size > max_bytes:
        raise DatasetTooLarge(f"The file is larger than {max_bytes:,} bytes ({max_bytes / MEBIBYTE:.0f} MiB), the most "
                              "this box takes.", hint="Split it, or raise trainer.datasets.max-bytes in settings.toml.",
                              maxBytes=max_bytes)


def refuse_other_file(head: bytes) -> None:
    """Raises DatasetInvalid where a file's first bytes show that it is no text."""
    for magic, code, sentence, advice in OTHER_FILES:
        if head.startswith(magic):
            raise file_refused(code, sentence, advice)
    if b"\0" in head:
        raise file_refused("binary_file", "The file is not UTF-8 text.",
                           "If it is UTF-16, convert it: `iconv -f UTF-16LE -t UTF-8 FILE > NEW`.")

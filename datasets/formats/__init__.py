"""What a format of data is to the rest of the box.

Files of lines (chat, preference) are read in *stretches*: runs of whole lines that several processes may look at at
once, and that may lie in different shards. A format gives an examiner for one stretch; the examiners of adjoining
stretches merge into that of both, and travel between processes and requests as JSON. Archives (prepared tokens,
evaluation items) are read from a file on disk, whole.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from datasets.lines import Batch
from optimize_site.kernel.errors import Problem


@dataclass(frozen=True)
class FormatFacts:
    """What the rows of a dataset hold: counts, statistics, findings, and what only this format has.

    `image_lines` maps the path of each image that rows name to the first line that does.
    """

    num_tool_rows: int | None = None
    num_images: int = 0
    statistics: dict[str, Any] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    image_lines: dict[str, int] = field(default_factory=dict)


def shown_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """What a document shows of what only one format has: its images are among the version's objects, and the count of
    its rows by their tokens is for looking up."""
    return {name: value for name, value in details.items() if name not in {"images", "lengths"}}


class RowExaminer(Protocol):
    """Checks the rows of one stretch and gathers what they hold, in bounded memory.

    Made with `compared`, how many of its first rows are compared with one another for repeats.
    """

    format: str

    def take(self, batch: Batch) -> list[int]:
        """Take in those lines of a batch that are good beyond doubt; give the places of the others.

        A shortcut for the common case, so that looking at millions of rows costs little: a place given back is a line
        to look at on its own (`row`), which may be blank, bad, or good in an unusual way.
        """
        ...

    def row(self, data: bytes, line: int) -> list[Problem]:
        """Take in one row by the full rule, or say everything that is wrong with it."""
        ...

    def merge(self, later: Self) -> None:
        """Add what the examiner of the next stretch gathered, whose lines are numbered as those of one file."""
        ...

    def move(self, lines: int) -> None:
        """Number the lines that were noted `lines` higher: the stretch stands behind that many lines."""
        ...

    def state(self) -> dict[str, Any]:
        """All of it as JSON, for `restore` in another process."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the examiner whose `state` this is."""
        ...

    def facts(self) -> FormatFacts:
        """What the rows hold. Raises DatasetInvalid for what only shows once all are there."""
        ...


@dataclass(frozen=True)
class ArchiveObject:
    """One object of a version: its path in the listing, and its bytes in order."""

    path: str
    chunks: Callable[[], Iterator[bytes]]


@dataclass(frozen=True)
class Archive:
    """What a good archive holds. `row_paths` names the objects that hold rows, in order, each with its number of rows.

    `content_hash` identifies the rows where they have an identity apart from the version's digest; empty: the digest.
    """

    format: str
    num_examples: int
    objects: list[ArchiveObject]
    row_paths: dict[str, int]
    facts: FormatFacts
    content_hash: str = ""
    descriptor: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ArchiveFormat:
    """A format that is sent as a ZIP: its name, the member that tells it, and what opens one on disk and checks it.

    `read` raises DatasetInvalid, naming the member and the place in it.
    """

    name: str
    marker: str
    read: Callable[[Path], AbstractContextManager[Archive]]

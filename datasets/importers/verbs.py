"""`datasets import`: data of other tools as rows of the registry's formats."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from datasets.importers.convert import KINDS, import_file
from datasets.importers.report import Report
from datasets.importers.table import PARTS
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.errors import InvalidInput

AUTO, FEW = "auto", 5
MAP = arg("--map", action="append", default=[], metavar="PART=COLUMN",
          help=f"which column is what, once a part: {', '.join(PARTS)}; a text such as \"{{title}}: {{body}}\" joins "
               "columns")
KEEP = arg("--keep", action="append", default=[], metavar="COLUMN", help="a column to keep beside the messages")
SPLIT = arg("--split", default="", help="which split of a folder: SPLIT, CONFIG or CONFIG/SPLIT")
SKIP_REFUSED = arg("--skip-refused", action="store_true", help="leave out records that give no row")
FLAGS = (MAP, KEEP, SPLIT, SKIP_REFUSED)
"""What an import may be told, by every command that imports."""


@dataclass(frozen=True)
class Told:
    """How the records of a file are to be read; `kind` is empty where they tell it themselves."""

    kind: str
    mapping: Mapping[str, str]
    keep: Sequence[str]
    split: str
    skip_refused: bool

    def write(self, file: str, out: Path) -> Report:
        """The records of a file or folder as rows in `out`. Raises InvalidInput, SourceUnreadable, ImportRefused."""
        return import_file(source_at(file), out, kind=self.kind, mapping=self.mapping, keep=self.keep,
                           split=self.split, skip_refused=self.skip_refused)


def told(kind: str, *, map: list[str], keep: list[str], split: str, skip_refused: bool) -> Told | None:
    """What the flags of a command say, where `kind` asks for an import; None where nothing does.

    Raises InvalidInput for a mapping that is none, and for a flag of imports where nothing is imported.
    """
    if kind:
        return Told("" if kind == AUTO else kind, parse_mapping(map), keep, split, skip_refused)
    stated = {"--map": map, "--keep": keep, "--split": split, "--skip-refused": skip_refused}
    vain = next((flag for flag, value in stated.items() if value), "")
    if vain:
        raise InvalidInput(f"{vain} requires --import.", code="usage", hint=f"Pass --import, or leave {vain} out.")
    return None


class ImportVerbs(NounCommand):
    """Turning files of other tools into rows."""

    @verb("import", arg("file", help="JSON lines, a JSON array, CSV, Parquet, or a Hugging Face dataset's folder"),
          arg("--as", dest="kind", default="", choices=["", *KINDS], metavar="KIND",
              help=f"{', '.join(KINDS)}; told from the records where it is left out"),
          arg("--out", required=True, metavar="FILE", help="the file of rows to write"),
          *FLAGS, gives=(Report.document, "out"))
    def import_rows(self, file: str, kind: str, out: str, map: list[str], keep: list[str], split: str,
                    skip_refused: bool) -> None:
        """Write the records of another tool's file as rows, and report what was changed, left out or refused."""
        target = Path(out)
        if target.exists() and not self.options.force:
            raise InvalidInput(f"{target} is there already.", code="file_exists", hint="Pass --force to replace it.")
        report = Told(kind, parse_mapping(map), keep, split, skip_refused).write(file, target)
        self.show(report.document() | {"out": out}, text=self._imported)

    def _imported(self, report: dict[str, Any]) -> None:
        self.facts([("Read as", report["kind"]), ("Format", report["format"]), ("Records", report["records"]),
                    ("Rows written", report["written"]), ("Refused", report["refused"] or None)], title=report["out"])
        for item in report["changed"]:
            self.facts([("Changed", f"{item['message']} ({_where(item)})")])
        for item in report["dropped"]:
            self.facts([("Left out", f"the field {item['field']} ({_where(item)})")])
        self.facts([("Refused", words) for words in _refused(report)])


def source_at(file: str) -> Path:
    """A file or folder to import. Raises InvalidInput."""
    if not Path(file).exists():
        raise InvalidInput(f"{file} is no file and no folder.", code="unreadable_file")
    return Path(file)


@contextmanager
def imported(command: NounCommand, file: str, how: Told) -> Iterator[tuple[Path, Report]]:
    """The records of another tool's file as a file of rows, gone afterwards, and what was done to them.

    Raises InvalidInput, SourceUnreadable, ImportRefused.
    """
    with tempfile.TemporaryDirectory(prefix="import-") as folder:
        out = Path(folder) / "examples.jsonl"
        report = how.write(file, out)
        changed = "".join(f" {item['message']} ({item['count']})." for item in report.document()["changed"])
        dropped = ", ".join(report.dropped)
        refused = f"{report.refused} record{'s that give' if report.refused > 1 else ' that gives'} no row left out"
        command.say(f"{report.written} rows from {report.kind} records.{changed}"
                    + (f" Left out: {dropped}." if dropped else "") + (f" {refused}." if report.refused else ""))
        for words in _refused(report.document()):
            command.say(words)
        yield out, report


def parse_mapping(stated: list[str]) -> dict[str, str]:
    """`PART=COLUMN` texts as a mapping. Raises InvalidInput."""
    mapping: dict[str, str] = {}
    for text in stated:
        part, equals, column = text.partition("=")
        if part not in PARTS or not equals or not column:
            raise InvalidInput(f"--map {text} does not say which column is what.", code="invalid_mapping",
                               hint=f"Write PART=COLUMN; a part is {', '.join(PARTS)}.")
        mapping[part] = column
    return mapping


def _refused(report: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong first with each of the first records that give no row, and how many more there are."""
    firsts: dict[str, str] = {}
    for problem in report["refusedRecords"]:
        firsts.setdefault(problem["path"].partition(":")[0], f"{problem['path']}: {problem['message']}")
    yield from islice(firsts.values(), FEW)
    if report["refused"] > FEW:
        yield f"and {report['refused'] - FEW:,} more"


def _where(item: dict[str, Any]) -> str:
    return f"{item['count']}; record {', '.join(map(str, item['records']))}"

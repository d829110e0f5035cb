"""The base of every command: `NOUN VERB …` parses, makes one call to the API, and renders what comes back."""

import argparse
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from django.core.management.base import BaseCommand
from django.db import OperationalError
from rich.console import Console
from rich.table import Table

from optimize_site.kernel.client import Client, client_for
from optimize_site.kernel.conf import home
from optimize_site.kernel.document_fields import Source, fields_of
from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.logs import JsonFormatter
from optimize_site.kernel.text import is_unusable
from optimize_site.services import make_folder

EXIT_DONE, EXIT_ERROR, EXIT_USAGE, EXIT_REFUSED, EXIT_NOT_FOUND = 0, 1, 2, 3, 4
EXIT_WORK_FAILED, EXIT_CANCELLED, EXIT_TIMED_OUT, EXIT_CHECK_FAILED = 5, 6, 7, 8
RETRIES, RETRY_SECONDS = 8, 120.0
WITHOUT_DOING = ("dry_run", "no_upload")
"""Flags with which a verb that changes something changes nothing, and shows something else."""
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Verb = Callable[..., int | None]
V = TypeVar("V", bound=Verb)


@dataclass(frozen=True)
class Argument:
    """What `add_argument` is given."""

    flags: tuple[str, ...]
    options: dict[str, Any]


def arg(*flags: str, **options: Any) -> Argument:
    """One argument of a verb, as argparse takes it."""
    return Argument(flags, options)


def verb(name: str, *arguments: Argument, help: str = "", gives: Sequence[Source] = (),
         waited: Sequence[Source] = ()) -> Callable[[V], V]:
    """Marks a method as the verb `name` (words apart for nested ones: "alias set") with these arguments.

    One that changes something states what makes the document it `gives`, and what makes the one it shows with `--wait`
    where that is another: a field that is not there is refused before anything is done.
    """

    def mark(method: V) -> V:
        method._verb = (name, arguments, help or (method.__doc__ or "").split("\n")[0])  # type: ignore[attr-defined]
        method._gives = (gives, waited or gives)  # type: ignore[attr-defined]
        return method

    return mark


class Parser(argparse.ArgumentParser):
    """Exits with 2 and one sentence on a usage error; never abbreviates a flag."""

    def __init__(self, *args: Any, **kwargs: Any):
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(message[:1].upper() + message[1:] + ".", hint=f"`{self.prog} --help` shows its use.",
                           code="usage")


def common() -> argparse.ArgumentParser:
    """The flags that every verb has."""
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = shared.add_argument_group("everywhere")
    group.add_argument("-o", "--output", choices=["text", "json", "json-compact"], default="text")
    group.add_argument("--json", dest="fields", nargs="?", const="", default=None, metavar="FIELDS",
                       help="only these fields, as JSON; without a value lists the fields")
    group.add_argument("--jq", default="", metavar="EXPR", help="filter the JSON output")
    group.add_argument("--no-color", action="store_true")
    group.add_argument("-q", "--quiet", action="store_true",
                       help="say nothing beside the result; of what was made, only its ID")
    group.add_argument("--force", action="store_true", help="do not ask")
    group.add_argument("--context", default="", metavar="NAME", help="speak to another box")
    return shared


class NounCommand(BaseCommand):
    """A noun with verbs. Subclasses mark methods with `@verb`; each gets its arguments as keywords."""

    noun = ""
    requires_system_checks: list[str] = []
    client: Client
    options: argparse.Namespace
    _fields: Sequence[str] = ()
    """The fields that were found to be those of what the verb gives, before it did anything."""

    def run(self, argv: Sequence[str]) -> int:
        """Parse, run the verb, and give the exit status; every refusal is one sentence on standard error."""
        self.options = argparse.Namespace(output="text", fields=None, jq="", no_color=False, quiet=False, force=False)
        try:
            with logging_to_file():
                return self._run(argv)
        except OperationError as error:
            self._tell(error)
            return error.exit_code
        except OperationalError as error:
            self._tell(OperationError(f"The box's database does not answer: {str(error).splitlines()[0]}.",
                                      hint="Start the box with `./optimize up`.", code="box_is_down"))
            return EXIT_ERROR
        except KeyboardInterrupt:
            print("Stopped watching; the work goes on.", file=sys.stderr)
            return 130
        except OSError as error:
            if error.filename is None:
                raise
            self._tell(InvalidInput(f"{error.filename} cannot be used: {error.strerror}.", code="unusable_file"))
            return EXIT_USAGE

    def handle(self, *args: Any, **options: Any) -> None:
        """Django's entry, for `call_command`; the dispatcher uses `run`."""
        sys.exit(self.run([str(part) for part in args]))

    def _run(self, argv: Sequence[str]) -> int:
        for word in argv:
            if is_unusable(word):  # how Python keeps an argument's bytes that are not UTF-8
                raise InvalidInput(f"The argument {word!r} is not UTF-8.", code="usage")
        options = self.parser().parse_args(list(argv))
        values = vars(options).copy()
        method = values.pop("_method", None)
        if method is None:
            raise InvalidInput(f"{self.noun}: name a verb.", code="usage",
                               hint=f"One of: {', '.join(sorted(self.verbs()))}.")
        self.options = options
        for name in ("output", "fields", "jq", "no_color", "quiet", "force", "context"):
            values.pop(name, None)
        if self._listed_fields(method, values):
            return EXIT_DONE
        self.client = client_for(self.options.context)
        return method(**values) or EXIT_DONE

    def _listed_fields(self, method: Verb, values: Mapping[str, Any]) -> bool:
        """Whether all that was asked for is the fields of what a verb that changes something gives; they are shown.

        Raises InvalidInput for a field that it does not give.
        """
        gives, waited = method._gives  # type: ignore[attr-defined]
        if self.options.fields is None or not gives or any(values.get(flag) for flag in WITHOUT_DOING):
            return False
        self._fields = sorted(fields_of(*(waited if values.get("wait") else gives)))
        if self.options.fields:
            _check_names(_names(self.options.fields), self._fields)
            return False
        print(json.dumps(self._fields, indent=2))
        return True

    @classmethod
    def verbs(cls) -> dict[str, Verb]:
        """Every verb by its name."""
        return {method._verb[0]: method for name in dir(cls)
                if (method := getattr(cls, name, None)) is not None and hasattr(method, "_verb")}

    def parser(self) -> argparse.ArgumentParser:
        """The noun's parser, with a subparser a verb."""
        root = Parser(prog=f"./optimize {self.noun.replace('_', '-')}", description=self.help)
        groups: dict[tuple[str, ...], Any] = {(): root.add_subparsers(metavar="VERB")}
        for name, method in sorted(self.verbs().items()):
            *path, last = name.split()
            holder = self._group(groups, tuple(path))
            _, arguments, text = method._verb  # type: ignore[attr-defined]
            sub = holder.add_parser(last, help=text, description=method.__doc__, parents=[common()])
            for argument in arguments:
                sub.add_argument(*argument.flags, **argument.options)
            sub.set_defaults(_method=method.__get__(self))
        return root

    def _group(self, groups: dict[tuple[str, ...], Any], path: tuple[str, ...]) -> Any:
        if path not in groups:
            parent = self._group(groups, path[:-1])
            groups[path] = parent.add_parser(path[-1], help=f"{path[-1]} …").add_subparsers(metavar="VERB")
        return groups[path]

    # What a verb calls -------------------------------------------------------------------------------------------

    @property
    def is_text(self) -> bool:
        """Whether a person reads the output."""
        return self.options.output == "text" and self.options.fields is None and not self.options.jq

    @property
    def is_json(self) -> bool:
        """Whether a program reads whole documents as JSON, so that each update of a wait may be one."""
        return self.options.output != "text" and not self.options.jq and self.options.fields is None

    def show(self, document: Any, text: Callable[[Any], None] | None = None) -> None:
        """Print a document: as the person or the program asked for it."""
        if self.is_text and text is not None:
            text(document)
            return
        if self.options.fields is not None:
            document = select_fields(document, self.options.fields, self._fields)
        if self.options.jq:
            self._print_jq(document)
            return
        compact = self.options.output == "json-compact"
        print(json.dumps(document, default=str, ensure_ascii=False, indent=None if compact else 2))

    def show_made(self, document: Any, name: str, text: Callable[[Any], None]) -> None:
        """Print what a verb made as `show` does; with `-q` the field that is its `name` alone, for a script to hold."""
        self.show(document, text=(lambda made: print(made[name])) if self.options.quiet else text)

    def say(self, sentence: str) -> None:
        """A sentence for the person watching: on standard error, so that it never mixes with a document."""
        if not self.options.quiet:
            print(sentence, file=sys.stderr)

    def tell_update(self, document: Any, sentence: str) -> None:
        """How a wait stands: the whole document as a line for a program that reads JSON, else a sentence for the person
        watching."""
        if not self.is_json:
            self.say(sentence)
        elif not self.options.quiet:
            print(json.dumps(document, default=str, ensure_ascii=False), flush=True)

    def confirm(self, question: str, *, needs_force: bool) -> None:
        """Ask, where a person is there to answer. Raises InvalidInput where the answer is no.

        Without a terminal a costly command goes ahead and a destructive one (`needs_force`) is refused.
        """
        if self.options.force or os.environ.get("AKKA_DISABLE_PROMPTS") == "true":
            return
        if not sys.stdin.isatty():
            if needs_force:
                raise InvalidInput("There is no terminal to ask at.", hint="Pass --force to go ahead.",
                                   code="needs_force")
            return
        if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
            raise InvalidInput("Nothing was done.", code="declined")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
        """A table for people; columns named in `right` are numbers. Wraps to nothing when piped."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*["—" if cell in (None, "") else plain(str(cell)) for cell in row])
        self.console().print(table)

    def facts(self, rows: Sequence[tuple[str, Any]], *, title: str = "") -> None:
        """Label and value lines; a row whose value is None is left out."""
        console = self.console()
        if title:
            console.print(f"\n{title}", style="bold", markup=False)
        for label, value in rows:
            if value is not None:
                console.print(f"  {label:<17} {plain(str(value))}", markup=False, highlight=False, soft_wrap=True)

    def console(self) -> Console:
        plain_output = self.options.no_color or bool(os.environ.get("NO_COLOR")) or not sys.stdout.isatty()
        width = None if sys.stdout.isatty() else 10_000
        return Console(no_color=plain_output, width=width, highlight=False, markup=False)

    def watch(self, path: str, *, timeout: float | None, each: Callable[[Any], None],
              is_over: Callable[[Any], bool]) -> tuple[Any, bool]:
        """Read `path` until it is over; gives the last document and whether time ran out.

        `each` sees the document whenever it changed. A box that stops answering is asked again up to eight times over
        two minutes.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        last: Any = None
        for document in self._poll(path):
            if document != last:
                each(document)
                last = document
            if is_over(document):
                return document, False
            if deadline is not None and time.monotonic() >= deadline:
                return document, True
        raise AssertionError("polling never ends by itself")

    def read(self, path: str, **query: Any) -> Any:
        """Read `path` once, as patiently as `watch` does."""
        return next(self._poll(path, **query))

    def _poll(self, path: str, **query: Any) -> Iterator[Any]:
        failures = 0
        while True:
            try:
                yield self.client.get(path, **query)
                failures = 0
                time.sleep(0.5)
            except (OperationError, OperationalError) as error:
                if getattr(error, "status", 503) != 503 or failures >= RETRIES:
                    raise
                time.sleep(min(2.0**failures, RETRY_SECONDS / 4))
                failures += 1

    def _print_jq(self, document: Any) -> None:
        import jq

        try:
            found = jq.compile(self.options.jq).input_text(json.dumps(document, default=str)).all()
        except ValueError as error:
            raise InvalidInput(f"The jq expression could not be used: {error}.", code="bad_jq") from error
        for value in found:
            print(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    def _tell(self, error: OperationError) -> None:
        if self.options.output != "text":
            print(json.dumps(error.document(), default=str, ensure_ascii=False, indent=2))
            return
        print(plain(error.detail), file=sys.stderr)
        for problem in error.problems:
            print(f"  {plain(problem.path)}: {plain(problem.message)}" + (f" {problem.hint}" if problem.hint else ""),
                  file=sys.stderr)
        if error.hint:
            print(plain(error.hint), file=sys.stderr)


@contextmanager
def logging_to_file() -> Iterator[None]:
    """What the box's code logs while a command runs goes to `logs/commands.log`, not between the command's lines."""
    root = logging.getLogger()
    kept, root.handlers = root.handlers, [_log_file()]
    try:
        yield
    finally:
        root.handlers[0].close()
        root.handlers = kept


def _log_file() -> logging.Handler:
    handler: logging.Handler
    try:
        handler = logging.FileHandler(make_folder(home() / "logs") / "commands.log", delay=False)
    except OSError:
        return logging.NullHandler()
    handler.setFormatter(JsonFormatter())
    return handler


def plain(text: str) -> str:
    """A text without control characters, so that stored text cannot drive the terminal."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def select_fields(document: Any, fields: str, stated: Sequence[str] = ()) -> Any:
    """Only the named fields of a document or of a list's rows; with no name, the names there are.

    Raises InvalidInput for a name that none of them has and that is not `stated`. An empty list has rows of any fields.
    """
    rows = next((value for value in document.values() if isinstance(value, list)), None) \
        if isinstance(document, dict) and "total" in document else None
    subject = rows if rows is not None else document
    found = subject if isinstance(subject, list) else [subject]
    known = sorted({name for row in found if isinstance(row, dict) for name in row}.union(stated))
    if not fields:
        return known
    names = _names(fields)
    if subject != []:
        _check_names(names, known)
    picked = [{name: row.get(name) for name in names} for row in found]
    return picked if isinstance(subject, list) else picked[0]


def _names(fields: str) -> list[str]:
    return [name.strip() for name in fields.split(",")]


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(f"There is no field {unknown[0]!r} in what this command shows.", code="usage",
                           hint=f"Its fields are {', '.join(known)}." if known else "It shows no fields.")


def read_document(file: str) -> Any:
    """A JSON or YAML document from a file, or standard input for `-`. Raises InvalidInput."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as error:
        raise InvalidInput(f"{file} could not be read: {error.strerror}.", code="unreadable_file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8.", code="unreadable_file") from error
    return parse_document(text, name="Standard input" if file == "-" else file)


def duration(text: str) -> float:
    """Seconds of `90`, `30s`, `15m`, `1h30m0s`. Raises argparse's error."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 15m or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in parts)

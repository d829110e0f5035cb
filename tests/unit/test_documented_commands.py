"""Every command that the documentation or a hint tells somebody to run is one that its parser takes."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, get_commands, load_command_class

from optimize_site.appliance.places import CHECKOUT
from optimize_site.kernel.commands import NounCommand
from optimize_site.kernel.dispatch import OURS
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.plain import PlainCommand

OUR_NOUNS = {name.replace("_", "-") for name, app in get_commands().items() if app in OURS}
OF_THE_LAUNCHER = {"up", "down", "logs", "demo", "install", "test"}
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md")),
         *sorted((CHECKOUT / "catalogs" / "examples").glob("*/README.md"))]
SOURCES = [path for app in ("optimize_site", "registry", "datasets", "runs", "endpoints", "evaluations", "gpu_worker")
           for path in sorted((CHECKOUT / app).rglob("*.py"))]
QUOTED = re.compile(r"`(?:\./optimize )?([a-z][a-z-]+ [^`]+)`")


def documented(page: Path) -> Iterator[str]:
    """The commands in a page's blocks, a continued line as one, and those quoted in its sentences."""
    text = page.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if found := re.match(r"(?:\w+=\S* |\w+=\$\()?\./optimize (.*)", line):
            yield found[1].rstrip(")") if "$(" in line else found[1]
    yield from re.findall(r"`\./optimize ([^`]+)`", text)


def hinted(source: Path) -> Iterator[str]:
    """The commands quoted in a module's texts; a value that is filled in stands as VALUE."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
            yield from QUOTED.findall("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from QUOTED.findall(node.value)


def spelled_out(text: str) -> Iterator[list[str]]:
    """Every command that a written one stands for: optional parts taken, each of `a|b` once."""
    words = shlex.split(re.sub(r"[\[\]…]", " ", text).replace("...", " "), comments=True)
    yield from map(list, itertools.product(*(word.split("|") if re.fullmatch(r"[\w|-]+", word) else [word]
                                             for word in words)))


def refusal(words: list[str]) -> str:
    """What the parser has against a command; empty where it takes it."""
    noun = words[0].replace("-", "_")
    if words[0] in OF_THE_LAUNCHER:
        return ""
    if get_commands().get(noun) not in OURS:
        return f"there is no command {words[0]}"
    command = load_command_class(str(get_commands()[noun]), noun)
    try:
        if not isinstance(command, NounCommand):
            command.create_parser("manage.py", noun).parse_args(words[1:])
            return ""
        parsed = command.parser().parse_args(words[1:])
    except (InvalidInput, CommandError) as error:
        return str(error)
    return "" if isinstance(command, PlainCommand) or hasattr(parsed, "_method") else "it names no verb"


def refused(texts: Iterator[str]) -> dict[str, str]:
    return {" ".join(words): why for text in texts for words in spelled_out(text) if (why := refusal(words))}


def is_shortened(why: str) -> bool:
    """Whether a command is only spoken of: without its verb, or without arguments that it would need."""
    return "are required" in why or why == "it names no verb" or "invalid choice: 'VALUE'" in why


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_every_command_in_the_documentation_can_be_run(document: Path):
    assert refused(documented(document)) == {}


def test_every_command_that_a_hint_names_can_be_run():
    found = (text for source in SOURCES for text in hinted(source))
    ours = (text for text in found if text.split()[0] in OUR_NOUNS and "--help" not in text)
    assert {text: why for text, why in refused(ours).items() if not is_shortened(why)} == {}


def test_a_command_that_nobody_takes_is_seen():
    assert refused(iter(["runs begin -f run.yaml", "runz list", "runs get 1 --past"])).keys() == {
        "runs begin -f run.yaml", "runz list", "runs get 1 --past"}

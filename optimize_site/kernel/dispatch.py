"""Hands our nouns straight to their command, so that Django's own --settings and --version do not swallow theirs."""

import difflib
import os
import sys
from contextlib import suppress

import django
from django.core.management import execute_from_command_line, get_commands, load_command_class

from optimize_site.kernel.nouns import OURS, our_commands


def run_command(argv: list[str]) -> None:
    """Run `argv[1]` as one of our nouns, or let Django run it; where nobody reads on, as after `head`, end quietly."""
    try:
        with suppress(BrokenPipeError):
            _run(argv)
    finally:  # before the interpreter flushes, which would complain, and whatever status the command ended with
        _flush()


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv: list[str]) -> None:
    noun = argv[1] if len(argv) > 1 else ""
    if noun.startswith("-") or not noun:
        execute_from_command_line(argv)
        return
    django.setup()
    if noun == "help":
        _print_nouns()
        return
    app = get_commands().get(noun)
    if app is None:
        sys.exit(_unknown(noun))
    if app not in OURS:
        execute_from_command_line(argv)
        return
    command = load_command_class(str(app), noun)
    run = getattr(command, "run", None)
    if run is None:
        execute_from_command_line(argv)
        return
    sys.exit(run(argv[2:]))


def _print_nouns() -> None:
    """`help`: every noun with its sentence."""
    print("Usage: ./optimize NOUN VERB …    (`./optimize help NOUN VERB` shows its use)\n")
    for command in our_commands():
        print(f"  {command.noun.replace('_', '-'):<16}{command.help}")


def _unknown(noun: str) -> int:
    """Say that there is no such command, and what may have been meant; the exit status of a usage error."""
    from optimize_site.kernel.commands import EXIT_USAGE

    ours = [name.replace("_", "-") for name, app in get_commands().items() if app in OURS]
    near = difflib.get_close_matches(noun.replace("_", "-"), ours, 1)
    print(f"There is no command {noun!r}." + (f" Did you mean {near[0]}?" if near else ""), file=sys.stderr)
    print("docs/reference/commands.md lists them all.", file=sys.stderr)
    return EXIT_USAGE

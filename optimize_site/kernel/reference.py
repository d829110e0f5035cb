"""Writes the reference pages that can be read off the code: commands with their flags, routes with their words."""

from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from optimize_site.kernel.commands import Argument, NounCommand
from optimize_site.kernel.nouns import our_commands
from optimize_site.kernel.plain import PlainCommand

EVERYWHERE = """Every verb takes `-o text|json|json-compact`, `--json FIELDS` (without a value: lists the fields;
an unknown one is refused before a command that changes something has done anything),
`--jq EXPR`, `--no-color`, `-q` (say nothing beside the result; a verb that makes something and does not wait for it
prints its ID alone, but for `users create`, which prints the password it made, and `datasets analyze`), `--force` (do
not ask) and `--context NAME` (speak to another box). A leading
`training` word is dropped, and nouns are accepted in the singular and with hyphens.

| status | meaning |
|---|---|
| 0 | done |
| 1 | error |
| 2 | usage |
| 3 | refused |
| 4 | not found |
| 5 | the work failed |
| 6 | it was cancelled |
| 7 | timed out waiting |
| 8 | a check failed |
"""


def commands_page() -> str:
    """docs/reference/commands.md."""
    parts = ["# Commands", "", EVERYWHERE]
    for command in our_commands():
        parts += [f"## {command.noun.replace('_', '-')}", "", command.help, ""]
        if isinstance(command, PlainCommand):
            parts += _flags(command.arguments)
        else:
            parts += _verbs(command)
    return "\n".join(parts).rstrip() + "\n"


def _verbs(command: NounCommand) -> list[str]:
    lines = []
    for name, method in sorted(command.verbs().items()):
        _, arguments, text = method._verb  # type: ignore[attr-defined]
        words = " ".join(_word(argument) for argument in arguments if not argument.flags[0].startswith("-"))
        lines += [f"### `{command.noun.replace('_', '-')} {name}{' ' if words else ''}{words}`", "", text, ""]
        lines += _flags([argument for argument in arguments if argument.flags[0].startswith("-")])
    return lines


def _word(argument: Argument) -> str:
    word = str(argument.options.get("metavar") or argument.flags[0]).upper()
    return f"[{word}]" if argument.options.get("nargs") in {"?", "*"} else word


def _flags(arguments: Any) -> list[str]:
    if not arguments:
        return []
    rows = [f"| `{', '.join(argument.flags)}` | {_about(argument)} |" for argument in arguments]
    return ["| flag | |", "|---|---|", *rows, ""]


def _about(argument: Argument) -> str:
    options = argument.options
    parts = [str(options.get("help", "")).replace("|", "\\|")]
    if options.get("choices"):
        parts.append("one of " + ", ".join(str(choice) for choice in options["choices"]))
    if options.get("required"):
        parts.append("required")
    if options.get("default") not in (None, "", False):
        parts.append(f"default {options['default']}")
    return "; ".join(part for part in parts if part)


def routes_page() -> str:
    """docs/reference/api.md."""
    schema = import_string(settings.API).get_openapi_schema()
    lines = ["# API", "", "Send `Authorization: Bearer TOKEN`. Errors are problem documents (RFC 9457) with a stable",
             "`code`, one sentence in `detail`, what to do in `hint`, and `problems[]` where there are several. Lists",
             "take `limit` (50, at most 100) and `offset`. A parameter or a field that a route does not have is",
             "refused, and so are one that is stated twice and a body where a route takes none. The machine-readable",
             "description is [openapi.json](openapi.json), also served at `/v1/openapi.json`.", ""]
    for tag, routes in sorted(_by_tag(schema).items()):
        lines += [f"## {tag}", "", "| route | |", "|---|---|", *routes, ""]
    return "\n".join(lines).rstrip() + "\n"


def _by_tag(schema: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            about = str(route.get("description") or route.get("summary") or "").split("\n")[0].replace("|", "\\|")
            found.setdefault((route.get("tags") or ["other"])[0], []).append(f"| `{method.upper()} {path}` | {about} |")
    return found


PAGES = {"commands.md": commands_page, "api.md": routes_page}

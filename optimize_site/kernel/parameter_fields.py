"""Parameters of a grader as fields of a form: how each is written there and read back."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimize_site.kernel.documents import parse_document

LONG = frozenset({"texts", "object", "terms"})
"""Kinds of parameters that take several lines."""
PROSE = "prose"
"""The kind of a text of several lines, such as instructions."""
WORDS = re.compile(r"[A-Z]?[^A-Z]+|[A-Z]+")


@dataclass(frozen=True)
class ParameterField:
    """One input: the parameter as `graders list` tells of it, the input's name, what stands in it, and its label where
    the parameter's own name says too little."""

    parameter: Mapping[str, Any]
    key: str
    value: str
    called: str = ""

    @property
    def label(self) -> str:
        """The parameter's name as a form's labels are written: `ignoreCase` is Ignore case."""
        if self.called:
            return self.called
        found = WORDS.findall(str(self.parameter["name"]))
        words = " ".join(word if word.isupper() else word.lower() for word in found)
        return "URL" if words == "url" else words[:1].upper() + words[1:]

    @property
    def is_long(self) -> bool:
        return self.parameter["kind"] in LONG or self.parameter["kind"] == PROSE


def written(kind: str, value: Any) -> str:
    """A parameter's value as its input holds it."""
    if kind == "texts":
        return "\n".join(value)
    if kind in LONG:
        return json.dumps(value, indent=2, ensure_ascii=False)
    return str(value) if kind != "flag" else "on" if value else ""


def read(kind: str, name: str, text: str) -> Any:
    """What an input states. Raises InvalidInput where it is neither JSON nor YAML and has to be; a number that is none
    stays the text it is, for the grader to refuse."""
    if kind == "flag":
        return True
    if kind == "texts":
        return [line for line in text.splitlines() if line.strip()]
    if kind in LONG:
        return parse_document(text, name=name)
    return _number(text) if kind == "number" else text


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_kept(text: str, *, is_long: bool) -> bool:
    """Whether an input sends the text as it was put there: one of a single line takes out its line ends, and a longer
    one writes every line end in the same way."""
    return not {"\r", *(() if is_long else "\n")} & set(text)


def sent_text(text: str) -> str:
    """A text as it was written, without the white space around it and with the line ends of a browser made plain."""
    return text.replace("\r\n", "\n").strip()

"""A preference pair as tokens: the prompt both answers follow, and each answer, under the run's chat template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from optimize_child.reading.lines import Line
from optimize_child.reading.refusals import RefusedRows, refuse_rows
from optimize_child.reading.rows import LineRefused, check_pair, has_images, messages_of, read_row, told, tools_of
from optimize_child.rendering.masks import MaskRefused
from optimize_child.rendering.template import TemplateRefused
from optimize_child.rendering.template_check import NotRendered, TemplateCheck, TemplateProblem


class Pair(NamedTuple):
    """The tokens of a pair; an answer's are all that the template writes after the prompt."""

    place: str
    prompt: list[int]
    chosen: list[int]
    rejected: list[int]

    @property
    def length(self) -> int:
        """The longer of the prompt with each answer, in tokens."""
        return len(self.prompt) + max(len(self.chosen), len(self.rejected))


def read_pairs(lines: Iterable[Line], check: TemplateCheck) -> Iterator[Pair]:
    """The pairs of some lines in order, one at a time.

    Raises JobFailure at its end for every row that is no pair, or that the template cannot render after its prompt.
    """
    bad = RefusedRows()
    for line in lines:
        try:
            yield _pair(line, check)
        except (LineRefused, MaskRefused, TemplateRefused) as error:
            bad.add(line.place, str(error))
    refuse_rows(bad, "cannot be trained on", "Correct or remove these pairs and register the dataset again.")


def _pair(line: Line, check: TemplateCheck) -> Pair:
    row = read_row(line.data)
    problems = check_pair(row)
    if problems:
        raise MaskRefused(told(problems))
    chosen, rejected = ({"messages": [*row["prompt"], row[name]]} for name in ("chosen", "rejected"))
    if has_images(chosen):
        raise MaskRefused("the pair has images, and pairs are read as text")
    return tokens_of_pair(line.place, messages_of(chosen), messages_of(rejected), tools_of(row), check)


def tokens_of_pair(
    place: str,
    chosen: list[dict[str, Any]],
    rejected: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    check: TemplateCheck,
) -> Pair:
    """A pair given as two conversations that differ in their last message. Raises NotRendered.

    Where a tokenizer joins the end of the prompt with the beginning of an answer, the joined token is the answer's.
    """
    prompt = check.template.render(chosen[:-1], tools, to_answer=True)
    texts = [after_prompt(name, prompt, row, tools, check) for name, row in _named(chosen, rejected)]
    (start, one, other), _ = check.template.tokenize([prompt, *texts])
    shared = min(_shared(start, one), _shared(start, other))
    return Pair(place, one[:shared], one[shared:], other[shared:])


def _named(chosen: list[dict[str, Any]], rejected: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [("chosen", chosen), ("rejected", rejected)]


def after_prompt(
    name: str, prompt: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, check: TemplateCheck
) -> str:
    """The conversation with that answer, as text; it must begin with the rendered `prompt`, or the answer's tokens
    could not be told. Raises NotRendered."""
    text = check.render(messages, tools)
    if not text.startswith(prompt):
        reason = f"the chat template does not render the {name} answer after the prompt it renders alone"
        raise NotRendered(TemplateProblem("refused", "answer", reason, len(messages) - 1))
    return text


def _shared(one: list[int], other: list[int]) -> int:
    """How many tokens both begin with."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))

"""Measuring one stretch of a dataset: each row checked, rendered, counted and fingerprinted, a batch at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from optimize_child.analysis.conversations import CHAT, Row, RowRefused, row_of, said
from optimize_child.analysis.counting import Counted, Marked, counter_for
from optimize_child.analysis.findings import Findings
from optimize_child.analysis.fingerprints import digest, fingerprints, words_of
from optimize_child.analysis.joins import Joins
from optimize_child.analysis.languages import language_of
from optimize_child.analysis.partials import Partial
from optimize_child.analysis.placing import POLICIES, Placer
from optimize_child.pairs.tokens import after_prompt
from optimize_child.reading.rows import ANSWERS, LineRefused, read_row
from optimize_child.rendering.masks import MaskRefused, Span
from optimize_child.rendering.template import ChatTemplate, TemplateRefused
from optimize_child.rendering.template_check import NotRendered, TemplateCheck, TemplateProblem
from optimize_child.rendering.turns import removable_turns, without_oldest

BATCH_ROWS = 256
# A shorter row's trimmed length is its whole one.
TRIMMED_ABOVE = 512
NOTHING = Counted(0, (0,) * len(POLICIES))

Line = tuple[int, bytes]


class ImageCounter(Protocol):
    """Counts a row that holds images, the way the model's processor does. Raises MaskRefused where it cannot."""

    def count(self, source: dict[str, Any]) -> Counted: ...


class Held(NamedTuple):
    """A good row of the batch and its rendered conversations: none where the template does not render it, or where
    the processor has counted it already."""

    row: Row
    conversations: list[Marked]
    counted: Counted | None = None


class Measurer:
    """Measures stretches of one dataset under one tokenizer and template; what it learns of them is kept between."""

    def __init__(self, template: ChatTemplate, format_: str, images: ImageCounter | None = None) -> None:
        self._template = template
        self._format = format_
        self._images = images
        self._check = TemplateCheck(template)
        self._placer = Placer(self._check)
        self._joins = Joins(template)
        self._counter = counter_for(template.tokenizer)

    def measure(self, lines: Iterable[Line], tick: Callable[[int], None]) -> Partial:
        """All rows of a stretch; `tick` is told the number of rows after each batch."""
        found, waiting = Findings(), iter(lines)
        while batch := list(islice(waiting, BATCH_ROWS)):
            self._measure(batch, found)
            tick(found.rows)
        return found.partial()

    def _measure(self, batch: Sequence[Line], found: Findings) -> None:
        held = [self._hold(row, found) for row in self._rows(batch, found)]
        counted = self._count(held)
        found.lengths += [
            (whole.tokens, least, *whole.trained)
            for whole, least in zip(counted, self._trimmed(held, counted), strict=True)
        ]
        texts = [said(one.row.conversations) for one in held]
        words = [words_of(text) for text in texts]
        found.languages.update(map(language_of, texts, words))
        found.fingerprints.append(fingerprints([digest(_rendered(one)) for one in held], words))

    def _rows(self, batch: Sequence[Line], found: Findings) -> Iterator[Row]:
        for number, data in batch:
            found.read_lines += 1
            if not data.strip():
                continue
            try:
                row = row_of(read_row(data), self._format)
            except (LineRefused, RowRefused) as error:
                found.refuse(number, str(error))
                continue
            found.add(number)
            yield row

    # -- one row ------------------------------------------------------------------------------------------------------

    def _hold(self, row: Row, found: Findings) -> Held:
        self._notice(row, found)
        try:
            if row.images:
                return Held(row, [], self._image_counter().count(row.source))
            return Held(row, self._marked(row))
        except NotRendered as error:
            found.problem(self._as_told(error.problem))
        except (MaskRefused, TemplateRefused) as error:
            found.problem(TemplateProblem("refused", "row", str(error), None))
        return Held(row, [], NOTHING)

    def _marked(self, row: Row) -> list[Marked]:
        """The row's conversations as text, with what is trained of them: of a pair, all that follows its prompt."""
        if self._format == CHAT:
            text = self._check.render(row.conversations[0], row.tools)
            return [Marked(text, self._placer.spans(row.conversations[0], row.tools, text))]
        prompt = self._prompt(row)
        texts = [
            after_prompt(name, prompt, messages, row.tools, self._check)
            for name, messages in zip(ANSWERS, row.conversations, strict=True)
        ]
        return [Marked(text, ([Span(len(prompt), len(text))],) * len(POLICIES)) for text in texts]

    def _prompt(self, row: Row) -> str:
        try:
            return self._template.render(row.conversations[0][:-1], row.tools, to_answer=True)
        except TemplateRefused as error:
            reason = f"the chat template refuses the prompt: {error}"
            raise NotRendered(TemplateProblem("refused", "prompt", reason, None)) from error

    def _image_counter(self) -> ImageCounter:
        if self._images is None:
            raise MaskRefused("the row has images, and the base model reads text")
        return self._images

    def _as_told(self, problem: TemplateProblem) -> TemplateProblem:
        """Before the answers of a pair stands its prompt."""
        is_prompt = self._format != CHAT and problem.where == "earlier"
        return problem._replace(where="prompt") if is_prompt else problem

    def _notice(self, row: Row, found: Findings) -> None:
        messages = row.conversations[0]
        found.tool_rows += row.tools is not None
        if not messages[-1].get("tool_calls"):
            found.labels.see(messages[-1]["content"])
        joined = self._joins.joined(messages)
        if joined is not None:
            found.consecutive_answers(joined=joined)

    # -- a batch of rows ----------------------------------------------------------------------------------------------

    def _count(self, held: list[Held]) -> list[Counted]:
        """Each row's tokens: of a pair, the longer conversation's, with the trained ones of both."""
        counts = iter(self._counter.count([marked for one in held for marked in one.conversations]))
        return [one.counted or _row_of([next(counts) for _ in one.conversations]) for one in held]

    def _trimmed(self, held: list[Held], counted: list[Counted]) -> list[int]:
        """The fewest tokens each row reaches with its oldest turns removed."""
        least = [whole.tokens for whole in counted]
        shorter = {
            index: self._shorter(one.row)
            for index, one in enumerate(held)
            if least[index] > TRIMMED_ABOVE and one.conversations
        }
        counts = iter(self._counter.count([marked for parts in shorter.values() for marked in parts]))
        for index, parts in shorter.items():
            reached = [next(counts).tokens for _ in parts]
            least[index] = min(least[index], max(reached, default=least[index]))
        return least

    def _shorter(self, row: Row) -> list[Marked]:
        """The conversations with their last turn only; empty where nothing can go or the template refuses the rest."""
        turns = removable_turns(row.conversations[0])
        if not turns:
            return []
        try:
            return [
                Marked(self._check.render(without_oldest(messages, turns), row.tools), ())
                for messages in row.conversations
            ]
        except TemplateRefused:
            return []


def _row_of(conversations: list[Counted]) -> Counted:
    trained = zip(*(one.trained for one in conversations), strict=True)
    return Counted(max(one.tokens for one in conversations), tuple(map(sum, trained)))


def _rendered(held: Held) -> list[str]:
    """By what equal rows are known: their rendered conversations, or their messages where they have none."""
    return [marked.text for marked in held.conversations] or [_written(held.row)]


def _written(row: Row) -> str:
    """The row as it stands in its line, images by their paths; other columns left out."""
    return json.dumps({name: row.source.get(name) for name in ("messages", "prompt", *ANSWERS, "tools")})

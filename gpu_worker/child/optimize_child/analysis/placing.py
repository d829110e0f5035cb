"""Where a row's trained stretches lie in its rendering, found without rendering the row a second time.

A template writes the same text between the messages of every row whose messages have the same roles. That text is
learnt once from a row of marks, together with where the loss begins and ends beside each mark. A row is placed by it
only if the learnt text and the row's own messages are its whole rendering, character for character; any other row is
placed by `masks.Conversation`, which is also what the first rows of each shape are compared with.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from optimize_child.rendering.masks import Conversation, MaskRefused, Policy, Span
from optimize_child.rendering.template import TemplateRefused
from optimize_child.rendering.template_check import TemplateCheck

POLICIES = (Policy(), Policy(all_turns=True))
COMPARED_ROWS = 4
KEPT_SHAPES = 4096

Message = dict[str, Any]
Spans = tuple[list[Span], ...]


class Edge(NamedTuple):
    """A trained stretch: of which message, how far before its text it begins and how far behind it ends."""

    message: int
    before: int
    behind: int


class Shape:
    """What a template writes around the texts of messages with these roles. Trusted after `COMPARED_ROWS` rows."""

    def __init__(self, gaps: list[str], edges: tuple[list[Edge], ...]) -> None:
        self.gaps = gaps
        self.edges = edges
        self.compared = 0

    def place(self, messages: list[Message], text: str) -> Spans | None:
        """The spans of each policy; None where the texts between these gaps are not the rendering."""
        pieces = [self.gaps[0]]
        for message, gap in zip(messages, self.gaps[1:], strict=True):
            pieces += (message["content"], gap)
        if "".join(pieces) != text:
            return None
        ends = list(accumulate(map(len, pieces)))
        return tuple([self._span(edge, ends) for edge in edges] for edges in self.edges)

    @staticmethod
    def _span(edge: Edge, ends: list[int]) -> Span:
        at = 2 * edge.message
        return Span(ends[at] - edge.before, ends[at + 1] + edge.behind)


class Placer:
    """Places the rows of one dataset under one template. Keep one for many rows."""

    def __init__(self, check: TemplateCheck) -> None:
        self._check = check
        self._shapes: dict[tuple[str, ...], Shape | None] = {}

    def spans(self, messages: list[Message], tools: list[dict[str, Any]] | None, text: str) -> Spans:
        """The trained spans of a rendered row under each of POLICIES. Raises MaskRefused where they cannot be told."""
        shape = self._shape(messages) if not tools else None
        found = shape.place(messages, text) if shape else None
        if shape is None or found is None:
            return self._exactly(messages, tools)
        if shape.compared < COMPARED_ROWS:
            shape.compared += 1
            exact = self._exactly(messages, tools)
            if found != exact:
                self._shapes[_roles(messages)] = None
            return exact
        return found

    def _exactly(self, messages: list[Message], tools: list[dict[str, Any]] | None) -> Spans:
        conversation = Conversation(self._check, messages, tools)
        return tuple(conversation.trained_spans(policy) for policy in POLICIES)

    def _shape(self, messages: list[Message]) -> Shape | None:
        if any(len(message) != 2 for message in messages):
            return None
        roles = _roles(messages)
        if roles not in self._shapes:
            if len(self._shapes) >= KEPT_SHAPES:
                self._shapes.clear()
            self._shapes[roles] = self._learn(roles)
        return self._shapes[roles]

    def _learn(self, roles: tuple[str, ...]) -> Shape | None:
        marked = [{"role": role, "content": f"zqx{index}xqz"} for index, role in enumerate(roles)]
        try:
            conversation = Conversation(self._check, marked, None)
            spans = tuple(conversation.trained_spans(policy) for policy in POLICIES)
        except (TemplateRefused, MaskRefused):
            return None
        shape = _shape_of(marked, conversation.text, spans)
        return shape if shape and self._closes(shape) else None

    def _closes(self, shape: Shape) -> bool:
        """Whether each trained stretch ends with a token that closes the turn. Where none does, the words decide where
        a stretch ends, and rows of this shape are placed one by one."""
        behind = [shape.gaps[edge.message + 1][: edge.behind] for edges in shape.edges for edge in edges]
        closing = tuple(self._check.template.special_tokens)
        return all(text.endswith(closing) for text in behind)


def _roles(messages: list[Message]) -> tuple[str, ...]:
    return tuple(message["role"] for message in messages)


def _shape_of(marked: list[Message], text: str, spans: Spans) -> Shape | None:
    """The shape that a rendering of marks shows; None where a mark is missing, doubled or out of order."""
    gaps, starts, position = [], [], 0
    for message in marked:
        start = text.find(message["content"], position)
        if start < 0:
            return None
        gaps.append(text[position:start])
        starts.append(start)
        position = start + len(message["content"])
    if any(text.count(message["content"]) != 1 for message in marked):
        return None
    answers = [index for index, message in enumerate(marked) if message["role"] == "assistant"]
    told = [answers[-1:], answers]
    if any(len(found) != len(expected) for found, expected in zip(spans, told, strict=True)):
        return None
    edges = tuple(
        [
            Edge(index, starts[index] - span.start, span.end - starts[index] - len(marked[index]["content"]))
            for index, span in zip(indices, found, strict=True)
        ]
        for indices, found in zip(told, spans, strict=True)
    )
    return Shape([*gaps, text[position:]], edges)

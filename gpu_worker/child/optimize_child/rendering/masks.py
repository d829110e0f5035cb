"""Which tokens of a conversation the loss is taken over: found in the rendered text, so no template needs markers.

A message's place is where the rendering of what comes before it ends. Where a template renders a shorter
conversation differently (a default system turn, a reasoning block kept only in the last turn), the place is found
by putting an unmistakable text into the message instead, and what surrounds it must be equal in both renderings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from optimize_child.rendering.template import TemplateRefused
from optimize_child.rendering.template_check import TemplateCheck

SENTINEL = "\u2402sentinel\u2403"


class Policy(NamedTuple):
    """The loss group of a run: which assistant messages, and whether calls and tool results count."""

    all_turns: bool = False
    tool_calls: bool = True
    tool_results: bool = False


class MaskRefused(Exception):
    """No mask can be told for this row under this template; the text says why."""


class Span(NamedTuple):
    """A stretch of characters of the rendered text."""

    start: int
    end: int


def policy_of(loss: dict[str, Any]) -> Policy:
    """The policy a resolved `config.loss` group states."""
    return Policy(loss["assistantTurns"] == "all", loss["trainOnToolCalls"], loss["trainOnToolResults"])


class Conversation:
    """One row rendered whole, with the places of its messages. Raises NotRendered where the template leaves one out."""

    def __init__(
        self, check: TemplateCheck, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> None:
        self.template = check.template
        self.messages = messages
        self.tools = tools
        self.text = check.render(messages, tools)

    def trained_spans(self, policy: Policy) -> list[Span]:
        """The character spans the loss is taken over, in order; system and user text is never among them."""
        last = len(self.messages) - 1
        spans: list[Span] = []
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant" and (index == last or policy.all_turns):
                # The final answer is trained whole, its calls too, whatever the policy says about calls.
                spans += self._answer(index, with_calls=index == last or policy.tool_calls)
            elif message["role"] == "tool" and policy.tool_results:
                spans.append(self._content(index))
        return [span for span in spans if span.end > span.start]

    def _answer(self, index: int, *, with_calls: bool) -> list[Span]:
        message = self.messages[index]
        if message.get("tool_calls") and not with_calls:
            return self._text_without_calls(index)
        return [self._whole(index)]

    def _whole(self, index: int) -> Span:
        """An assistant message from the end of its header through its end-of-turn token."""
        start, end = self._start(index), self._end(index)
        if start is None or end is None or end <= start:
            return self._whole_by_content(index)
        return Span(start, self._through_end_of_turn(start, end))

    def _start(self, index: int) -> int | None:
        """Where the message begins, if what comes before it renders as a beginning of the whole."""
        before = self._prefix(index, to_answer=True)
        return None if before is None else len(before)

    def _end(self, index: int) -> int | None:
        if index == len(self.messages) - 1:
            return len(self.text)
        through = self._prefix(index + 1, to_answer=False)
        return None if through is None else len(through)

    def _prefix(self, count: int, *, to_answer: bool) -> str | None:
        """The first `count` messages rendered alone, if that is how the whole begins."""
        try:
            text = self.template.render(self.messages[:count], self.tools, to_answer=to_answer)
        except TemplateRefused:
            return None
        return text if self.text.startswith(text) else None

    def _whole_by_content(self, index: int) -> Span:
        content = self._content(index)
        calls = self._calls(index) if self.messages[index].get("tool_calls") else content
        start, end = min(content.start, calls.start), max(content.end, calls.end)
        return Span(start, self._through_end_of_turn(start, self._next_special(end)))

    def _text_without_calls(self, index: int) -> list[Span]:
        """The text of a message that also calls tools, and its end of turn, without the calls between them."""
        if not self.messages[index]["content"]:
            return []
        content, calls = self._content(index), self._calls(index)
        closing = Span(calls.end, self._next_special(calls.end))
        return [content] if closing.end == closing.start else [content, closing]

    def _content(self, index: int) -> Span:
        """Where the message's text stands, as far as the template renders it."""
        message = self.messages[index]
        marked = self._render_changed(index, {**message, "content": SENTINEL})
        at = marked.find(SENTINEL)
        if at < 0 or marked.count(SENTINEL) != 1:
            raise MaskRefused(f"the chat template does not render the text of messages[{index}]")
        tail = marked[at + len(SENTINEL) :]
        if self.text[:at] != marked[:at] or not self.text.endswith(tail) or at + len(tail) > len(self.text):
            raise MaskRefused(f"the place of messages[{index}] in the rendered conversation cannot be told")
        return Span(at, len(self.text) - len(tail))

    def _calls(self, index: int) -> Span:
        """Where the message's calls stand: what its rendering without them lacks."""
        bare = {key: value for key, value in self.messages[index].items() if key != "tool_calls"}
        other = self._render_changed(index, bare)
        head = _common(self.text, other)
        tail = _common(self.text[head:][::-1], other[head:][::-1])
        return Span(head, len(self.text) - tail)

    def _render_changed(self, index: int, message: dict[str, Any]) -> str:
        changed = [*self.messages[:index], message, *self.messages[index + 1 :]]
        try:
            return self.template.render(changed, self.tools)
        except TemplateRefused as error:
            raise MaskRefused(f"the chat template refuses the conversation: {error}") from error

    def _through_end_of_turn(self, start: int, end: int) -> int:
        """The end of the last special token of a message; templates write a line break behind it, which is no answer.

        A template without an end-of-turn token keeps the message's whole rendering.
        """
        kept = self.text[start:end].rstrip()
        closed = any(kept.endswith(token) for token in self.template.special_tokens)
        return start + len(kept) if closed else end

    def _next_special(self, position: int) -> int:
        """The end of a special token that follows with nothing but white space between; else `position`."""
        rest = self.text[position:]
        at = len(rest) - len(rest.lstrip())
        for token in self.template.special_tokens:
            if rest.startswith(token, at):
                return position + at + len(token)
        return position


def token_mask(offsets: list[tuple[int, int]], spans: list[Span]) -> list[bool]:
    """For each token whether it belongs to a span: any of its characters lies inside."""
    mask = [False] * len(offsets)
    for span in spans:
        for index, (start, end) in enumerate(offsets):
            if _inside(start, end, span):
                mask[index] = True
    return mask


def _inside(start: int, end: int, span: Span) -> bool:
    if end > start:
        return start < span.end and end > span.start
    # Tokenizers that trim white space give a token of spaces no width: its place decides.
    return span.start <= start < span.end


def _common(one: str, other: str) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low

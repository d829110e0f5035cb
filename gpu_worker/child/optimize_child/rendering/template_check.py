"""Whether a chat template renders a row as it was written: every message, its text, its calls.

A template may refuse a row, or render it without saying that it left something out. Both are told the same way to a
run, which refuses the row, and to an analysis, which names it. What a template leaves out hangs on a row's shape
(roles, texts, calls) far more than on its words, so each shape is tried once with unmistakable words in every place;
the row's own words are looked for as well, because a template may also read them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Literal, NamedTuple

from optimize_child.rendering.template import ChatTemplate, TemplateRefused

Kind = Literal["refused", "text_dropped", "call_dropped"]
Where = Literal["answer", "earlier", "prompt", "row"]
Message = dict[str, Any]

KEPT_SHAPES = 4096


class TemplateProblem(NamedTuple):
    """What the template does to a row, at which message (None: the row as a whole), and in one clause why."""

    kind: Kind
    where: Where
    reason: str
    message: int | None


class NotRendered(TemplateRefused):
    """The template refuses the row or leaves a part of it out; the text is the problem's reason."""

    def __init__(self, problem: TemplateProblem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


class Loss(NamedTuple):
    """A part of a row that a rendering lacks."""

    message: int
    kind: Kind
    what: str


class TemplateCheck:
    """Renders rows under one template and tells what it does not render. Keep one for many rows: it remembers shapes.

    Messages are as a template reads them (`rows.messages_of`): texts or parts, arguments as objects.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template
        self._shapes: dict[Hashable, Loss | None] = {}

    def render(self, messages: list[Message], tools: list[dict[str, Any]] | None) -> str:
        """The conversation as text. Raises NotRendered where it is refused, or would be without a text or a call."""
        try:
            text = self.template.render(messages, tools)
        except TemplateRefused as error:
            raise NotRendered(self._refusal(error, messages, tools)) from error
        loss = self._loss_of_shape(messages, tools) or self._loss_of_words(text, messages, tools)
        if loss:
            raise NotRendered(_problem(loss, messages))
        return text

    # -- a row that is refused ----------------------------------------------------------------------------------------

    def _refusal(
        self, error: TemplateRefused, messages: list[Message], tools: list[dict[str, Any]] | None
    ) -> TemplateProblem:
        where, place = self._blame(messages, tools)
        return TemplateProblem("refused", where, f"the chat template refuses {place}: {error}", None)

    def _blame(self, messages: list[Message], tools: list[dict[str, Any]] | None) -> tuple[Where, str]:
        """The answer, where what comes before it renders; the tools, where the row does without them."""
        if tools and self._renders(messages, None):
            return "row", "the row with its tools"
        if len(messages) > 1 and self._renders(messages[:-1], tools):
            return "answer", f"messages[{len(messages) - 1}], the answer"
        return "earlier", "the messages before the answer"

    def _renders(self, messages: list[Message], tools: list[dict[str, Any]] | None) -> bool:
        try:
            self.template.render(messages, tools, to_answer=messages[-1]["role"] != "assistant")
        except TemplateRefused:
            return False
        return True

    # -- a row of which something is left out -------------------------------------------------------------------------

    def _loss_of_shape(self, messages: list[Message], tools: list[dict[str, Any]] | None) -> Loss | None:
        key = (bool(tools), tuple(_shape(message) for message in messages))
        if key not in self._shapes:
            if len(self._shapes) >= KEPT_SHAPES:
                self._shapes.clear()
            self._shapes[key] = self._try_shape(messages, tools)
        return self._shapes[key]

    def _try_shape(self, messages: list[Message], tools: list[dict[str, Any]] | None) -> Loss | None:
        marked = [_marked(index, message) for index, message in enumerate(messages)]
        try:
            text = self.template.render(marked, tools)
        except TemplateRefused:
            # The template reads what is said, and refuses the marks; the row's own words are looked for instead.
            return None
        return next(_missing(text, marked), None)

    def _loss_of_words(self, text: str, messages: list[Message], tools: list[dict[str, Any]] | None) -> Loss | None:
        for index, message in enumerate(messages):
            words = _text(message.get("content")).strip()
            if message["role"] != "assistant" or not words or words in text:
                continue
            if index == len(messages) - 1 and not _has_words(text, words):
                return Loss(index, "text_dropped", "a part of the text")
            if self._is_blank(index, text, messages, tools):
                return Loss(index, "text_dropped", "the text")
        return next(_missing_calls(text, messages), None)

    def _is_blank(self, index: int, text: str, messages: list[Message], tools: list[dict[str, Any]] | None) -> bool:
        """Whether nothing stands where the message's text would be: templates cut reasoning out of earlier texts."""
        mark = _mark(index, "text")
        changed = [*messages[:index], {**messages[index], "content": mark}, *messages[index + 1 :]]
        try:
            other = self.template.render(changed, tools)
        except TemplateRefused:
            return False
        at = other.find(mark)
        if at < 0:
            return True
        head, tail = other[:at], other[at + len(mark) :]
        return text.startswith(head) and text.endswith(tail) and not text[len(head) : len(text) - len(tail)].strip()


def _problem(loss: Loss, messages: list[Message]) -> TemplateProblem:
    is_answer = loss.message == len(messages) - 1
    beside = " beside the calls" if loss.kind == "text_dropped" and messages[loss.message].get("tool_calls") else ""
    what = f"{loss.what}{beside} of messages[{loss.message}]{', the answer' if is_answer else ''}"
    where: Where = "answer" if is_answer else "earlier"
    return TemplateProblem(loss.kind, where, f"the chat template leaves out {what}", loss.message)


def _shape(message: Message) -> Hashable:
    """What of a message a template may branch on, its words left aside."""
    content = message.get("content")
    if len(message) == 2 and type(content) is str:
        return message["role"], bool(content) and not content.isspace()
    parts = tuple(part["type"] for part in content) if isinstance(content, list) else type(content).__name__
    calls = tuple(bool(call["function"]["arguments"]) for call in message.get("tool_calls") or [])
    return message["role"], bool(_text(content).strip()), parts, calls, tuple(sorted(message))


def _marked(index: int, message: Message) -> Message:
    """The message with a word of its own in each place that holds words."""
    changed = dict(message)
    if _text(message.get("content")).strip():
        changed["content"] = _marked_content(index, message["content"])
    if message.get("tool_calls"):
        changed["tool_calls"] = [_marked_call(index, number, call) for number, call in enumerate(message["tool_calls"])]
    return changed


def _marked_content(index: int, content: Any) -> Any:
    if isinstance(content, str):
        return _mark(index, "text")
    return [
        {**part, "text": _mark(index, f"part{number}")} if part["type"] == "text" and part["text"].strip() else part
        for number, part in enumerate(content)
    ]


def _marked_call(index: int, number: int, call: dict[str, Any]) -> dict[str, Any]:
    arguments = {"name": _mark(index, f"arguments{number}")} if call["function"]["arguments"] else {}
    function = {**call["function"], "name": _mark(index, f"call{number}"), "arguments": arguments}
    return {**call, "function": function}


def _mark(index: int, place: str) -> str:
    """A word that no template writes and that reads the same in JSON."""
    return f"zqx{index}x{place}xqz"


def _missing(text: str, marked: list[Message]) -> Iterator[Loss]:
    """The marks that a rendering of marked messages lacks, in the order of the messages."""
    for index, message in enumerate(marked):
        for part in _texts(message.get("content")):
            if part.strip() and part not in text:
                yield Loss(index, "text_dropped", "the text")
        for call in message.get("tool_calls") or []:
            if call["function"]["name"] not in text:
                yield Loss(index, "call_dropped", "a call")
            elif any(value not in text for value in call["function"]["arguments"].values()):
                yield Loss(index, "call_dropped", "the arguments of a call")


def _missing_calls(text: str, messages: list[Message]) -> Iterator[Loss]:
    for index, message in enumerate(messages):
        if any(call["function"]["name"] not in text for call in message.get("tool_calls") or []):
            yield Loss(index, "call_dropped", "a call")


def _has_words(text: str, words: str) -> bool:
    """Whether the words stand in the text, white space aside: templates put line breaks around reasoning."""
    return "".join(words.split()) in "".join(text.split())


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if part["type"] == "text"]


def _text(content: Any) -> str:
    return "".join(_texts(content))

"""The base model's own chat template: rendering messages to text and text to tokens, the same way on every path."""

from __future__ import annotations

import hashlib
import signal
from types import FrameType
from typing import Any

from jinja2.exceptions import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template

RENDER_SECONDS = 20.0
_PROBE = "zqxprobexqz"
# A template that writes today's date would train on another prompt after midnight than before it.
FIXED_DATE = "26 Jul 2024"


class TemplateRefused(Exception):
    """The chat template does not render these messages; the text is its own reason."""


class ChatTemplate:
    """A tokenizer's chat template. `render` and `tokenize` together give exactly `apply_chat_template`'s tokens."""

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise TemplateRefused("The tokenizer has no chat template.")
        self.tokenizer = tokenizer
        self.text: str = tokenizer.get_chat_template()
        self.sha256 = template_sha256(self.text)
        self.special_tokens = special_tokens(tokenizer)
        self._compiled = _compiled(self.text)
        fixed = {**tokenizer.special_tokens_map, "documents": None, "date_string": FIXED_DATE}
        self._variables = {**self._compiled.globals, **fixed}
        signal.signal(signal.SIGALRM, _give_up)
        self._is_direct: dict[tuple[bool, bool], bool] = {}
        self.reads_parts = False
        self.reads_parts = self._wants_parts()

    def render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, *, to_answer: bool = False
    ) -> str:
        """The conversation as text; with `to_answer` it ends where the assistant's next message would begin."""
        if self.reads_parts:
            messages = [_in_parts(message) for message in messages]
        try:
            return self._in_time(messages, tools, to_answer)
        except (TemplateError, TypeError, KeyError, ValueError, IndexError, AttributeError) as error:
            raise TemplateRefused(str(error) or type(error).__name__) from error

    def _in_time(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, to_answer: bool) -> str:
        """Interrupts a template that does not end. A template is data from outside, run in a sandbox by its library."""
        signal.setitimer(signal.ITIMER_REAL, RENDER_SECONDS)
        try:
            return self._render(messages, tools, to_answer)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, to_answer: bool) -> str:
        """The compiled template's own rendering, once it has given what `apply_chat_template` gives: that call spends
        as long around a short template as in it."""
        kind = (tools is not None, to_answer)
        if self._is_direct.get(kind):
            return self._directly(messages, tools, to_answer)
        text: str = self.tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=to_answer, tokenize=False, date_string=FIXED_DATE
        )
        if kind not in self._is_direct:
            self._is_direct[kind] = self._directly(messages, tools, to_answer) == text
        return text

    def _directly(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, to_answer: bool) -> str:
        """What `Template.render` does, without collecting the same globals each time."""
        compiled = self._compiled
        variables = {**self._variables, "messages": messages, "tools": tools, "add_generation_prompt": to_answer}
        context = compiled.environment.context_class(compiled.environment, variables, compiled.name, compiled.blocks)
        text: str = compiled.environment.concat(compiled.root_render_func(context))
        return text

    def _wants_parts(self) -> bool:
        """Whether the template renders a message's text only where it stands in parts, as SmolVLM's does: a plain text
        is an empty turn to it, and says nothing about that."""
        messages = [{"role": "user", "content": _PROBE}, {"role": "assistant", "content": _PROBE}]
        if self._shows(messages):
            return False
        return self._shows([_in_parts(message) for message in messages])

    def _shows(self, messages: list[dict[str, Any]]) -> bool:
        try:
            return _PROBE in self.render(messages)
        except TemplateRefused:
            return False

    def tokenize(self, texts: list[str]) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
        """Tokens and their character spans. No special token is added: the template has written its own."""
        batch = self.tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return batch["input_ids"], batch["offset_mapping"]


def _compiled(text: str) -> Any:
    try:
        return _compile_jinja_template(text)
    except TemplateError as error:
        raise TemplateRefused(f"The chat template cannot be read: {error}") from error


def _in_parts(message: dict[str, Any]) -> dict[str, Any]:
    """The message with a text as the one part of its content; a content in parts stays as it is."""
    if not isinstance(message.get("content"), str):
        return message
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def template_sha256(text: str) -> str:
    """The digest by which rows, models and answers name the template they were rendered under."""
    return hashlib.sha256(text.encode()).hexdigest()


def special_tokens(tokenizer: Any) -> list[str]:
    """Every token the tokenizer treats as special, longest first, so that the first match is the whole token."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return sorted({*added, *tokenizer.all_special_tokens}, key=len, reverse=True)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise TemplateRefused(f"The chat template did not finish within {RENDER_SECONDS:g} seconds.")

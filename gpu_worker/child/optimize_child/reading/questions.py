"""A chat row as a question: the prompt that asks for its answer, the answer it expects, and where an answer ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from optimize_child.bases.checks import end_tokens
from optimize_child.reading.rows import messages_of, text_of, tools_of
from optimize_child.rendering.template import ChatTemplate


@dataclass(frozen=True)
class Question:
    """One row as it is asked: the messages before the answer, the tools it offers, and the answer it expects."""

    position: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    expected: str | None
    shown: list[dict[str, Any]]
    tokens: list[int]


def question_of(template: ChatTemplate, position: int, row: dict[str, Any]) -> Question:
    """A row's prompt with the tools it offers, rendered as training renders it. Raises TemplateRefused."""
    text = template.render(messages_of(row)[:-1], tools_of(row), to_answer=True)
    (tokens,), _ = template.tokenize([text])
    return question_with(position, row, tokens)


def question_with(position: int, row: dict[str, Any], tokens: list[int]) -> Question:
    """A row as a question, where the tokens of its prompt are known already."""
    expected = text_of(row["messages"][-1].get("content")) if not row.get("unanswered") else None
    return Question(position, messages_of(row)[:-1], tools_of(row), expected, row["messages"][:-1], tokens)


def stop_ids(base: Path, tokenizer: Any) -> frozenset[int]:
    """The tokens at which an answer ends."""
    config = AutoConfig.from_pretrained(base, local_files_only=True)
    return frozenset({tokenizer.eos_token_id, *end_tokens(base, config)})


def answer_text(tokenizer: Any, tokens: list[int]) -> str:
    """An answer's tokens as the text a person reads."""
    text: str = tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text

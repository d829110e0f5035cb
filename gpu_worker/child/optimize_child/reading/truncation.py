"""What happens to a chat row longer than the run's maxSeqLength, for each value of `data.truncation`."""

from __future__ import annotations

from typing import NamedTuple

from optimize_child.rendering.masks import Conversation, MaskRefused
from optimize_child.rendering.template_check import TemplateCheck
from optimize_child.rendering.turns import removable_turns, without_oldest

TRIMMING = frozenset({"oldest", "oldest_or_drop"})


class Trimmed(NamedTuple):
    """A conversation without its oldest turns, and how many those are."""

    conversation: Conversation
    ids: list[int]
    offsets: list[tuple[int, int]]
    turns_removed: int


class NeverFits(Exception):
    """The row is too long however many turns go; `tokens` is the shortest it gets."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens


def trim_to_fit(conversation: Conversation, check: TemplateCheck, limit: int) -> Trimmed:
    """Remove as few of the oldest turns as let the row fit `limit` tokens. Raises NeverFits.

    A conversation without more turns is shorter, so the number is found by halving; only where a template writes more
    for fewer turns could one turn too many go, and the row still fits.
    """
    shortest = _trimmed(conversation, check, removable_turns(conversation.messages))
    if len(shortest.ids) > limit:
        raise NeverFits(len(shortest.ids))
    too_few, fitting = 0, shortest
    while fitting.turns_removed - too_few > 1:
        middle = _trimmed(conversation, check, (too_few + fitting.turns_removed) // 2)
        if len(middle.ids) > limit:
            too_few = middle.turns_removed
        else:
            fitting = middle
    return fitting


def _trimmed(conversation: Conversation, check: TemplateCheck, turns: int) -> Trimmed:
    shorter = Conversation(check, without_oldest(conversation.messages, turns), conversation.tools)
    (ids,), (offsets,) = check.template.tokenize([shorter.text])
    return Trimmed(shorter, ids, offsets, turns)


def cut_right(ids: list[int], trained: list[bool], limit: int) -> tuple[list[int], list[bool]]:
    """The first `limit` tokens of a row. Raises MaskRefused where one of the others is trained."""
    cut = sum(trained[limit:])
    if cut:
        raise MaskRefused(
            f"the row has {len(ids)} tokens, and {cut} trained {'one lies' if cut == 1 else 'ones lie'} past "
            f"maxSeqLength {limit}, where data.truncation right would cut"
        )
    return ids[:limit], trained[:limit]

"""The rows of a dataset that refuse it, collected over the whole of it and told once."""

from __future__ import annotations

from optimize_child.failures import JobFailure

NAMED_ROWS = 20


class RefusedRows:
    """Rows that refuse a dataset: those that a refusal names, the rest as a number; a large dataset may have
    millions."""

    def __init__(self) -> None:
        self.named: list[tuple[str, str]] = []
        self.count = 0

    def add(self, place: str, reason: str = "") -> None:
        """One more row, after those before it."""
        self.count += 1
        if self.count <= NAMED_ROWS:
            self.named.append((place, reason))

    def add_unnamed(self, count: int) -> None:
        """So many more rows, behind those that are named."""
        self.count += count


def refuse_rows(bad: RefusedRows, what: str, hint: str) -> None:
    """Raise JobFailure `bad_row` for the refused rows, the first of them named with their reasons."""
    if not bad.count:
        return
    named = "; ".join(f"{place}: {text}" for place, text in bad.named)
    raise JobFailure(
        "bad_row",
        f"{count_rows(bad.count)} {what}. {named}{and_more(bad.count)}",
        hint=hint,
        rows=[{"line": place, "reason": text} for place, text in bad.named],
        count=bad.count,
    )


def refuse_long_rows(longest: list[tuple[int, str]], count: int, what: str, hint: str) -> None:
    """Raise JobFailure `row_too_long` for `count` rows, of which the longest are given as (tokens, place)."""
    if not count:
        return
    named = ", ".join(f"{place} ({tokens} tokens)" for tokens, place in longest)
    raise JobFailure(
        "row_too_long",
        f"{count_rows(count)} {what}: {named}{and_more(count)}",
        hint=hint,
        rows=[{"line": place, "tokens": tokens} for tokens, place in longest],
        count=count,
    )


def refuse_untrained_rows(empty: RefusedRows) -> None:
    """Raise JobFailure `nothing_to_train` for rows of which no token would be trained."""
    if not empty.count:
        return
    places = [place for place, _ in empty.named]
    raise JobFailure(
        "nothing_to_train",
        f"{count_rows(empty.count)} without a token to train on: {', '.join(places)}{and_more(empty.count)}",
        hint="Give these rows an answer, or change the loss group so that it covers one.",
        rows=[{"line": place} for place in places],
        count=empty.count,
    )


def count_rows(count: int) -> str:
    """`1 row`, `7 rows`."""
    return "1 row" if count == 1 else f"{count} rows"


def and_more(count: int) -> str:
    """What follows the named ones, where they are not all of `count`."""
    return f" and {count - NAMED_ROWS} more" if count > NAMED_ROWS else ""

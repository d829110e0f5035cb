"""The rows of a dataset that refuse it, collected over the whole of it and told once."""

from __future__ import annotations

from optimize_child.failures import JobFailure

NAMED_ROWS = 20


def refuse_rows(bad: list[tuple[str, str]], what: str, hint: str, *, total: int | None = None) -> None:
    """Raise JobFailure `bad_row` for the refused rows, the first of them named with their reasons; `total` is how many
    there are where `bad` does not hold them all."""
    if not bad:
        return
    count = total or len(bad)
    named = "; ".join(f"{place}: {text}" for place, text in bad[:NAMED_ROWS])
    raise JobFailure(
        "bad_row",
        f"{count_rows(count)} {what}. {named}{and_more(count)}",
        hint=hint,
        rows=[{"line": place, "reason": text} for place, text in bad[:NAMED_ROWS]],
        count=count,
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


def refuse_untrained_rows(places: list[str]) -> None:
    """Raise JobFailure `nothing_to_train` for rows of which no token would be trained."""
    if not places:
        return
    raise JobFailure(
        "nothing_to_train",
        f"{count_rows(len(places))} without a token to train on: "
        f"{', '.join(places[:NAMED_ROWS])}{and_more(len(places))}",
        hint="Give these rows an answer, or change the loss group so that it covers one.",
        rows=[{"line": place} for place in places[:NAMED_ROWS]],
        count=len(places),
    )


def count_rows(count: int) -> str:
    """`1 row`, `7 rows`."""
    return "1 row" if count == 1 else f"{count} rows"


def and_more(count: int) -> str:
    """What follows the named ones, where they are not all of `count`."""
    return f" and {count - NAMED_ROWS} more" if count > NAMED_ROWS else ""

"""How alike the completions of one update are. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Variety:
    """Shares between 0 and 1 of one update's completions.

    `repeated` is the share that says what an earlier one said already. `shared` is the share whose words another
    prompt got too, which is how a policy that gives one answer to everything looks. `distinct_pairs` is how many of
    all pairs of neighbouring words are different ones.
    """

    repeated: float
    shared: float
    distinct_pairs: float | None


def variety_of(completions: Sequence[tuple[int, str]]) -> Variety:
    """The variety of completions, each with the number of its group (its prompt). Raises ValueError without any."""
    if not completions:
        raise ValueError("variety needs at least one completion")
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for group, text in completions:
        groups[said(text)].add(group)
    count = len(completions)
    shared = sum(len(groups[said(text)]) > 1 for _, text in completions)
    pairs = [pair for _, text in completions for pair in pairwise(text.split())]
    return Variety(1 - len(groups) / count, shared / count, len(set(pairs)) / len(pairs) if pairs else None)


def said(text: str) -> str:
    """What two completions are compared by: their words, whatever the white space between them."""
    return " ".join(text.split())


def most_repeated(completions: Sequence[tuple[int, str]], most: int) -> list[tuple[str, int, int]]:
    """The texts that came more than once, the commonest first: text, how often, for how many prompts."""
    counts = Counter(said(text) for _, text in completions)
    groups: defaultdict[str, set[int]] = defaultdict(set)
    for group, text in completions:
        groups[said(text)].add(group)
    repeated = [(text, count) for text, count in counts.most_common() if count > 1]
    return [(text, count, len(groups[text])) for text, count in repeated[:most]]

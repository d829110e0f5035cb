"""Write train.jsonl and eval.jsonl from the hand-written tables in sources/.

Run it with any Python from 3.11 on: `python make.py`. The same sources give the same bytes.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

FOLDER = Path(__file__).resolve().parent
SOURCES = FOLDER / "sources"
SEED = "support-triage 1"
ROWS_PER_CELL = 48
MAX_WORDS = 80
OVERLAP_WORDS = 6
PROBLEMS = {"high", "normal"}
SHORTENED = {
    "please": "pls", "because": "bc", "Thanks": "Thx", "you": "u", "are": "r", "cannot": "cant",
    "I'm": "im", "don't": "dont", "can't": "cant", "doesn't": "doesnt", "didn't": "didnt", "I've": "ive",
}  # fmt: skip


@dataclass(frozen=True)
class Ticket:
    """A customer's text with the two labels of its expected answer."""

    queue: str
    priority: str
    text: str

    def row(self, system: str) -> dict[str, list[dict[str, str]]]:
        """The ticket as one chat row whose last message is the answer."""
        answer = json.dumps({"queue": self.queue, "priority": self.priority}, separators=(",", ":"))
        turns = {"system": system, "user": self.text, "assistant": answer}
        return {"messages": [{"role": role, "content": content} for role, content in turns.items()]}


def read_table(name: str) -> list[list[str]]:
    """The cells of a table whose columns are parted by `|`; a line that starts with `#` is a comment."""
    lines = (SOURCES / name).read_text(encoding="utf-8").splitlines()
    return [line.split("|", 2) for line in lines if line and not line.startswith("#")]


def read_tickets(name: str) -> list[Ticket]:
    """Every ticket of a queue|priority|text table, line breaks restored."""
    return [Ticket(queue, priority, text.replace("\\n", "\n")) for queue, priority, text in read_table(name)]


class Phrases:
    """The fragments and slot fillers that dress a scenario up as a whole ticket."""

    def __init__(self) -> None:
        self.fragments: dict[tuple[str, str], list[str]] = defaultdict(list)
        for kind, scope, text in read_table("fragments.txt"):
            self.fragments[kind, scope].append(text)
        self.fillers: dict[str, list[str]] = defaultdict(list)
        for slot, value in read_table("fillers.txt"):
            self.fillers[slot].append(value)

    def pick(self, kind: str, scopes: list[str], random: Random) -> str:
        """One fragment of a kind, from any of the scopes."""
        return random.choice(self.of(kind, scopes))

    def of(self, kind: str, scopes: list[str]) -> list[str]:
        """All fragments of a kind within the scopes."""
        return [text for scope in scopes for text in self.fragments[kind, scope]]

    def fill(self, text: str, random: Random) -> str:
        """The text with each slot filled, the same way wherever it stands."""
        slots = {slot: random.choice(values) for slot, values in self.fillers.items()}
        number = str(random.randint(10_000, 989_999))
        return text.format(number=number, **{slot: value.format(number=number) for slot, value in slots.items()})


def compose(scenario: Ticket, phrases: Phrases, random: Random) -> str:
    """A whole ticket around a scenario: each part around it comes or stays away by chance."""
    problem = ["problem"] if scenario.priority in PROBLEMS else []
    mood = ["any", *problem, scenario.priority]
    about = [*mood, scenario.queue] if problem else mood
    num_contexts = random.choice([0, 0, 1, 1, 2])
    parts = [scenario.text, *random.sample(phrases.of("context", about), num_contexts)]
    if random.random() < 0.15:
        parts = with_aside(parts, scenario.queue, phrases, random)
    if random.random() < 0.55:
        parts.append(phrases.pick("closing", [scenario.priority], random))
    if random.random() < 0.5:
        parts.insert(0, phrases.pick("opening", mood, random))
    return phrases.fill(" ".join(parts) + sign_off(phrases, random), random)


def with_aside(parts: list[str], queue: str, phrases: Phrases, random: Random) -> list[str]:
    """The parts with a remark about another queue, which must not decide the labels."""
    others = sorted(scope for kind, scope in phrases.fragments if kind == "aside" and scope != queue)
    aside = phrases.pick("aside", others, random)
    if random.random() < 0.6:
        return [*parts, aside]
    return [aside, phrases.pick("bridge", ["any"], random), *parts]


def sign_off(phrases: Phrases, random: Random) -> str:
    """A sign-off on the same or a new line, or nothing."""
    if random.random() > 0.35:
        return ""
    return random.choice([" ", "\n"]) + phrases.pick("signoff", ["any"], random)


def roughen(text: str, random: Random) -> str:
    """The text as a hurried person types it; about half of the tickets stay as they are."""
    if random.random() < 0.35:
        text = mistype(text, random)
    if random.random() < 0.25:
        text = shorten(text)
    if random.random() < 0.2:
        text = text.lower()
    if random.random() < 0.1:
        text = text.rstrip(".").replace(".", "...", 1)
    return text


def mistype(text: str, random: Random) -> str:
    """The text with one to three of its longer words misspelt."""
    words = [match.span() for match in re.finditer(r"[a-z]{5,}", text)]
    chosen = random.sample(words, min(len(words), random.randint(1, 3)))
    for start, end in sorted(chosen, reverse=True):
        text = text[:start] + misspell(text[start:end], random) + text[end:]
    return text


def misspell(word: str, random: Random) -> str:
    """The word with two inner letters swapped, or one left out or doubled."""
    at = random.randint(1, len(word) - 3)
    first, second = word[at], word[at + 1]
    return word[:at] + random.choice([second + first, second, first + first + second]) + word[at + 2 :]


def shorten(text: str) -> str:
    """The text in the spelling of a short message."""
    return re.sub(r"[A-Za-z']+", lambda match: SHORTENED.get(match[0], match[0]), text)


def fingerprint(text: str) -> str:
    """What stays the same between tickets which differ in numbers, case and punctuation alone."""
    return " ".join(words_of(text))


def words_of(text: str) -> list[str]:
    """The lowercase words of a text, letters only."""
    return re.findall(r"[a-z]+", text.lower())


def generate(scenarios: list[Ticket]) -> list[Ticket]:
    """The training tickets: every cell as large as the others, no two alike, in mixed order."""
    phrases, seen, tickets = Phrases(), set[str](), []
    for cell in group_cells(scenarios).values():
        for number in range(ROWS_PER_CELL):
            scenario = cell[number % len(cell)]
            text = next(text for text in drafts(scenario, number, phrases) if fingerprint(text) not in seen)
            seen.add(fingerprint(text))
            tickets.append(Ticket(scenario.queue, scenario.priority, text))
    return mixed(tickets)


def group_cells(tickets: list[Ticket]) -> dict[tuple[str, str], list[Ticket]]:
    """Tickets by their pair of labels, each group in an order of its own."""
    cells: dict[tuple[str, str], list[Ticket]] = defaultdict(list)
    for ticket in mixed(tickets):
        cells[ticket.queue, ticket.priority].append(ticket)
    return {key: cells[key] for key in sorted(cells)}


def drafts(scenario: Ticket, number: int, phrases: Phrases) -> Iterator[str]:
    """Ever new texts for a scenario, none of them too long."""
    random = Random(f"{SEED}/{number}/{scenario.text}")
    while True:
        text = roughen(compose(scenario, phrases, random), random)
        if len(text.split()) <= MAX_WORDS:
            yield text


def mixed(tickets: list[Ticket]) -> list[Ticket]:
    """The tickets in an order that is shuffled, and always the same."""
    return Random(SEED).sample(tickets, len(tickets))


def shared_phrases(some: list[Ticket], others: list[Ticket]) -> set[str]:
    """Every run of six words that occurs in a ticket of both lists."""
    return phrases_of(some) & phrases_of(others)


def phrases_of(tickets: list[Ticket]) -> set[str]:
    """Every run of six words within one ticket."""
    size, found = OVERLAP_WORDS, set[str]()
    for ticket in tickets:
        words = words_of(ticket.text)
        found.update(" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    return found


def encode(tickets: list[Ticket]) -> bytes:
    """Tickets as chat JSONL."""
    system = (SOURCES / "system.txt").read_text(encoding="utf-8").strip()
    return "".join(json.dumps(ticket.row(system), ensure_ascii=False) + "\n" for ticket in tickets).encode()


def build() -> dict[str, bytes]:
    """The content of both files by name; refuses splits that share a phrase."""
    scenarios, held_out = read_tickets("scenarios.txt"), read_tickets("held_out.txt")
    train = generate(scenarios)
    if shared := shared_phrases(scenarios + train, held_out):
        raise SystemExit("Both splits contain: " + "; ".join(sorted(shared)))
    return {"train.jsonl": encode(train), "eval.jsonl": encode(mixed(held_out))}


def main() -> None:
    """Write both files beside this script and say how large they are."""
    for name, content in build().items():
        (FOLDER / name).write_bytes(content)
        print(f"{name}: {len(content.splitlines())} rows, {len(content)} bytes")


if __name__ == "__main__":
    main()

"""P21: answers a second that a bundle's function scores in its sandbox, against the same function called in-process."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.measure import Arm, arguments, interleave, judge, load_before, seconds
from evaluations.bundles.scorer import BundleScorer
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item
from optimize_site.kernel.archives import pack_folder

LIMIT = 0.5
BUNDLE = Path(__file__).resolve().parent.parent / "catalogs" / "examples" / "arithmetic-scoring" / "scoring"
WORDS = ("so the number of apples is then added to what was left of the first basket which gives us and twice that "
         "would be half as many again per week")


def main(argv: list[str]) -> int:
    """Both arms score the same answers, about as long as GSM8K's, all in one call of the scorer."""
    parser = arguments(__doc__ or "", repeats=8)
    parser.add_argument("--answers", type=int, default=20_000)
    parser.add_argument("--function", default="compute_score")
    options = parser.parse_args(argv)
    load, items = load_before(), answers(options.answers)
    function = in_process(options.function)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "bundle.zip"
        with archive.open("wb") as file:
            pack_folder(BUNDLE, file)
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        scorer = BundleScorer(archive, "reward", options.function, Limits(), Path(folder), sha256=sha256)
        try:
            ours = Arm("sandbox, answers a second", lambda: len(items) / seconds(lambda: scorer.score(items)))
            theirs = Arm("in-process, answers a second", lambda: len(items) / seconds(lambda: called(function, items)))
            interleave(ours, theirs, options.repeats)
        finally:
            scorer.close()
    print(f"  walls: {', '.join(scorer.walls.held)}")
    return judge("P21", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load, more=True)


def called(function: Callable[..., Any], items: Sequence[Item]) -> list[Any]:
    """What somebody without a box does."""
    return [function(solution_str=item.completion, ground_truth=item.expected) for item in items]


def in_process(name: str) -> Callable[..., Any]:
    """The same function, imported here."""
    place = importlib.util.spec_from_file_location("scoring", BUNDLE / "__init__.py",
                                                   submodule_search_locations=[str(BUNDLE)])
    assert place is not None
    sys.modules["scoring"] = importlib.util.module_from_spec(place)
    module = importlib.import_module("scoring.reward")
    return getattr(module, name)  # type: ignore[no-any-return]


def answers(count: int) -> list[Item]:
    """Made-up chains of thought of some hundred words that end in a number, two of three of them right."""
    draw = random.Random(21)
    found = []
    for row in range(count):
        number = draw.randrange(1, 5000)
        lines = [" ".join(draw.choices(WORDS.split(), k=draw.randrange(8, 20))) + f" = {draw.randrange(999)}."
                 for _ in range(draw.randrange(4, 12))]
        said = number + (row % 3 == 0)
        found.append(Item(row, [{"role": "user", "content": lines[0]}], "\n".join([*lines, f"#### {said:,}"]),
                          "\n".join([*lines[:4], f"#### {number}"])))
    return found

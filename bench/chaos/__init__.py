"""Chaos: random faults by a seed on a real box, and what was lost by them. It must be nothing.

Two runs at a time of four kinds (supervised, supervised with dropout, preference pairs, a branch) train a tiny model;
processes are killed, stopped and woken too late, messages lost and doubled, saves spoiled, the disk filled, the power
cut, the clock set, runs paused and cancelled.
Each run must end with the bytes, the figures and the record of the run that nothing happened to.

With --aimed, nothing is random: one run after another stands still as it leaves each of its phases, and each process of
the box is killed, or stopped, once at each of these places.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from bench.chaos.aimed import Passage
from bench.chaos.aims import JUDGED_PLACES, PLACES, Aim, kinds_at, passages
from bench.chaos.campaign import Campaign
from bench.chaos.faults.files import small_disk
from bench.chaos.lives import JUDGED, JUDGES, Lives
from bench.chaos.report import Played, Tally, read_tally, unplayable
from bench.chaos.schedule import WEIGHTS
from tests.e2e import running
from tests.e2e.conftest import Box

TELL = partial(print, flush=True)
AIMED = "aimed"


def main(argv: list[str]) -> int:
    """0: nothing lost. 1: the lines that begin with LOST say what."""
    options = _chosen(argv)
    name: int | str = AIMED if options.aimed else options.seed
    tally = read_tally(options.resume, name) if options.resume else Tally()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the box is put down all the same
    with _box(is_kept=lambda: bool(tally.lost) and options.keep) as box:
        if options.aimed:
            play_aimed(box, tally)
        else:
            campaign = Campaign(running.http_of(box, "chaos"), seed=options.seed, tally=tally, tell=TELL)
            campaign.prepare()
            campaign.play(options.faults)
    report(tally, name, _aimed_kinds() if options.aimed else list(WEIGHTS))
    return 1 if tally.lost else 0


def _chosen(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench chaos", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="what happens, and in which order")
    parser.add_argument("--faults", type=int, default=20,
                        help="how many are injected at least, those in the report included")
    parser.add_argument("--aimed", action="store_true", help="each process at each phase of a run, once")
    parser.add_argument("--keep", action="store_true", help="leave the box's state folder where something was lost")
    parser.add_argument("--resume", type=Path, metavar="REPORT",
                        help="keep each round in this file and go on behind those that it holds")
    return parser.parse_args(argv)


@contextmanager
def _box(*, is_kept: Callable[[], bool]) -> Iterator[Box]:
    """A box of its own, up, whose attempts lie on a disk that can be filled."""
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    with small_disk(folder / "home" / "attempts") as why_not:
        if why_not:
            TELL(f"  The disk cannot be filled: {why_not}")
        box = running.ready_box(folder / "home", folder / "material")
        try:
            yield box
        finally:
            box.down()
    if not is_kept():
        shutil.rmtree(folder, ignore_errors=True)


def play_aimed(box: Box, tally: Tally) -> None:
    """Every passage that the tally lacks, until one that the box did not survive."""
    (box.home / "settings.toml").write_text(JUDGES)
    lives = Lives(running.http_of(box, "chaos"), 0)
    lives.prepare(("sft", JUDGED))
    for number, (life, aims) in islice(enumerate(all_passages(), 1), tally.rounds, None):
        played = _passed(lives, life, aims, number)
        tally.add(played)
        TELL(str(played))
        if not played.is_whole:
            break


def _passed(lives: Lives, life: str, aims: tuple[Aim, ...], number: int) -> Played:
    try:
        return Passage(lives.http, lives, life, aims).play(number)
    except (AssertionError, OSError) as error:
        return unplayable(number, (life,), error)


def all_passages() -> list[tuple[str, tuple[Aim, ...]]]:
    """The aims of each run of the aimed campaign, and the run's kind."""
    return [*(("sft", aims) for aims in passages(PLACES)), *((JUDGED, aims) for aims in passages(JUDGED_PLACES))]


def _aimed_kinds() -> list[str]:
    return list(dict.fromkeys(kind for phase in PLACES for kind in kinds_at(phase)))


def report(tally: Tally, name: int | str, kinds: list[str]) -> None:
    """How many faults of which kind, which kinds never found anything to strike, and what was lost."""
    for kind, count in tally.injected.most_common():
        print(f"  {count:4}  {kind}")
    for kind in set(kinds) - tally.injected.keys():
        print(f"  NEVER: {kind}{f', tried {tally.missed[kind]} times' if tally.missed[kind] else ''}")
    if name == AIMED:
        for aim in tally.missed:
            print(f"  NOTHING TO STRIKE: {aim}")
    print("  met runs in " + ", ".join(f"{phase} {count}" for phase, count in tally.phases.most_common()))
    for what in tally.lost:
        print(f"  LOST: {what}")
    print(f"chaos, {AIMED if name == AIMED else f'seed {name}'}: {tally.faults} faults in {tally.rounds} rounds, "
          f"{tally.attempts} attempts, {tally.seconds} s; lost: {len(tally.lost)}")

"""Chaos: random faults by a seed on a real box, and what was lost by them. It must be nothing.

Two runs at a time of four kinds (supervised, supervised with dropout, preference pairs, a branch) train a tiny model;
processes are killed and stopped, messages lost and doubled, saves spoiled, the power cut, runs paused and cancelled.
Each run must end with the bytes, the figures and the record of the run that nothing happened to.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.chaos.campaign import Campaign, Tally
from tests.e2e import running


def main(argv: list[str]) -> int:
    """0: nothing lost. 1: the lines that begin with LOST say what."""
    parser = argparse.ArgumentParser(prog="python -m bench chaos", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="what happens, and in which order")
    parser.add_argument("--faults", type=int, default=20, help="how many are injected at least")
    parser.add_argument("--keep", action="store_true", help="leave the box's state folder where something was lost")
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    box = running.ready_box(folder / "home", folder / "material")
    began = time.monotonic()
    try:
        campaign = Campaign(running.http_of(box, "chaos"), seed=options.seed, tell=partial(print, flush=True))
        campaign.prepare()
        tally = campaign.play(options.faults)
    finally:
        box.down()
    report(tally, seed=options.seed, seconds=time.monotonic() - began)
    if not (tally.lost and options.keep):
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if tally.lost else 0


def report(tally: Tally, *, seed: int, seconds: float) -> None:
    """How many faults of which kind, and what was lost."""
    for kind, count in tally.injected.most_common():
        print(f"  {count:4}  {kind}")
    for what in tally.lost:
        print(f"  LOST: {what}")
    print(f"chaos, seed {seed}: {tally.faults} faults in {tally.rounds} rounds of two runs, {tally.attempts} attempts, "
          f"{seconds:.0f} s; lost: {len(tally.lost)}")

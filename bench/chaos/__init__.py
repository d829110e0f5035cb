"""Chaos: random faults by a seed on a real box, and what was lost by them. It must be nothing.

Two runs at a time of four kinds (supervised, supervised with dropout, preference pairs, a branch) train a tiny model;
processes are killed, stopped and woken too late, messages lost and doubled, saves spoiled, the disk filled, the power
cut, the clock set, runs paused and cancelled.
Each run must end with the bytes, the figures and the record of the run that nothing happened to.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.chaos.campaign import Campaign
from bench.chaos.report import Tally, read_tally
from bench.chaos.schedule import WEIGHTS
from tests.e2e import running


def main(argv: list[str]) -> int:
    """0: nothing lost. 1: the lines that begin with LOST say what."""
    parser = argparse.ArgumentParser(prog="python -m bench chaos", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="what happens, and in which order")
    parser.add_argument("--faults", type=int, default=20,
                        help="how many are injected at least, those in the report included")
    parser.add_argument("--keep", action="store_true", help="leave the box's state folder where something was lost")
    parser.add_argument("--resume", type=Path, metavar="REPORT",
                        help="keep each round in this file and go on behind those that it holds")
    options = parser.parse_args(argv)
    tally = read_tally(options.resume, options.seed) if options.resume else Tally()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the box is put down all the same
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    is_mounted = small_disk(folder / "home" / "attempts")
    box = running.ready_box(folder / "home", folder / "material")
    try:
        tell = partial(print, flush=True)
        campaign = Campaign(running.http_of(box, "chaos"), seed=options.seed, tally=tally, tell=tell)
        campaign.prepare()
        campaign.play(options.faults)
    finally:
        box.down()
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder / "home" / "attempts")], check=False)
    report(tally, seed=options.seed)
    if not (tally.lost and options.keep):
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if tally.lost else 0


def small_disk(folder: Path) -> bool:
    """A disk in memory for the attempts' folders, which can be filled; False where nothing may be mounted."""
    folder.mkdir(parents=True, mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=1g,mode=700", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def report(tally: Tally, *, seed: int) -> None:
    """How many faults of which kind, which kinds never found anything to strike, and what was lost."""
    for kind, count in tally.injected.most_common():
        print(f"  {count:4}  {kind}")
    for kind in WEIGHTS.keys() - tally.injected.keys():
        print(f"  NEVER: {kind}{f', tried {tally.missed[kind]} times' if tally.missed[kind] else ''}")
    print("  met runs in " + ", ".join(f"{phase} {count}" for phase, count in tally.phases.most_common()))
    for what in tally.lost:
        print(f"  LOST: {what}")
    print(f"chaos, seed {seed}: {tally.faults} faults in {tally.rounds} rounds of two runs, {tally.attempts} attempts, "
          f"{tally.seconds} s; lost: {len(tally.lost)}")

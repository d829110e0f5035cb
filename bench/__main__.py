"""`python -m bench NAME [options]` runs one bar; without a name it lists them."""

import sys
from importlib import import_module

BARS = {
    "p1": "time of a training step against a plain TRL script",
    "p1b": "processor time of a whole job against the same entry run by hand",
    "p2": "time of an update over preference pairs, or of rewarded completions, against TRL's own trainer",
    "p3": "losses against plain TRL's on the same rows",
    "p4": "losses and adapter of a run that was paused, or killed, and went on, against the undisturbed run",
    "p5": "time of an update with a save after each one against none",
    "p6": "bytes registered a second against hashing and parsing them",
    "p7": "memory of the web process while a gigabyte is uploaded",
    "p8": "a second upload of the same bytes against the first",
    "p9": "rows a second of an analysis against bare rendering and tokenising",
    "p10": "a dry run over a dataset of 256 MiB",
    "p11": "figures stored a second against MLflow's tracking store",
    "p12": "figures stored a second against bare inserts",
    "p13": "storing a batch again with a long history against a short one",
    "p17": "from the request to the end of the first step, against a plain script's start",
    "p18": "from a slot that is free to the start of the job that waits for it",
    "p19": "from an accepted pause to the job's end, over one update and one save",
    "p20": "tokens answered a second against plain generation",
    "p21": "answers a second that a bundle's function scores in its sandbox, against calling it",
    "p22": "from the death of everything with many open runs to every phase being true",
    "p23": "what an idle box costs",
    "chaos": "random faults by a seed on a real box, and what was lost by them",
}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in BARS:
        print("python -m bench NAME, where NAME is one of:")
        print("\n".join(f"  {name:5} {what}" for name, what in BARS.items()))
        return 2
    return int(import_module(f"bench.{sys.argv[1]}").main(sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())

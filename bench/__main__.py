"""`python -m bench NAME [options]` runs one bar; without a name it lists them."""

import sys
from importlib import import_module

BARS = {
    "p1": "time of a training step against a plain TRL script",
    "p1b": "processor time of a whole job against the same entry run by hand",
    "p2": "time of an update over preference pairs against TRL's own trainer",
    "p3": "losses against plain TRL's on the same rows",
    "p5": "time of an update with a save after each one against none",
    "p6": "bytes registered a second against hashing and parsing them",
    "p7": "memory of the web process while a gigabyte is uploaded",
    "p8": "a second upload of the same bytes against the first",
    "p9": "rows a second of an analysis against bare rendering and tokenising",
    "p10": "a dry run over a dataset of 256 MiB",
    "p17": "from the request to the end of the first step, against a plain script's start",
    "p20": "tokens answered a second against plain generation",
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

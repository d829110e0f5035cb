"""The process that looks at stretches for another: `python -m datasets.helper`, a region in, a stretch out.

It ends with its asker, whose end closes its standard input.
"""

import sys

import orjson

from datasets.stretches import Region, examine_region


def main() -> None:
    """Answer every line of standard input."""
    for line in sys.stdin.buffer:
        answer = orjson.dumps(examine_region(Region(**orjson.loads(line))).state(), option=orjson.OPT_NON_STR_KEYS)
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

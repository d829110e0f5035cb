"""The confined process as a program: `python -I -S inside CONFIGURATION`, the configuration as JSON."""

import sys
from pathlib import Path

PROJECT = str(Path(__file__).resolve().parent.parent.parent.parent)
sys.path[:] = [PROJECT, *[place for place in sys.path if place != str(Path(__file__).resolve().parent)]]

from evaluations.bundles.inside.serving import main  # noqa: E402 - found by the line above

sys.path.remove(PROJECT)
main(sys.argv[1])

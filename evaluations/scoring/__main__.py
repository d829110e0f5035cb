"""The scorer process as a program: its own Python finds the project from this file, whatever the environment says."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from evaluations.scoring.process import main

sys.exit(main())

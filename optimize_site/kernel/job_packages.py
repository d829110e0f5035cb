"""What is installed where jobs run, read from the disk: the server imports none of it."""

import os
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def jobs_venv() -> Path:
    """The job environment: OPTIMIZE_JOBS_VENV, else `.venv-jobs` beside this checkout."""
    return Path(os.environ.get("OPTIMIZE_JOBS_VENV") or REPOSITORY / ".venv-jobs")


def installed_version(package: str, *, python: str = "") -> str:
    """The version of a package in the environment of an interpreter, the jobs' unless another is named; a build of its
    own for processors (`PACKAGE-cpu`) counts. Empty where there is none."""
    venv = Path(python).parent.parent if python else jobs_venv()
    named = re.compile(rf"{re.escape(package)}(?:_cpu)?-(\d[^-]*)\.dist-info")
    found = [match[1] for folder in sorted(venv.glob("lib/python3.*/site-packages/*.dist-info"))
             if (match := named.fullmatch(folder.name))]
    return found[-1] if found else ""

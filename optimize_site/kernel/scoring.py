"""How the scorer process is started, which says what a reward or an evaluation's grader makes of answers.

It is a process of the server's own Python, whoever starts it: a job too, whose own Python has none of its packages.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from optimize_site.kernel.conf import setting

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
VARIABLE = re.compile(r"\S+ +[^=\s]+=env:(\w+)")
PROJECT = Path(__file__).resolve().parent.parent.parent


def scorer_command() -> list[str]:
    """The words that start it, in any folder and under any environment: nothing of either reaches its modules."""
    return [sys.executable, "-I", str(PROJECT / "evaluations" / "scoring" / "__main__.py")]


def scorer_environment() -> dict[str, str]:
    """What the process sees of the box's environment: what any program needs, and what it is to prove itself with."""
    return {name: os.environ[name] for name in (*PASSED_ON, *header_variables()) if name in os.environ}


def header_variables() -> list[str]:
    """The variables that hold a header which a service is sent, as the operator stated it."""
    found = [VARIABLE.fullmatch(entry.strip()) for entry in setting("trainer.graders.http-headers")]
    return [match[1] for match in found if match is not None]


def scorer_start(spec: dict[str, Any]) -> dict[str, Any]:
    """How a job starts the process: the command, the first line it reads, and which variables it sees besides what any
    program needs; their values stand in no plan."""
    return {"command": scorer_command(), "cwd": str(PROJECT), "spec": spec, "environment": header_variables()}


def scoring_limits() -> dict[str, Any]:
    """What one answer may cost a term, and which hosts may be asked, as the operator stated it."""
    return {"seconds": float(setting("trainer.graders.seconds")),
            "memoryBytes": int(setting("trainer.graders.memory-bytes")),
            "http": {"allowedHosts": list(setting("trainer.graders.http-hosts")),
                     "caFile": setting("trainer.graders.http-ca-file"),
                     "headers": list(setting("trainer.graders.http-headers"))},
            "bundles": {"unsandboxed": bool(setting("trainer.bundles.allow-unsandboxed"))}}

"""How the scorer process is started, which says what a reward or an evaluation's grader makes of answers.

It is a process of the server's own Python, whoever starts it: a job too, whose own Python has none of its packages.
"""

import os
import sys
from pathlib import Path
from typing import Any

from optimize_site.kernel.conf import setting

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
PROJECT = Path(__file__).resolve().parent.parent.parent


def scorer_command() -> list[str]:
    """The words that start it, in any folder and under any environment: nothing of either reaches its modules."""
    return [sys.executable, "-I", str(PROJECT / "evaluations" / "scoring" / "__main__.py")]


def scorer_environment() -> dict[str, str]:
    """What the process sees of the box's environment: what any program needs, and no secrets."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def scoring_limits() -> dict[str, Any]:
    """What one answer may cost a term, and which hosts may be asked, as the operator stated it."""
    return {"seconds": float(setting("trainer.graders.seconds")),
            "memoryBytes": int(setting("trainer.graders.memory-bytes")),
            "http": {"allowedHosts": list(setting("trainer.graders.http-hosts")),
                     "caFile": setting("trainer.graders.http-ca-file")},
            "bundles": {"unsandboxed": bool(setting("trainer.bundles.allow-unsandboxed"))}}
